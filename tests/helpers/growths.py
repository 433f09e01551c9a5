"""Structures that no model has, a thousand times what one has, for `fuzz.py`."""

import json
import os
import struct
import zipfile
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path

import h5py
import numpy as np
import torch

from helpers.conversions import read_zip, write_zip
from helpers.mutations import Mutation

Growth = Callable[[Path], None]
MILLION = 10**6


def grown(growth: Growth, folder: Path) -> Mutation:
    """Grow the files in a folder, and return the mutation. Every grown model must be refused."""
    growth(folder)
    return Mutation(f"grown: {growth.__name__}", True)


def _named(name: str, growth: Growth) -> Growth:
    growth.__name__ = name
    return growth


# HDF5


def _in_hdf5(change: Callable[[h5py.File], None], libver: str | None = None) -> Growth:
    """Make a growth of a function that changes the open file of weights."""

    def growth(folder: Path) -> None:
        with h5py.File(folder / "weights.hdf5", "a", libver=libver) as file:
            change(file)

    return _named(change.__name__, growth)


def _take_kernel(file: h5py.File) -> tuple[str, tuple[int, int]]:
    """Delete a dataset, and return its name and shape."""
    names: list[str] = []
    file.visit(lambda name: names.append(name) if name.endswith("LSTMCell/W_0") else None)
    shape = file[names[0]].shape
    del file[names[0]]
    return names[0], shape


@_in_hdf5
def groups_one_in_another(file: h5py.File) -> None:
    group = file.id
    for _ in range(20_000):
        group = h5py.h5g.create(group, b"g")


@partial(_in_hdf5, libver="latest")
def many_links(file: h5py.File) -> None:
    group, target = file.create_group("links"), file["RNN_0"]
    for i in range(20_000):
        group.id.links.create_hard(b"%d" % i, target.id, b".")


@partial(_in_hdf5, libver="latest")
def virtual_dataset_in_a_pipe(file: h5py.File) -> None:
    """Write a virtual dataset, as large as its source, which blocks forever if it is opened."""
    name, (rows, columns) = _take_kernel(file)
    pipe = Path(file.filename).with_name("pipe")
    os.mkfifo(pipe)
    unlimited = (h5py.h5s.UNLIMITED, columns)
    space = h5py.h5s.create_simple((rows, columns), unlimited)
    space.select_hyperslab((0, 0), (1, 1), (1, 1), unlimited)
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_virtual(space, str(pipe).encode(), b"x", space)
    group = file[name.rpartition("/")[0]].id
    h5py.h5d.create(group, b"W_0", h5py.h5t.IEEE_F32LE, space, properties)


def _packed_megabytes(n: int) -> bytes:
    """Zeros, as gzip packs them."""
    packing = zlib.compressobj(9)
    start, again = (
        packing.compress(bytes(MILLION)) + packing.flush(zlib.Z_FULL_FLUSH) for _ in range(2)
    )
    return start + (n - 1) * again + packing.flush()


def _chunk_that_unpacks(file: h5py.File, mask: int) -> None:
    name, shape = _take_kernel(file)
    dataset = file.create_dataset(name, shape, "float32", chunks=shape, compression="gzip")
    dataset.id.write_direct_chunk((0, 0), _packed_megabytes(500), mask)


@_in_hdf5
def chunk_that_unpacks(file: h5py.File) -> None:
    """A chunk of a few bytes, by its dataset's shape, of half a GB when it is unpacked."""
    _chunk_that_unpacks(file, mask=0)


@_in_hdf5
def chunk_that_unpacks_with_a_mask(file: h5py.File) -> None:
    """The mask of the chunk says that the sixth filter was not used. There is only one."""
    _chunk_that_unpacks(file, mask=32)


@partial(_in_hdf5, libver="latest")
def links_to_a_type_of_many_members(file: h5py.File) -> None:
    """HDF5 takes milliseconds to describe the type. Another dataset is missing."""
    _take_kernel(file)
    file.create_dataset("x", (1,), [(f"{i}", "f4") for i in range(1000)])
    group = file.create_group("links")
    for i in range(9000):
        group.id.links.create_hard(b"%d" % i, file.id, b"x")


