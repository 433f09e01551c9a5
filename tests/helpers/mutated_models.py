"""Small models of every format and what is done to them, for `fuzz.py`."""

import json
import shutil
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import h5py
import numpy as np
import torch

from spacy_elmo.weights import read_weights, safetensors_file

from helpers import growths, reference
from helpers.conversions import read_zip, write_source, write_zip
from helpers.models import tiny_options, write_tiny
from helpers.mutations import (
    ODD_VALUES,
    Mutation,
    change_arrays,
    change_bytes,
    change_json,
    change_lines,
    join_safetensors,
    nest,
    split_safetensors,
)
from helpers.prepared import content
from helpers.reference_manylangs import write_random

WORDS = ["<S>", "</S>", "<UNK>", "the", "cat"]


@dataclass(frozen=True)
class Format:
    """A format.

    write (Callable): Writes a good model into a folder; returns the path to read.
    mutate (Callable): Changes the files in the folder.
    growths (List[Callable]): Each makes one structure in them huge.
    """

    write: Callable[[Path], Path]
    mutate: Callable[[Path, Random], Mutation]
    growths: list[growths.Growth]


# AllenNLP's and bilm-tf's HDF5


def write_hdf5(folder: Path) -> Path:
    return write_tiny(folder).parent


def write_word_ids(folder: Path) -> Path:
    return reference.write_random(folder, {"lstm": tiny_options()["lstm"]}, words=WORDS).parent


def mutate_hdf5(folder: Path, rng: Random) -> Mutation:
    options, weights, words = (folder / n for n in ("options.json", "weights.hdf5", "vocab.txt"))
    changes = [*[(change_bytes, weights)] * 8, *[(change_datasets, weights)] * 4]
    changes += [*[(change_json, options)] * 2, (change_bytes, options), (nest, options)]
    if words.exists():
        changes += [(change_lines, words), (change_bytes, words)]
    change, path = rng.choice(changes)
    return change(path, rng)


def change_datasets(path: Path, rng: Random) -> Mutation:
    arrays = reference.read_hdf5(path)
    what = change_arrays(arrays, rng)
    with h5py.File(path, "w") as file:
        for name, values in arrays.items():
            file.create_dataset(name, data=values)
    return Mutation(f"{path.name}: {what.description}", what.must_raise)


# ELMoForManyLangs' folders


def mutate_manylangs(folder: Path, rng: Random) -> Mutation:
    pickled = folder / rng.choice(["encoder.pkl", "token_embedder.pkl"])
    settings = folder / rng.choice(["config.json", "sizes.json"])
    words = folder / rng.choice(["char.dic", "word.dic"])
    changes = [*[(change_bytes, pickled)] * 8, *[(change_tensors, pickled)] * 4]
    changes += [*[(change_pickle, pickled)] * 4, (change_lines, words), (change_bytes, words)]
    changes += [(change, settings) for change in (change_json, change_bytes, nest)]
    changes += [(remove, rng.choice([pickled, words, folder / "config.json"]))]
    change, path = rng.choice(changes)
    return change(path, rng)


def remove(path: Path, _: Random) -> Mutation:
    path.unlink()
    return Mutation(f"{path.name} removed", True)


def change_tensors(path: Path, rng: Random) -> Mutation:
    is_zip = zipfile.is_zipfile(path)
    state = torch.load(path, weights_only=True)
    if rng.random() < 0.3:
        name = rng.choice(sorted(state))
        shape = (*state[name].shape[:-1], 10**9)
        state[name] = torch.zeros(1).expand(*shape)
        what = Mutation(f"{name}: {shape} of one value", True)
    else:
        arrays = {name: tensor.numpy() for name, tensor in state.items()}
        what = change_arrays(arrays, rng)
        state = {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}
    torch.save(state, path, _use_new_zipfile_serialization=is_zip)
    return Mutation(f"{path.name}: {what.description}", True)


def change_pickle(path: Path, rng: Random) -> Mutation:
    """Other names, sizes and opcodes in the pickle itself, its frame as it should be."""
    if zipfile.is_zipfile(path):
        members = read_zip(path)
        name = next(name for name in members if name.endswith("data.pkl"))
        members[name], what = _changed_pickle(members[name], rng)
        write_zip(path, members)
    else:
        changed, what = _changed_pickle(path.read_bytes(), rng)
        path.write_bytes(changed)
    return Mutation(f"{path.name}: {what}", False)


HUGE = b"\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f"
LEAST = b"\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80"
# What stands in a pickle, and what takes its place.
PICKLED = {
    b"ctorch\nFloatStorage\n": [b"cos\nsystem\n", b"cbuiltins\nbytearray\n", b"cthis\ns\n"]
    + [b"ctorch\nLongStorage\n"],
    b"ccollections\nOrderedDict\n": [b"csubprocess\nPopen\n", b"ccollections\nCounter\n"],
    b"_rebuild_tensor_v2\n": [b"_rebuild_sparse_tensor\n", b"_rebuild_meta_tensor_no_storage\n"],
    b"K\x06\x86": [b"J\x00\x00\x00\x7f\x86"],
    b"K\x14": [b"J\xff\xff\xff\x7f"],
    b"K\x06": [HUGE],
    b"K\x00": [LEAST],
    b"tq": [b"0q"],
    b"q\x02": [b"h\x00"],
    b"X\x03\x00\x00\x00cpu": [b"X\x04\x00\x00\x00meta", b"X\x06\x00\x00\x00cuda:9"],
}


def _changed_pickle(data: bytes, rng: Random) -> tuple[bytes, str]:
    old, new = rng.choice([(old, new) for old, others in PICKLED.items() for new in others])
    if not data.count(old):
        return data, "nothing"
    return data.replace(old, new, rng.choice([1, -1])), f"{old!r} became {new!r}"


