"""CoNLL-U (universaldependencies.org/format.html), a sentence at a time."""

from collections.abc import Iterator

from ..text.reading import NOT_UTF8, refuse
from .entries import Entry, sentence
from .pieces import Source
from .text_input import Progress, chunks_of, lines_of

COLUMNS = 10


def read_conllu(file: Source, progress: Progress) -> Iterator[Entry]:
    """Read the sentences of a file. Tokens are its words, with numbers as ids: what
    stands for several words, and words that are not in the text, are left out.

    file (Union[Path, Piece]): The file, or a part of it.
    progress (Callable[[int], object]): Told how many bytes more were read.
    YIELDS (Entry): A sentence.
    RAISES (ValueError): It is no such file.
    """
    words: list[str] = []
    for chunk in chunks_of(file, progress, by_paragraph=True):
        for number, line in lines_of(chunk) if chunk.data else ():
            line = line.rstrip(b"\r")
            if not line.strip():
                if words:
                    yield sentence(words)
                words = []
            elif not line.startswith(b"#"):
                words.extend(_words(file, number, line))
    if words:
        yield sentence(words)


def _words(file: Source, number: int, line: bytes) -> list[str]:
    """The word of a line, if there is one."""
    try:
        columns = line.decode("utf8").split("\t")
    except UnicodeDecodeError:
        refuse(file, number, NOT_UTF8)
    is_word = columns[0].isdecimal()
    if len(columns) != COLUMNS or not (is_word or columns[0].replace(".", "-").count("-") == 1):
        refuse(file, number, f"no line of CoNLL-U, which has {COLUMNS} columns, the first an id")
    return [columns[1]] if is_word else []
