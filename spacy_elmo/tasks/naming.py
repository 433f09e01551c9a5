"""How errors name a Doc."""

from spacy.tokens import Doc


def name_of(doc: Doc) -> str:
    """RETURNS (str): Its first words, by which an error names a Doc."""
    return repr(doc[:8].text + (" ..." if len(doc) > 8 else ""))