# Our own


def write_safetensors(folder: Path) -> Path:
    source = write_random(folder / "source")
    safetensors_file.write(read_weights(source), folder / "model.safetensors")
    shutil.rmtree(source)
    return folder / "model.safetensors"


def mutate_safetensors(folder: Path, rng: Random) -> Mutation:
    path = folder / "model.safetensors"
    change = rng.choice([change_bytes, change_bytes, change_header, change_header, change_config])
    return change(path, rng)


def change_header(path: Path, rng: Random) -> Mutation:
    header, data = split_safetensors(path)
    name = rng.choice([name for name in header if name != "__metadata__"])
    entry, shape = header[name], header[name]["shape"]
    huge = [rng.choice([2**31, 2**62, 2**64 - 1, 10**30]), *shape[1:]]
    changes: dict[str, dict[str, list[Any]]] = {
        "rename": {},
        "remove": {},
        "dtype": {"dtype": ["I32", "F64", "F16", "F8_E4M3", "BOOL", "U8", "C64", "F4", "x"]},
        "shape": {"shape": [[], [1], [*shape, 2], shape[:-1], "x", [-1]]},
        "huge": {"shape": [huge], "data_offsets": [[0, len(data)], [0, 2**40], [0, 2**63]]},
        "offsets": {"data_offsets": [[0, 4], [-1, 0], [2**40, 4], [4, 2**62], [0, 0]]},
        "metadata": {},
        "length": {},
    }
    kind = rng.choice(list(changes))
    entry.update({key: rng.choice(values) for key, values in changes[kind].items()})
    if kind in ("rename", "remove"):
        del header[name]
        header.update({name + "x": entry} if kind == "rename" else {})
    elif kind == "metadata":
        header["__metadata__"] = rng.choice([{}, {"a": "b"}, {"config": "[]"}, {"config": "{"}])
    join_safetensors(path, header, data)
    if kind == "length":
        length = rng.choice([0, 1, 2**31, 2**63, 2**64 - 1, 10**8])
        path.write_bytes(length.to_bytes(8, "little") + path.read_bytes()[8:])
    is_text = entry["dtype"] == "U8" and "vocabulary" in name
    return Mutation(f"{name}: {kind}", kind != "dtype" or not is_text)


def change_config(path: Path, rng: Random) -> Mutation:
    header, data = split_safetensors(path)
    config = json.loads(header["__metadata__"]["config"])
    name = rng.choice([*config, "provenance"])
    if name == "provenance":
        header["__metadata__"]["provenance"] = rng.choice(["[", "3", "[]", "[" * 10**5, "NaN"])
    else:
        config[name] = rng.choice(ODD_VALUES)
        header["__metadata__"]["config"] = json.dumps(config)
    join_safetensors(path, header, data)
    return Mutation(f"config: {name} is {str(config.get(name))[:30]}", False)


# Pipelines


def write_pipeline(folder: Path) -> Path:
    return write_source(folder / "pipeline")


def mutate_pipeline(folder: Path, rng: Random) -> Mutation:
    pipeline = folder / "pipeline"
    kind = rng.choice(["config", "config", "weights", "softmax", "words", "meta", "meta bytes"])
    if kind == "weights":
        return mutate_safetensors(pipeline / "elmo", rng)
    if kind == "meta":
        return change_json(pipeline / "meta.json", rng)
    names = {"config": "config.cfg", "softmax": "softmax.safetensors", "words": "vocab.txt"}
    what = change_bytes(pipeline / names.get(kind, "meta.json"), rng)
    return Mutation(what.description, what.must_raise and kind == "softmax")


# Archives


def write_archive(folder: Path) -> Path:
    source = write_random(folder / "source")
    packed = shutil.make_archive(str(folder / "144"), "zip", source)
    shutil.rmtree(source)
    return Path(packed)


def mutate_archive(folder: Path, rng: Random) -> Mutation:
    path = folder / "144.zip"
    kind = rng.choice(["bytes", "bytes", "member", "member", "bomb", "twice", "packing"])
    if kind == "bytes":
        return change_bytes(path, rng)
    shutil.unpack_archive(path, folder / "source")
    packing = zipfile.ZIP_DEFLATED
    what = Mutation(kind, kind != "packing")
    victim = folder / "source" / rng.choice(["encoder.pkl", "char.dic", "sizes.json"])
    if kind == "member":
        what = mutate_manylangs(folder / "source", rng)
    elif kind == "bomb":
        victim.write_bytes(bytes(rng.choice([3 * 10**6, 3 * 10**7])))
    elif kind == "packing":
        packing = rng.choice([zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA, zipfile.ZIP_STORED])
    members = content(folder / "source")
    if kind == "twice":
        members["144/encoder.pkl"] = victim.read_bytes()
        what = Mutation("a second model in it", False)
    write_zip(path, members, packing)
    shutil.rmtree(folder / "source")
    return Mutation(f"144.zip: {what.description}", what.must_raise)


PACKED = growths.PYTORCH_ARCHIVES
FORMATS = {
    "safetensors": Format(write_safetensors, mutate_safetensors, growths.SAFETENSORS),
    "allennlp": Format(write_hdf5, mutate_hdf5, growths.HDF5),
    "word ids": Format(write_word_ids, mutate_hdf5, growths.WORD_IDS),
    "manylangs": Format(write_random, mutate_manylangs, growths.MANYLANGS + PACKED),
    "old manylangs": Format(
        partial(write_random, old_pickles=True), mutate_manylangs, growths.MANYLANGS
    ),
    "archive": Format(write_archive, mutate_archive, PACKED),
    "pipeline": Format(write_pipeline, mutate_pipeline, growths.PIPELINE),
}
