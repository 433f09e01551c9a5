"""Spans of Docs: checks, names for error messages, and alignment with another Doc."""

from collections.abc import Callable, Iterator
from typing import Any, Optional

import numpy as np
from spacy.attrs import ORTH
from spacy.tokens import Doc, Span
from spacy.training import Example


def name_of(doc: Doc) -> str:
    """Return the first 8 words of a Doc, as its name in error messages."""
    return repr(doc[:8].text + (" ..." if len(doc) > 8 else ""))


def span_error(span: Span, key: Optional[str], fault: str) -> ValueError:
    """Return an error about a wrong span in the annotation.

    key (Optional[str]): The key of its span group; None for an entity.
    fault (str): What is wrong, and what to do.
    """
    return ValueError(
        f"the span {span.label_ or repr(span.text)} ({span.start}, {span.end}) of {place_of(key)} "
        f"in the Doc {name_of(span.doc)} {fault}"
    )


def place_of(key: Optional[str]) -> str:
    """Return "doc.spans[KEY]", or "doc.ents" if the key is None, as text for error messages."""
    return "doc.ents" if key is None else f"doc.spans[{key!r}]"


def checked_spans(doc: Doc, key: str, *, labeled: bool = True) -> Iterator[Span]:
    """Check and yield the spans of a group. Yield nothing if the Doc has no such group.

    labeled (bool): Whether each span must have a label.
    RAISES (ValueError): A span has no tokens, or no label.
    """
    for span in doc.spans.get(key, ()):
        missing = "tokens" if span.start >= span.end else "label"
        if missing == "tokens" or (labeled and not span.label_.strip()):
            raise span_error(span, key, f"has no {missing}. Correct or remove it")
        yield span


def to_predicted(example: Example) -> "Aligner":
    """Make the aligner from the reference to the predicted Doc."""
    return Aligner(example.reference, example.predicted, lambda: example.alignment.y2x)


def to_reference(example: Example) -> "Aligner":
    """Make the aligner from the predicted Doc to the reference."""
    return Aligner(example.predicted, example.reference, lambda: example.alignment.x2y)


class Aligner:
    """Map from the tokens and spans of a Doc to those of another Doc of the same text.

    The Docs are aligned once for all spans. spaCy's own functions align the Docs at each call.

    other (Doc): Its whitespace may differ.
    align (Callable[[], AlignmentArray]): Makes spaCy's alignment from `doc` to `other`. It is only
        called if their tokens differ.
    """

    def __init__(self, doc: Doc, other: Doc, align: Callable[[], Any]):
        self.doc, self.other = doc, other
        is_same = np.array_equal(doc.to_array(ORTH), other.to_array(ORTH))
        self.alignment = None if is_same else align()

    def tokens(self, start: int, end: int) -> list[int]:
        """Return the tokens of the other Doc that share characters with `doc[start:end]`."""
        if self.alignment is None:
            return list(range(start, end))
        return [int(token) for token in self.alignment[start:end]]

    def span(self, start: int, end: int) -> Optional[tuple[int, int]]:
        """Find the span of the other Doc that has the same text as `doc[start:end]`.

        Whitespace and case may differ.

        RETURNS (Optional[Tuple[int, int]]): First token and the token after the last one; None if
            no span has this text.
        """
        tokens = self.tokens(start, end)
        if not tokens:
            return None
        first, last = tokens[0], tokens[-1] + 1
        texts = [doc[i:j].text for doc, i, j in ((self.doc, start, end), (self.other, first, last))]
        one, other = ("".join(text.split()).lower() for text in texts)
        return (first, last) if one == other else None

    def around(self, start: int, end: int) -> Optional[tuple[int, int]]:
        """Find the smallest span in the other Doc that covers `doc[start:end]`.

        RETURNS (Optional[Tuple[int, int]]): First token and the token after the last one; None if
            no token of the other Doc shares characters with the span.
        """
        tokens = self.tokens(start, end)
        return (min(tokens), max(tokens) + 1) if tokens else None
