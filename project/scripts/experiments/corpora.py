"""This module opens corpora by the readers that the configs name."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from spacy import registry
from spacy.language import Language
from spacy.training import Corpus, Example

CORPUS = "spacy.Corpus.v1"


def open_corpus(path: Path, block: Mapping[str, Any]) -> Callable[[Language], Iterator[Example]]:
    """RETURNS (Callable): The reader of a block of a config's `corpora`, for another file."""
    if block["@readers"] == CORPUS:
        return Corpus(path, gold_preproc=block["gold_preproc"])
    read: Callable[[Language], Iterator[Example]]
    read = registry.get("readers", block["@readers"])(path=path)
    return read
