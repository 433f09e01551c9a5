"""What may stand in an AllenNLP file beside the biLM: the softmax, with its vocabulary
beside the file, and provenance. AllenNLP looks at none of it."""

from pathlib import Path
from typing import Any, Optional

import h5py
import numpy as np
import srsly

PROVENANCE = "spacy_elmo_provenance"
WEIGHT, BIAS = "softmax/W", "softmax/b"
# The beginnings of all names that mean something to a reader.
_KNOWN = ("char_embed", "CNN", "RNN_", "rnn/", "embedding", "softmax/")

Softmax = tuple[np.ndarray, np.ndarray]


def write_extras(weights: Path, *, softmax: Optional[Softmax], provenance: dict[str, Any]) -> None:
    """Add to an HDF5 file.

    weights (Path): The file.
    softmax (Optional[Tuple[numpy.ndarray, numpy.ndarray]]): Weight, *Shape:* `(V, P)`,
        and bias, *Shape:* `(V,)`.
    provenance (dict): How the model came about, as JSON.
    """
    with h5py.File(weights, "a") as file:
        if softmax is not None:
            for name, values in zip((WEIGHT, BIAS), softmax):
                file[name] = np.ascontiguousarray(values, dtype="float32")
        file.attrs[PROVENANCE] = srsly.json_dumps(provenance)


def read_softmax(weights: Path) -> Optional[Softmax]:
    """RETURNS (Optional[Tuple[numpy.ndarray, numpy.ndarray]]): Weight, *Shape:*
    `(V, P)`, and bias, *Shape:* `(V,)`, of the softmax, if there is one.
    RAISES (ValueError): One of the two is missing, or is no array of floats."""
    with h5py.File(weights, "r") as file:
        found = {name: file[name] for name in (WEIGHT, BIAS) if name in file}
        for name in (WEIGHT, BIAS) if found else ():
            dataset = found.get(name)
            if not isinstance(dataset, h5py.Dataset) or dataset.dtype.kind != "f":
                raise ValueError(f"{weights}: '{name}' is missing, or holds no floats")
        arrays = [np.asarray(dataset[()], dtype="float32") for dataset in found.values()]
    return (arrays[0], arrays[1]) if arrays else None


def read_provenance(weights: Path) -> Optional[dict[str, Any]]:
    """RETURNS (Optional[dict]): The provenance, if spacy-elmo wrote the file.
    RAISES (ValueError): It is no JSON object."""
    with h5py.File(weights, "r") as file:
        text = file.attrs.get(PROVENANCE)
    provenance = {} if text is None else srsly.json_loads(str(text))
    if not isinstance(provenance, dict):
        raise ValueError(f"{weights}: its provenance is no JSON object")
    return None if text is None else provenance


def unknown_datasets(weights: Path) -> list[str]:
    """RETURNS (List[str]): The datasets that no reader knows."""
    names: list[str] = []

    def note(name: str, item: object) -> None:
        if isinstance(item, h5py.Dataset) and not name.startswith(_KNOWN):
            names.append(name)

    with h5py.File(weights, "r") as file:
        file.visititems(note)
    return names


def beside(weights: Path, name: str) -> Path:
    """The file that belongs to weights: `elmo_small_vocab.txt` to
    `elmo_small_weights.hdf5`.

    weights (Path): The HDF5 file.
    name (str): "options.json" or "vocab.txt".
    RETURNS (Path): The other file.
    """
    return weights.with_name(weights.stem.removesuffix("weights") + name)


def find_beside(weights: Path, name: str) -> Optional[Path]:
    """RETURNS (Optional[Path]): The file that belongs to weights, by its own name or
    by the general one, if it is there."""
    candidates = (beside(weights, name), weights.with_name(name))
    return next((path for path in candidates if path.is_file()), None)
