"""Spans of one Doc in the tokens of another of the same text."""

from collections.abc import Callable
from typing import Any, Optional

import numpy as np
from spacy.attrs import ORTH
from spacy.tokens import Doc, Span
from spacy.training import Example

Align = Callable[[int, int], Optional[tuple[int, int]]]


def to_predicted(example: Example) -> Align:
    """RETURNS (Callable[[int, int], Optional[Tuple[int, int]]]): From the first token of a span of
    the reference, and the token after its last one, to those of the predicted Doc; to None
    where, as spaCy has it, the span has no tokens of its own."""
    return _aligner(example.reference, example.predicted, lambda: example.alignment.y2x)


def to_reference(example: Example) -> Align:
    """RETURNS (Callable[[int, int], Optional[Tuple[int, int]]]): As `to_predicted`, the other way
    round."""
    return _aligner(example.predicted, example.reference, lambda: example.alignment.x2y)


def _aligner(doc: Doc, other: Doc, make: Callable[[], Any]) -> Align:
    """Align once for all spans: spaCy compares the whole Docs at each call."""
    if np.array_equal(doc.to_array(ORTH), other.to_array(ORTH)):
        return lambda start, end: (start, end)
    tokens_of = make()

    def align(start: int, end: int) -> Optional[tuple[int, int]]:
        tokens = tokens_of[start:end]
        if not len(tokens):
            return None
        first, last = int(tokens[0]), int(tokens[-1]) + 1
        return (first, last) if _same(doc[start:end], other[first:last]) else None

    return align


def _same(span: Span, other: Span) -> bool:
    return "".join(span.text.split()).lower() == "".join(other.text.split()).lower()
