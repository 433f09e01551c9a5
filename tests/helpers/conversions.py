"""A model as `pretrain` writes it, to convert, and the comparison of two."""

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from spacy_elmo.bilm.softmax import LanguageModelSoftmax
from spacy_elmo.language_model.model import LanguageModel, save_model
from spacy_elmo.model.vocabulary import Vocabulary
from spacy_elmo.weights import read_weights

from helpers.models import SENTENCES, tiny_module

WORDS = ["<S>", "</S>", "<UNK>", "the", "naïve", "日本"]
PROVENANCE = {"tokens": 7, "corpus": {"sha256": "ab", "train": "/é"}, "perplexity": {"mean": 1.5}}
TARGETS = {"safetensors": "a.safetensors", "allennlp": "weights.hdf5", "pipeline": "a"}


def make_model(
    seed: int = 0, kind: Any = LanguageModelSoftmax, words: Sequence[str] = WORDS
) -> LanguageModel:
    torch.manual_seed(seed)
    softmax = kind(n_words=len(words), width=5)
    for parameter in softmax.parameters():
        torch.nn.init.normal_(parameter)
    return LanguageModel(tiny_module(seed), softmax, Vocabulary(words))


def write_source(folder: Path) -> Path:
    """Write `make_model()` as a German pipeline, and return its folder."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    save_model(make_model(), folder, lang="de", provenance=PROVENANCE)
    return folder


def assert_same_vectors(path: Path, expected: Path) -> None:
    """Bit by bit: of every layer, and the state."""
    layers, state = read_weights(path).embed(SENTENCES)
    wanted, wanted_state = read_weights(expected).embed(SENTENCES)
    for got, want in zip([*layers, *vars(state).values()], [*wanted, *vars(wanted_state).values()]):
        assert got.tobytes() == want.tobytes()


def read_zip(path: Path) -> dict[str, bytes]:
    """Return the content of each file of an archive."""
    with zipfile.ZipFile(path) as archive:
        return {info.filename: archive.read(info) for info in archive.infolist()}


def write_zip(path: Path, files: dict[str, bytes], packing: int = zipfile.ZIP_STORED) -> Path:
    """Write an archive of these files, one after another; return its path."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data, packing)
    return path
