"""Layouts: the arrays of a weights file, and their conversion to parameters.

A format describes its file once, as a list of `Entry`. Both `read_parameters` and `stored_arrays`
use this list, so reading and writing always agree.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

import numpy as np

from ..files import OpenedFile
from ..files.errors import named_errors, shortened
from ..frozen.model import FrozenBiLM
from ..model.config import FORGET_BIAS, BiLMConfig, swapped_gates
from ..model.memory import Weights
from ..model.vocabulary import Vocabularies
from .archives import File

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Entry:
    """Array in a weights file with its name and shape, and the BiLM parameters that it contains.

    to_parameters (Callable): Converts the array to the parameters.
    to_stored (Callable): Converts the parameters to the array.
    """

    name: str
    shape: Shape
    parameters: tuple[str, ...]
    to_parameters: Callable[[np.ndarray], list[np.ndarray]]
    to_stored: Callable[[list[np.ndarray]], np.ndarray]


class StoredArrays(dict[str, Any]):
    """Arrays of a weights file by name. Base class: each library that reads files has a subclass.

    kind (str): Name of an array in this format, such as "dataset", for error messages.
    arrays (Mapping[str, Any]): The arrays, as objects of the library.
    source (str): Name of the file in error messages.
    """

    kind = "tensor"

    def __init__(self, arrays: Mapping[str, Any], source: str):
        super().__init__(arrays)
        self.source = source

    def shape(self, name: str) -> Optional[Shape]:
        """Return the shape of an array; None if it does not exist.

        RAISES (ValueError): The array does not contain floats, or is incomplete.
        """
        return self._checked_shape(name) if name in self else None

    def _checked_shape(self, name: str) -> Shape:
        raise NotImplementedError

    def read(self, name: str) -> np.ndarray:
        """Return an array of floats."""
        raise NotImplementedError


def read_parameters(
    layout: Iterable[Entry],
    stored: StoredArrays,
    sizes_from: str,
    accounted: tuple[str, ...] = ("",),
) -> dict[str, np.ndarray]:
    """Read the parameters of a model from the arrays of a layout.

    sizes_from (str): Source of the sizes, for error messages: "according to SIZES_FROM".
    accounted (Tuple[str, ...]): Prefixes of array names. An array that is not in the layout is an
        error if its name has one of these prefixes; otherwise it is ignored. Default: no array is
        ignored.
    RETURNS (Dict[str, numpy.ndarray]): float16 if the file has float16, otherwise float32.
    RAISES (ValueError): An array is missing or unexpected, has another shape, or is not finite.
    """
    entries = {entry.name: entry for entry in layout}
    for name in stored:
        if name not in entries and name.startswith(accounted):
            raise ValueError(
                f"{stored.source}: {stored.kind} {shortened(name)} {shortened(stored.shape(name))} "
                f"does not belong to the model described by {sizes_from}"
            )
    parameters = {}
    for entry in entries.values():
        what = f"{stored.source}: {stored.kind} '{entry.name}'"
        shape = stored.shape(entry.name)  # This also checks that the array contains floats.
        if shape is None:
            raise ValueError(
                f"{what} is missing. According to {sizes_from}, its shape is {entry.shape}"
            )
        if shape != entry.shape:
            raise ValueError(
                f"{what} has shape {shortened(shape)}. According to {sizes_from}, it should be "
                f"{entry.shape}"
            )
        values = stored.read(entry.name)
        if not np.isfinite(values).all():
            raise ValueError(
                f"{what} contains values that are not finite. The file is broken: copy it again"
            )
        for name, array in zip(entry.parameters, entry.to_parameters(values)):
            dtype = "float16" if array.dtype == "float16" else "float32"
            parameters[name] = np.ascontiguousarray(array, dtype=dtype)
    return parameters


def stored_arrays(
    layout: Iterable[Entry], parameters: Mapping[str, np.ndarray]
) -> Iterator[tuple[str, np.ndarray]]:
    """Convert parameters to the arrays of a layout. Yield each name and its float32 values."""
    for entry in layout:
        values = entry.to_stored([parameters[name] for name in entry.parameters])
        yield entry.name, np.ascontiguousarray(values, dtype="float32")


def plain(
    name: str,
    shape: Shape,
    parameter: str,
    convert: Callable[[np.ndarray], np.ndarray] = lambda values: values,
) -> Entry:
    """Make the entry of an array that contains one parameter.

    convert (Callable): Converts the array to the parameter and back, so it must be its own inverse,
        such as `numpy.transpose`. Default: no conversion.
    """
    return Entry(
        name, shape, (parameter,), lambda values: [convert(values)], lambda arrays: convert(*arrays)
    )


def without_forget_bias(values: np.ndarray) -> np.ndarray:
    """Convert the bias of PyTorch's LSTM to the bias of `FrozenBiLM`.

    The bias of `FrozenBiLM` has another order of gates, and does not include `FORGET_BIAS`, which
    is added when the model runs.
    """
    i, j, f, o = np.split(swapped_gates(values), 4)
    return np.concatenate([i, j, f - np.float32(FORGET_BIAS), o])


def with_forget_bias(bias: np.ndarray) -> np.ndarray:
    """Convert the bias of `FrozenBiLM` to the bias of PyTorch's LSTM."""
    i, j, f, o = np.split(bias, 4)
    return np.asarray(swapped_gates(np.concatenate([i, j, f + np.float32(FORGET_BIAS), o])))


def build(
    config: BiLMConfig,
    vocabularies: Vocabularies,
    parameters: dict[str, np.ndarray],
    *,
    source: File,
    read: Optional[Callable[[], dict[str, np.ndarray]]] = None,
) -> FrozenBiLM:
    """Make a `FrozenBiLM` from its parts, with the name of `source` in its provenance.

    source (Union[Path, zipfile.Path]): File or folder of the parameters.
    read (Optional[Callable]): Function from `reread`. With it, the model can drop the parameters
        from memory and read them again. Default: the parameters stay in memory.
    RAISES (ValueError): The vocabularies do not fit the sizes.
    """
    provenance = {"source": source.name}
    with named_errors(source):
        return FrozenBiLM(config, vocabularies, Weights(parameters, read), provenance=provenance)


def open_files(*files: File) -> list[OpenedFile]:
    """Open the files of a model, so that `reread` can read them again.

    RETURNS (List[OpenedFile]): Empty if a file is in an archive or cannot be opened, or on Windows,
        where `OpenedFile` does not work.
    """
    paths = [file for file in files if isinstance(file, Path) and file.is_file()]
    if len(paths) == len(files) and hasattr(os, "pread"):
        with suppress(OSError):
            return [OpenedFile(path) for path in paths]
    return []


def reread(
    files: list[OpenedFile], read: Callable[..., dict[str, np.ndarray]]
) -> Optional[Callable[[], dict[str, np.ndarray]]]:
    """Return a function that reads the parameters of a model again from its open files.

    files (List[OpenedFile]): Result of `open_files`.
    RETURNS (Optional[Callable]): It raises an error if a file has changed. None if `files` is
        empty, or a file was replaced since it was opened.
    """
    if not files or not all(file.is_at_its_path() for file in files):
        return None

    def read_again() -> dict[str, np.ndarray]:
        again = read(*files)
        for file in files:
            file.check()
        return again

    return read_again
