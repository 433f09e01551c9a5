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
from helpers.mutations import Mutation, join_safetensors, split_safetensors

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


@_in_hdf5
def doubling_groups(file: h5py.File) -> None:
    """2 ** 30 paths to the last one."""
    group = file.create_group("RNN_0/doubling")
    for _ in range(20):
        group["b"] = group.create_group("a")
        group = group["a"]


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


@_in_hdf5
def chunk_that_unpacks(file: h5py.File) -> None:
    """A chunk of a few bytes, by its dataset's shape, of half a GB when it is unpacked."""
    name, shape = _take_kernel(file)
    dataset = file.create_dataset(name, shape, "float32", chunks=shape, compression="gzip")
    dataset.id.write_direct_chunk((0, 0), _packed_megabytes(500))


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


@partial(_in_hdf5, libver="latest")
def type_of_many_members(file: h5py.File) -> None:
    kind = np.dtype([(f"m{i}", "f4") for i in range(1000)])
    name, _ = _take_kernel(file)
    for each in (*(f"more{i}" for i in range(20)), name):
        file.create_dataset(each, (1,), kind)


@_in_hdf5
def provenance_of_many_brackets(file: h5py.File) -> None:
    file.attrs["spacy_elmo_provenance"] = "[" * 60_000


# JSON and text


def filters_by_the_hundred_thousand(folder: Path) -> None:
    for path in (*folder.glob("options.json"), *folder.glob("sizes.json")):
        sizes = json.loads(path.read_text("utf8"))
        section = "char_cnn" if path.name == "options.json" else "token_embedder"
        sizes.setdefault(section, {})["filters"] = [[1, 1]] * 100_000
        path.write_text(json.dumps(sizes, separators=(",", ":")), "utf8")


def _settings(n_lists: int) -> Growth:
    def many(folder: Path) -> None:
        for name in ("options.json", "config.json", "pipeline/meta.json"):
            if (folder / name).exists():
                (folder / name).write_text("[" + "[]," * n_lists + "[]]", "utf8")

    return _named(f"settings of {n_lists:,} lists", many)


def _lines(*names: str) -> list[Growth]:
    """Make files of ten million lines, and of one endless line."""

    def lines(name: str, part: bytes, times: int) -> Growth:
        def write(folder: Path) -> None:
            (folder / name).write_bytes(part * times * MILLION)

        return _named(f"{times} million {part!r} in {name}", write)

    parts = ((b"a\t0\n", 10), ("漢".encode(), 60))
    return [lines(name, *part) for name in names for part in parts]


# Pickles

_START = b"\x80\x02ccollections\nOrderedDict\n)R"
PICKLES = {
    "as many opcodes as are looked at": _START + b"(" + b"K\x01K\x02" * 60_000 + b"u.",
    "a string of 100 MB": _START + b"X" + struct.pack("<I", 100 * MILLION) + b"a" * 100 * MILLION
    + b"K\x01s.",
    "a key that doubles 60 times": _START
    + b"K\x01K\x02\x86q\x00" + b"h\x00\x86q\x00" * 60 + b"Ns.",
    "a key 60,000 deep": _START + b")" + b"\x85" * 60_000 + b"Ns.",
}  # fmt: skip


def _pickles() -> list[Growth]:
    def write(folder: Path, pickled: bytes) -> None:
        path = folder / "encoder.pkl"
        if not zipfile.is_zipfile(path):
            magic = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03."
            path.write_bytes(magic + b"\x80\x02}." + pickled + b"\x80\x02].")
            return
        write_zip(path, {"archive/data.pkl": pickled, "archive/version": b"3\n"})

    return [_named(name, partial(write, pickled=pickled)) for name, pickled in PICKLES.items()]


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
    for path in sorted(folder.rglob("*.safetensors")):
        path.write_bytes(struct.pack("<Q", len(header)) + header)


def config_of_many_filters(folder: Path) -> None:
    for path in folder.rglob("model.safetensors"):
        header, data = split_safetensors(path)
        config = {**json.loads(header["__metadata__"]["config"]), "filters": [[1, 1]] * 100_000}
        header["__metadata__"]["config"] = json.dumps(config, separators=(",", ":"))
        join_safetensors(path, header, data)


def vocabulary_of_lists(folder: Path) -> None:
    more = b"[" + b"[]," * 10 * MILLION + b"[]]"
    for path in folder.rglob("model.safetensors"):
        header, data = split_safetensors(path)
        header["more"] = header.pop("vocabulary.characters")  # its bytes must be someone's
        offsets = [len(data), len(data) + len(more)]
        entry = {"dtype": "U8", "shape": [len(more)], "data_offsets": offsets}
        join_safetensors(path, {**header, "vocabulary.characters": entry}, data + more)


# Pipelines

CONFIGS: dict[str, Callable[[], str]] = {
    "many keys": lambda: "[more]\n" + "".join(f"k{i} = {i}\n" for i in range(MILLION)),
    "as many as are read": lambda: (
        "[more]\n" + "".join(f"k{i} = {i}\n" for i in range(15_000)) + "[nlp]"
    ),
    "many sections": lambda: "".join(f"[components.c{i}]\nfactory = 1\n" for i in range(7000)),
    "a deep section": lambda: "".join(f"[x{'.a' * n}]\nk = 1\n" for n in range(1, 3000, 10)),
}


def _configs() -> list[Growth]:
    def append(folder: Path, text: Callable[[], str]) -> None:
        with (folder / "pipeline" / "config.cfg").open("a", encoding="utf8") as file:
            file.write(f"\n{text()}")

    return [_named(f"config of {what}", partial(append, text=CONFIGS[what])) for what in CONFIGS]


SETTINGS = [_settings(690_000), _settings(7 * MILLION)]  # As large as are read, and 20 MB.
HDF5: list[Growth] = [
    *(groups_one_in_another, many_links, doubling_groups),
    *(chunk_that_unpacks, chunks_of_one_number, chunk_beyond_its_dataset),
    *(type_of_many_members, provenance_of_many_brackets, filters_by_the_hundred_thousand),
    *SETTINGS,
    *([virtual_dataset_in_a_pipe] if hasattr(os, "mkfifo") else []),
]
WORD_IDS = _lines("vocab.txt")
MANYLANGS = [
    *(*_lines("char.dic", "word.dic"), *_pickles(), *SETTINGS),
    *(tensors_by_the_hundred_thousand, filters_by_the_hundred_thousand),
]
PYTORCH_ARCHIVES: list[Growth] = [a_million_members]
SAFETENSORS = [header_of_a_million_tensors, config_of_many_filters, vocabulary_of_lists]
PIPELINE = [*_configs(), *SETTINGS, *_lines("pipeline/vocab.txt")]
