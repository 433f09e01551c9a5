"""Docs of spaCy's binary format."""

from collections.abc import Iterator

from spacy.tokens import DocBin

from ..files.docbin import BROKEN
from .entries import Entry
from .making import DocMaker
from .pieces import Piece
from .text_input import Progress


def read_docbin(file: Piece, maker: DocMaker, progress: Progress) -> Iterator[Entry]:
    """Read the Docs of a `.spacy` file, which spaCy holds in memory as a whole. The
    sequences are those that the pipe cuts a Doc into.

    file (Piece): The file, or a part of it.
    maker (DocMaker): Cuts the Docs.
    progress (Callable[[int], object]): Told how many bytes more were read.
    YIELDS (Entry): A Doc.
    RAISES (ValueError): It is no such file, or broken.
    """
    try:
        data = file.read_bytes()
        docs = DocBin().from_bytes(data)
    except BROKEN as error:
        raise ValueError(f"{file} is no .spacy file, or broken: {error}") from error
    reached, size = 0, len(data)
    stream = docs.get_docs(maker.nlp.vocab)
    with maker.nlp.memory_zone():  # one for all Docs: their strings come with the first
        for number in range(1, len(docs) + 1):
            try:
                entry = maker.entry(next(stream))
            except BROKEN as error:
                raise ValueError(f"{file}: a Doc of it cannot be read: {error}") from error
            yield entry
            before, reached = reached, size * number // len(docs)
            progress(reached - before)