@_in_hdf5
def chunk_beyond_its_dataset(file: h5py.File) -> None:
    name, shape = _take_kernel(file)
    settings = {"chunks": (8000, 16_000), "maxshape": (None, None), "compression": "gzip"}
    dataset = file.create_dataset(name, shape, "float32", **settings)
    dataset.id.write_direct_chunk((0, 0), _packed_megabytes(512))


@_in_hdf5
def chunks_of_one_number(file: h5py.File) -> None:
    """Write a dataset in chunks of one number, as wide as the options then say, in a large file."""
    options = Path(file.filename).with_name("options.json")
    content, dim = json.loads(options.read_text("utf8")), 200_000
    content["lstm"]["dim"] = dim
    options.write_text(json.dumps(content), "utf8")
    name, (rows, _) = _take_kernel(file)
    file.create_dataset(name, (rows, 4 * dim), "float32", chunks=(1, 1))
    file["more"] = np.ones(rows * dim, "float32")


# JSON and text


def settings_of_many_lists(folder: Path) -> None:
    """Write settings that are as large as a reader accepts."""
    for name in ("options.json", "config.json", "pipeline/meta.json"):
        if (folder / name).exists():
            (folder / name).write_text("[" + "[]," * 690_000 + "[]]", "utf8")


def _lines(name: str) -> list[Growth]:
    """Make a file of ten million lines, and of one endless line."""

    def lines(part: bytes, times: int) -> Growth:
        def write(folder: Path) -> None:
            (folder / name).write_bytes(part * times * MILLION)

        return _named(f"{times} million {part!r} in {name}", write)

    return [lines(b"a\t0\n", 10), lines("漢".encode(), 60)]


# State dicts


def tensors_by_the_hundred_thousand(folder: Path) -> None:
    path, one = folder / "encoder.pkl", torch.ones(1)
    is_zip = zipfile.is_zipfile(path)
    torch.save({f"{i}": one for i in range(20_000)}, path, _use_new_zipfile_serialization=is_zip)


def a_million_members(folder: Path) -> None:
    """Add a million members to the archive that is a model, or that PyTorch writes."""
    path = next(path for path in sorted(folder.iterdir()) if zipfile.is_zipfile(path))
    content = write_zip(path, read_zip(path)).read_bytes()
    start, end = (content.rindex(sign) for sign in (b"PK\x01\x02", b"PK\x05\x06"))
    size, place = struct.unpack("<II", content[end + 12 : end + 20])
    more = MILLION * content[start:end]
    head = content[end : end + 12] + struct.pack("<II", size + len(more), place)
    path.write_bytes(content[:end] + more + head + content[end + 20 :])


# Safetensors


def header_of_a_million_tensors(folder: Path) -> None:
    entry = b'"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}'
    header = b"{" + (entry + b",") * MILLION + entry + b"}"
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)


# Pipelines

CONFIGS: dict[str, Callable[[], str]] = {
    "as many as are read": lambda: (
        "[more]\n" + "".join(f"k{i} = {i}\n" for i in range(15_000)) + "[nlp]"
    ),
    "a deep section": lambda: "".join(f"[x{'.a' * n}]\nk = 1\n" for n in range(1, 3000, 10)),
}


def _configs() -> list[Growth]:
    def append(folder: Path, text: Callable[[], str]) -> None:
        with (folder / "pipeline" / "config.cfg").open("a", encoding="utf8") as file:
            file.write(f"\n{text()}")

    return [_named(f"config of {what}", partial(append, text=CONFIGS[what])) for what in CONFIGS]


HDF5: list[Growth] = [
    *(groups_one_in_another, many_links, settings_of_many_lists),
    *(chunk_that_unpacks, chunks_of_one_number, chunk_beyond_its_dataset),
    *(chunk_that_unpacks_with_a_mask, links_to_a_type_of_many_members),
    *([virtual_dataset_in_a_pipe] if hasattr(os, "mkfifo") else []),
]
WORD_IDS = _lines("vocab.txt")
OLD_PICKLES: list[Growth] = [tensors_by_the_hundred_thousand]
MANYLANGS = [*OLD_PICKLES, settings_of_many_lists, *_lines("char.dic")]
PYTORCH_ARCHIVES: list[Growth] = [a_million_members]
SAFETENSORS: list[Growth] = [header_of_a_million_tensors]
PIPELINE = [*_configs(), settings_of_many_lists, *_lines("pipeline/vocab.txt")]
