"""Spans of one Doc in the tokens of another of the same text, and how errors name a Doc."""

from collections.abc import Callable
from typing import Optional

from spacy.tokens import Doc, Span


def align_span(span: Span, other: Doc, tokens_of: Callable) -> Optional[tuple[int, int]]:
    """Find a span in another Doc.

    span (Span): The span.
    other (Doc): A Doc of the same text.
    tokens_of (Callable): Gives the other Doc's tokens for a slice of tokens, as an `Alignment`
        of spaCy does.
    RETURNS (Optional[Tuple[int, int]]): The first token and the token after the last one; None
        where the Doc has no tokens for just this text.
    """
    tokens = tokens_of(slice(span.start, span.end))
    if not len(tokens):
        return None
    start, end = int(tokens[0]), int(tokens[-1]) + 1
    return (start, end) if _letters(span) == _letters(other[start:end]) else None


def _letters(span: Span) -> str:
    return "".join(span.text.split()).lower()


def name_of(doc: Doc) -> str:
    """RETURNS (str): Its first words, by which an error names a Doc."""
    return repr(doc[:8].text + (" ..." if len(doc) > 8 else ""))
