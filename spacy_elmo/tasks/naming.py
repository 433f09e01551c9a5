"""How errors name a Doc."""

from collections.abc import Iterator

from spacy.tokens import Doc, Span


def name_of(doc: Doc) -> str:
    """RETURNS (str): Its first words, by which an error names a Doc."""
    return repr(doc[:8].text + (" ..." if len(doc) > 8 else ""))


def checked_spans(doc: Doc, key: str, *, labeled: bool = True) -> Iterator[Span]:
    """Read a span group with annotations.

    doc (Doc): The Doc.
    key (str): The key of the group, which may be missing.
    labeled (bool): Whether its spans need a label.
    YIELDS (Span): A span.
    RAISES (ValueError): A span has no tokens, or no label.
    """
    for span in doc.spans.get(key, ()):
        missing = "tokens" if span.start >= span.end else "label"
        if missing == "tokens" or (labeled and not span.label_.strip()):
            raise ValueError(
                f"the span {span.label_} ({span.start}, {span.end}) of doc.spans[{key!r}] in the "
                f"Doc {name_of(doc)} has no {missing}: correct it, or leave it out"
            )
        yield span
