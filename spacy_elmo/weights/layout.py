"""What a file of weights should hold, and how it becomes parameters."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Optional, Protocol

import numpy as np

from ..files import OpenedFile
from ..files.errors import named_errors
from ..frozen.config import BiLMConfig, shortened
from ..frozen.model import FrozenBiLM, Weights
from ..frozen.vocabulary import Vocabularies
from .archives import File

Arrays = list[np.ndarray]
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Entry:
    """One array of a file, and the parameters it holds.

    name (str): Its name in the file.
    shape (Tuple[int, ...]): Its shape in the file.
    parameters (Tuple[str, ...]): Names of the parameters of a BiLM.
    to_parameters (Callable): From the array to those parameters.
    to_stored (Callable): From those parameters to the array.
    """

    name: str
    shape: Shape
    parameters: tuple[str, ...]
    to_parameters: Callable[[np.ndarray], Arrays]
    to_stored: Callable[[Arrays], np.ndarray]


class StoredArrays(Protocol):
    """A file of weights.

    kind (str): What the file calls an array.
    source (str): Name of the file in messages.
    """

    kind: str
    source: str

    def __iter__(self) -> Iterator[str]:
        """RETURNS (Iterator[str]): The names of all arrays."""

    def shape(self, name: str) -> Optional[Shape]:
        """RETURNS (Optional[Tuple[int, ...]]): Shape of an array, None if there is none.
        RAISES (ValueError): It is none of floating point numbers, or not all there."""

    def read(self, name: str) -> np.ndarray:
        """RETURNS (numpy.ndarray): An array of floats."""


def read_parameters(
    layout: Iterable[Entry],
    stored: StoredArrays,
    sizes_from: str,
    accounted: tuple[str, ...] = ("",),
) -> dict[str, np.ndarray]:
    """Read every array of a layout. A layer more than the sizes say is a mismatch as
    much as one less.

    layout (Iterable[Entry]): What should be there.
    stored (StoredArrays): The file.
    sizes_from (str): Name of what says the sizes, for messages.
    accounted (Tuple[str, ...]): Beginnings of the names that all need a place in
        the layout; others are no matter.
    RETURNS (Dict[str, numpy.ndarray]): The parameters, in float32, or as they are in float16.
    RAISES (ValueError): An array is missing or has no place, is of another shape or
        not finite.
    """
    entries = {entry.name: entry for entry in layout}
    for name in stored:
        if name not in entries and name.startswith(accounted):
            raise ValueError(
                f"{stored.source}: {stored.kind} {shortened(name)} "
                f"{shortened(stored.shape(name))} has no place in the model that {sizes_from} "
                f"describes"
            )
    parameters = {}
    for entry in entries.values():
        what = f"{stored.source}: {stored.kind} '{entry.name}'"
        shape = stored.shape(entry.name)
        if shape is None:
            raise ValueError(
                f"{what} is missing; by {sizes_from} its shape should be {entry.shape}"
            )
        if shape != entry.shape:
            raise ValueError(
                f"{what} has shape {shortened(shape)}, by {sizes_from} it should be {entry.shape}"
            )
        values = stored.read(entry.name)
        if not np.isfinite(values).all():
            raise ValueError(f"{what} holds values that are not finite: the file is broken")
        for name, array in zip(entry.parameters, entry.to_parameters(values)):
            dtype = "float16" if array.dtype == "float16" else "float32"
            parameters[name] = np.ascontiguousarray(array, dtype=dtype)
    return parameters


def stored_arrays(
    layout: Iterable[Entry], parameters: Mapping[str, np.ndarray]
) -> Iterator[tuple[str, np.ndarray]]:
    """Every array of a layout, to be written.

    layout (Iterable[Entry]): What the file is to hold.
    parameters (Mapping[str, numpy.ndarray]): The parameters of a BiLM.
    YIELDS (Tuple[str, numpy.ndarray]): Name and values, in float32.
    """
    for entry in layout:
        values = entry.to_stored([parameters[name] for name in entry.parameters])
        yield entry.name, np.ascontiguousarray(values, dtype="float32")


def plain(name: str, shape: Shape, parameter: str) -> Entry:
    """RETURNS (Entry): An array that is a parameter."""
    return Entry(name, shape, (parameter,), lambda values: [values], lambda arrays: arrays[0])


def transposed(name: str, shape: Shape, parameter: str) -> Entry:
    """RETURNS (Entry): An array that is a parameter, transposed."""
    return Entry(name, shape, (parameter,), lambda values: [values.T], lambda arrays: arrays[0].T)


def build(
    config: BiLMConfig,
    vocabularies: Vocabularies,
    parameters: dict[str, np.ndarray],
    *,
    source: File,
    read: Optional[Callable[[], dict[str, np.ndarray]]] = None,
) -> FrozenBiLM:
    """Make a model of its parts.

    config (BiLMConfig): The sizes.
    vocabularies (Vocabularies): What the token encoder looks up.
    parameters (Dict[str, numpy.ndarray]): All parameters, of the right shapes.
    source (Union[Path, zipfile.Path]): What they were read from.
    read (Optional[Callable]): Reads them again.
    RETURNS (FrozenBiLM): The model.
    RAISES (ValueError): The vocabularies do not fit.
    """
    provenance = {"source": source.name}
    with named_errors(source):
        return FrozenBiLM(config, vocabularies, Weights(parameters, read), provenance=provenance)


def open_files(*files: File) -> list[OpenedFile]:
    """Open the files of a model, before they are read.

    files (Union[Path, zipfile.Path]): The files.
    RETURNS (List[OpenedFile]): The same; none if one is in an archive, cannot be opened, or the
        system cannot read one as `OpenedFile` does (Windows).
    """
    paths = [file for file in files if isinstance(file, Path) and file.is_file()]
    if len(paths) < len(files) or not hasattr(os, "preadv"):
        return []
    try:
        return [OpenedFile(path) for path in paths]
    except OSError:
        return []


def reread(
    files: list[OpenedFile], read: Callable[..., dict[str, np.ndarray]]
) -> Optional[Callable[[], dict[str, np.ndarray]]]:
    """Make the function that reads parameters again.

    files (List[OpenedFile]): What `open_files` gave before they were read.
    read (Callable): Reads the parameters of the opened files.
    RETURNS (Optional[Callable]): The function; None if the files cannot be read again, or were
        replaced meanwhile.
    """
    if not files or not all(file.is_at_its_path() for file in files):
        return None

    def read_again() -> dict[str, np.ndarray]:
        again = read(*files)
        for file in files:
            file.check()
        return again

    return read_again
