"""Language models and text for the other benchmarks."""

import gzip
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, Optional

import torch
from spacy.language import Language

from spacy_elmo.bilm.model import BiLM
from spacy_elmo.frozen.model import FrozenBiLM
from spacy_elmo.model.config import BiLMConfig
from spacy_elmo.pipeline.elmo import Elmo
from spacy_elmo.weights import read_weights

FILTERS = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))
FINAL = (".", "!", "?")
# "default" has the package's default sizes, the others those of the published models.
SIZES = {
    "default": BiLMConfig(),
    "small": BiLMConfig(lstm_dim=1024, projection_dim=128, filters=FILTERS, n_highway=1),
    "medium": BiLMConfig(lstm_dim=2048, projection_dim=256, filters=FILTERS, n_highway=1),
    "original": BiLMConfig(lstm_dim=4096, projection_dim=512, filters=FILTERS, n_highway=2),
}


def make_model(size: str, weights: Optional[str] = None) -> FrozenBiLM:
    """Return a model with random weights of a size, or read `weights` if given."""
    if weights:
        return read_weights(weights)
    torch.manual_seed(0)
    return BiLM(SIZES[size]).freeze()


def add_elmo(nlp: Language, bilm: FrozenBiLM, **settings: Any) -> Elmo:
    """Add an `elmo` pipe with this language model to a pipeline."""
    sizes = {"@architectures": "spacy-elmo.BiLM.v1", **bilm.config.to_dict()}
    pipe = nlp.add_pipe("elmo", config={"model": sizes, "weights": None, **settings})
    pipe.set_bilm(bilm)
    return pipe


def read_sentences(path: Path, *, paragraphs: bool = False) -> Iterator[list[str]]:
    """Yield the sentences of a text file that have at least three tokens.

    path (Path): A `.txt` or `.txt.gz` file with tokens separated by spaces.
    paragraphs (bool): Whether to yield whole lines, as for WikiText-2. Otherwise, a line is split
        after sentence-final punctuation.
    YIELDS (List[str]): The tokens of a sentence.
    """
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf8") as file:
        for line in file:
            tokens = line.split()
            ends = [i + 1 for i, token in enumerate(tokens) if token in FINAL and not paragraphs]
            for start, end in pairwise([0, *ends, len(tokens)]):
                if end - start >= 3:
                    yield tokens[start:end]


def memory(name: str = "VmRSS") -> float:
    """Return the memory of this process in MB: current ("VmRSS") or peak ("VmHWM").

    `getrusage` is not used, because its peak includes the parent process.
    """
    lines = Path("/proc/self/status").read_text("utf8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) / 1024
