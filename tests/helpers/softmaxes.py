"""Language models that predict words, as AllenNLP's files with a softmax."""

from pathlib import Path
from typing import Any

import numpy as np

from helpers import reference
from helpers.models import ONE_DIRECTION, renamed, tiny_options

WORDS = ["<S>", "</S>", "<UNK>", "the", "cat", "sat", "naïve", "."]


def _model(options: dict, n_words: int = 0) -> tuple[dict, reference.Datasets]:
    softmax = reference.random_softmax(options, len(WORDS))
    return options, {**reference.random_datasets(options, 4, n_words), **softmax}


def bytes_model(**changes: Any) -> tuple[dict, reference.Datasets]:
    """Options and datasets of a model that reads characters."""
    return _model(tiny_options(**changes))


def word_model() -> tuple[dict, reference.Datasets]:
    """Return a model that reads only whole words, the same as it predicts."""
    return _model({"lstm": tiny_options()["lstm"]}, len(WORDS))


def forward_model() -> tuple[dict, reference.Datasets]:
    """Return a model without a backward direction."""
    return _model({**tiny_options(), "bidirectional": False})


MODELS = {"bytes": bytes_model, "words": word_model, "forward": forward_model}


def write_model(folder: Path, options: dict, datasets: reference.Datasets) -> Path:
    """Write a model with its vocabulary; bilm-tf's names are used for a single direction."""
    if options.get("bidirectional") is False:
        datasets = renamed(datasets, ONE_DIRECTION)
    return reference.write_hdf5(folder, options, datasets, WORDS)


def read_words(options: dict) -> list[str] | None:
    """The words that the model reads, as `reference` takes them."""
    return None if "char_cnn" in options else WORDS


def losses_of(
    options: dict, datasets: reference.Datasets, sentences: list[list[str]]
) -> list[list[float]]:
    """Compute the losses in float64, sentence by sentence from a zero state, which is carried.

    RETURNS (List[List[float]]): The negative log-likelihood of each prediction of each direction.
    """
    found: list[list[float]] = []
    for direction in range(1 if "bidirectional" in options else 2):
        cells, losses = None, []
        for sentence in sentences:
            marked = ["<S>", *sentence, "</S>"][:: -1 if direction else 1]
            predicted, cells = reference.log_probabilities(
                options, datasets, marked[:-1], direction, cells, read_words(options)
            )
            ids = [WORDS.index(word) if word in WORDS else 2 for word in marked[1:]]
            losses += (-predicted[np.arange(len(ids)), ids]).tolist()
        found.append(losses)
    return found
