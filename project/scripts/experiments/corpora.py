"""Access to corpora by the readers in the training configs."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from spacy import registry
from spacy.language import Language
from spacy.training import Corpus, Example

CORPUS = "spacy.Corpus.v1"


def open_corpus(path: Path, block: Mapping[str, Any]) -> Callable[[Language], Iterator[Example]]:
    """Create the reader that a block of a config describes, but for another file.

    path (Path): The file to read.
    block (Mapping[str, Any]): A block of the config's section `[corpora]`.
    RETURNS (Callable): The corpus: a function from `nlp` to examples.
    """
    if block["@readers"] == CORPUS:
        return Corpus(path, gold_preproc=block["gold_preproc"])
    read: Callable[[Language], Iterator[Example]]
    read = registry.get("readers", block["@readers"])(path=path)
    return read
