"""What may stand in an AllenNLP file beside the biLM: the softmax, with its vocabulary
beside the file, and provenance. AllenNLP looks at none of it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Optional

import h5py
import numpy as np
import srsly

from ..files.hdf5 import guarded_hdf5
from . import manylangs, safetensors_file
from .allennlp import EMBEDDING, OUR_GROUPS, VOCABULARY_FILE, Files, beside, find
from .archives import File, opened, opened_path
from .hdf5_file import open_hdf5

PROVENANCE = "spacy_elmo_provenance"
SOFTMAX = "softmax/"
WEIGHT, BIAS = f"{SOFTMAX}W", f"{SOFTMAX}b"


def write_extras(
    weights: Path,
    *,
    softmax: Optional[tuple[np.ndarray, np.ndarray]],
    provenance: dict[str, Any],
) -> None:
    """Add to an HDF5 file. `allennlp.read_softmax` reads the softmax.

    weights (Path): The file.
    softmax (Optional[Tuple[numpy.ndarray, numpy.ndarray]]): Weight, *Shape:* `(V, P)`,
        and bias, *Shape:* `(V,)`.
    provenance (dict): How the model came about, as JSON.
    """
    with guarded_hdf5(weights, "r+") as (file, check):
        if softmax is not None:
            for name, values in zip((WEIGHT, BIAS), softmax):
                file[name] = np.ascontiguousarray(values, dtype="float32")
                check()
        file.attrs[PROVENANCE] = srsly.json_dumps(provenance)


@contextmanager
def opened_files(path: Path) -> Iterator[Optional[Files]]:
    """Open a model for the time of the context, if it is of this format.

    path (Path): Where a readable model is.
    YIELDS (Optional[Tuple[File, File]]): The options and the weights file.
    RAISES (ValueError): As `allennlp.find`.
    """
    is_ours = path.exists() and safetensors_file.find(path) is not None
    with opened_path(path) as inside:
        yield None if is_ours or manylangs.find(inside) is not None else find(inside)


def has_vocabulary(weights: File) -> bool:
    """RETURNS (bool): Whether there is a vocabulary beside the weights."""
    return any(path.is_file() for path in beside(weights, VOCABULARY_FILE))


def has_softmax(weights: File) -> bool:
    """RETURNS (bool): Whether there is a softmax, or a part of one."""
    with open_hdf5(weights) as stored:
        return any(name.startswith(SOFTMAX) for name in stored)


def read_provenance(weights: File) -> Optional[dict[str, Any]]:
    """RETURNS (Optional[dict]): The provenance, if spacy-elmo wrote the file.
    RAISES (ValueError): It is no JSON object."""
    with opened(weights) as stream, h5py.File(stream, "r") as file:
        text = file.attrs.get(PROVENANCE)
    provenance = {} if text is None else srsly.json_loads(str(text))
    if not isinstance(provenance, dict):
        raise ValueError(f"{weights}: its provenance is no JSON object")
    return None if text is None else provenance


def unknown_datasets(weights: File) -> list[str]:
    """RETURNS (List[str]): The datasets that no reader knows."""
    known = (*OUR_GROUPS, EMBEDDING, SOFTMAX)
    with open_hdf5(weights) as stored:
        return [name for name in stored if not name.startswith(known)]
