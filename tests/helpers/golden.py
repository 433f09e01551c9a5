"""Golden files of tests/fixtures: outputs of other programs, and of earlier commits."""

from pathlib import Path

import h5py
import numpy as np
import srsly

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
BILM_TF = FIXTURES / "bilm_tf"
BILM_TF_MODELS = ("skip", "plain")
MANYLANGS = FIXTURES / "manylangs"
SAVED = FIXTURES / "saved"
WORDNET = FIXTURES / "wordnet"


def read_batches() -> list[list[list[str]]]:
    """Return the eight batches that bilm-tf read one after another.

    RETURNS (List[List[List[str]]]): For each batch, a sentence from each of the three streams.
    """
    return [list(batch) for batch in zip(*srsly.read_json(BILM_TF / "sentences.json"))]


def read_bilm_tf(name: str) -> list[list[np.ndarray]]:
    """Return TensorFlow's outputs for the batches, with the state carried.

    RETURNS (List[List[numpy.ndarray]]): All layers. *Shape:* `(L + 1, n_tokens, 2P)`
    """
    with h5py.File(BILM_TF / name / "layers.hdf5") as file:
        streams, batches = range(len(file)), range(len(file["0"]))
        return [[file[f"{stream}/{batch}"][()] for stream in streams] for batch in batches]


def read_manylangs() -> tuple[list[list[str]], list[np.ndarray]]:
    """Return sentences, and the outputs of ELMoForManyLangs from a zero state.

    RETURNS (Tuple[List[List[str]], List[numpy.ndarray]]): The sentences, and all layers of each.
        *Shape:* `(L + 1, n_tokens, 2P)`
    """
    sentences = srsly.read_json(MANYLANGS / "sentences.json")
    with h5py.File(MANYLANGS / "reference_layers.hdf5") as file:
        return sentences, [file[str(i)][()] for i in range(len(sentences))]
