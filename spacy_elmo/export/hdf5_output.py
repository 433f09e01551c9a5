"""Output in HDF5, in the layout of AllenNLP's command `elmo`."""

import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from ..files.hdf5 import guarded_hdf5, text_attribute
from .entries import INDEX, Embedded, Source, WriteOptions, index_json, parse_settings

SUFFIXES = (".hdf5", ".h5")
IS_FOLDER = False
SETTINGS = "spacy_elmo"
MAX_SETTINGS = 1 << 24  # Maximum bytes of the settings in a file of another program.
BESIDE = {"starts": "int32", "ends": "int32", "labels": h5py.string_dtype()}
# This version of the format writes any number of datasets in bounded memory.
OLDEST = h5py.h5f.LIBVER_V18


def write(
    path: Path, entries: Iterable[Embedded], settings: dict[str, Any], options: WriteOptions
) -> None:
    """Write an HDF5 file. Each entry is a dataset; its name is the entry's index in the output.

    If `options.texts` is "index", the dataset `sentence_to_index` maps each text to the index of
    its last entry, in JSON.

    The place of an entry in the input, and other columns such as `scales`, are attributes of its
    dataset.

    path (Path): The file.
    entries (Iterable[Embedded]): The entries.
    settings (dict): Settings of the run. They become an attribute of the file.
    options (WriteOptions): Options of the format.
    RAISES (ValueError): `options.texts` is "keys", and a sentence cannot be the name of a dataset.
    """
    last: dict[str, int] = {}
    # Without `guarded_hdf5`, HDF5 ends the process when the disk is full.
    with guarded_hdf5(path, oldest=OLDEST) as (file, check):
        file.attrs[SETTINGS] = json.dumps(settings)
        for i, entry in enumerate(entries, options.first):
            if options.texts == "keys":
                _write_by_sentence(file, entry, i)
            else:
                _write_array(file, str(i), entry)
            for name, values in entry.beside.items():
                kind = BESIDE.get(name, "float32")
                file[str(i)].attrs.create(name, np.array(values, kind), dtype=kind)
            check()
            if options.texts == "index":
                last[json.dumps(entry.text)] = i
        if options.texts == "index":
            file.create_dataset(INDEX, data=np.array([index_json(last)]), track_times=False)


def read_settings(path: Path) -> dict[str, Any]:
    """Read the settings that `write` stored; empty if another program wrote the file."""
    try:
        with h5py.File(path, "r") as file:
            return parse_settings(text_attribute(file, SETTINGS, MAX_SETTINGS))
    except (OSError, ValueError, RuntimeError):  # HDF5 raises these for broken files.
        return {}


def _write_by_sentence(file: h5py.File, entry: Embedded, i: int) -> None:
    name = entry.text
    if "/" in name or "\0" in name or name == ".":
        raise ValueError(
            f"sentence {i} cannot be the name of a dataset: {name[:80]!r}. Run again with "
            f"`resume=True` and without `texts=keys` to number the sentences."
        )
    if name and name not in file:
        dataset = file.create_dataset(name, data=entry.vectors, track_times=False)
        _write_source(dataset.id, entry.source)


def _write_array(file: h5py.File, name: str, entry: Embedded) -> None:
    """Write a dataset. This is several times faster than `create_dataset`."""
    array = entry.vectors
    space = h5py.h5s.create_simple(array.shape)
    kind, properties = _layout(array.dtype)
    dataset = h5py.h5d.create(file.id, name.encode("ascii"), kind, space, properties)
    if array.size:
        dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, np.ascontiguousarray(array))
    _write_source(dataset, entry.source)


def _write_source(dataset: h5py.h5d.DatasetID, source: Source) -> None:
    """Write the place of an entry as attributes. This is faster than `dataset.attrs`."""
    text, object_of_python, scalar = _source_types()
    file, line = np.array(source.file, object), np.array(source.line, "int64")
    h5py.h5a.create(dataset, b"file", text, scalar).write(file, object_of_python)
    number = h5py.h5t.STD_I64LE
    h5py.h5a.create(dataset, b"line", number, scalar).write(line, number)


@cache
def _source_types() -> tuple[Any, Any, Any]:
    """Return the HDF5 types of text in files and in memory, and the space of one value."""
    text = h5py.string_dtype()
    in_files = h5py.h5t.py_create(text, logical=True)
    return in_files, h5py.h5t.py_create(text), h5py.h5s.create(h5py.h5s.SCALAR)


@cache
def _layout(dtype: np.dtype) -> tuple[Any, Any]:
    """Return the HDF5 type and the creation properties of datasets of a NumPy dtype."""
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_obj_track_times(False)
    return h5py.h5t.py_create(dtype), properties
