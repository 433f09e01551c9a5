"""HDF5, in the layout of AllenNLP's command `elmo`."""

import json
from collections.abc import Iterable
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Optional

import h5py
import numpy as np

from .entries import Embedded
from .guarded_file import GuardedFile
from .sentence_index import NAME, SentenceIndex
from .workplace import read_json

SUFFIXES = (".hdf5", ".h5")
IS_FOLDER = False
SETTINGS = "spacy_elmo"
# Groups of any number of datasets in bounded memory, which libraries from 2008 on read.
VERSION = (h5py.h5f.LIBVER_V18, h5py.h5f.LIBVER_V18)


def write(
    path: Path, entries: Iterable[Embedded], settings: dict[str, Any], *, index: bool
) -> None:
    """Write a file: a dataset an entry, named by its number, and `sentence_to_index`.

    path (Path): The file.
    entries (Iterable[Embedded]): The entries.
    settings (dict): What they were made by; an attribute of the file.
    index (bool): Whether to write `sentence_to_index`.
    """
    offset = None
    with SentenceIndex(path.parent) if index else nullcontext() as sentences:
        with GuardedFile(path) as guarded, _create(guarded) as file:
            file.attrs[SETTINGS] = json.dumps(settings)
            for i, entry in enumerate(entries):
                _write_array(file, str(i), entry.vectors)
                guarded.check()
                if sentences is not None:
                    sentences.add(entry.text)
            if sentences is not None:
                offset = _make_room(file, sentences.finish())
            file.close()
            guarded.check()
        if sentences is not None:
            # Through the library it would have to be in memory, several times.
            with path.open("rb+") as raw:
                raw.seek(offset or 0)
                raw.writelines(sentences.blocks())


def read_settings(path: Path) -> dict[str, Any]:
    """RETURNS (dict): The settings that `write` was given; none where it wrote no such file."""
    try:
        with h5py.File(path, "r") as file:
            return read_json(file.attrs.get(SETTINGS))
    except OSError:
        return {}


def _create(guarded: GuardedFile) -> h5py.File:
    """An empty file, without times: the same content, the same bytes."""
    properties = h5py.h5p.create(h5py.h5p.FILE_CREATE)
    properties.set_obj_track_times(False)
    access = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
    access.set_libver_bounds(*VERSION)
    access.set_fclose_degree(h5py.h5f.CLOSE_STRONG)
    access.set_fileobj_driver(h5py.h5fd.fileobj_driver, guarded)
    name = repr(guarded).encode("ascii", "replace")  # it only needs to be another's than others'
    return h5py.File(h5py.h5f.create(name, h5py.h5f.ACC_TRUNC, properties, access))


def _dataset_properties() -> h5py.h5p.PropDCID:
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_obj_track_times(False)
    return properties


def _write_array(file: h5py.File, name: str, array: np.ndarray) -> None:
    """Several times as fast as `create_dataset`."""
    space = h5py.h5s.create_simple(array.shape)
    kind = h5py.h5t.py_create(array.dtype)
    properties = _dataset_properties()
    dataset = h5py.h5d.create(file.id, name.encode("ascii"), kind, space, properties)
    if array.size:
        dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, np.ascontiguousarray(array))


def _make_room(file: h5py.File, size: int) -> Optional[int]:
    """Make the dataset of one string, its bytes to be written; where they stand."""
    kind = h5py.h5t.C_S1.copy()
    kind.set_size(size)
    kind.set_strpad(h5py.h5t.STR_NULLPAD)
    properties = _dataset_properties()
    properties.set_layout(h5py.h5d.CONTIGUOUS)
    properties.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    properties.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    space = h5py.h5s.create_simple((1,))
    dataset = h5py.h5d.create(file.id, NAME.encode("ascii"), kind, space, properties)
    offset: Optional[int] = dataset.get_offset()
    return offset
