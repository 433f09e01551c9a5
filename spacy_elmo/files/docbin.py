"""Reader of spaCy's binary format (`.spacy`)."""

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from .errors import named_errors

if TYPE_CHECKING:
    from spacy.tokens import Doc
    from spacy.vocab import Vocab

# Errors that spaCy raises for other formats.
BROKEN = ValueError, KeyError, TypeError, IndexError, AttributeError, zlib.error


def read_docbin(path: Path, vocab: "Vocab") -> Iterator["Doc"]:
    """Read the Docs of a `.spacy` file.

    path (Path): The file.
    vocab (Vocab): The vocab of the Docs.
    YIELDS (Doc): A Doc.
    RAISES (ValueError): The file is not a `.spacy` file, or it is broken.
    """
    from spacy.tokens import DocBin

    with named_errors(f"{path} is not a .spacy file, or it is broken", BROKEN):
        yield from DocBin().from_disk(path).get_docs(vocab)
