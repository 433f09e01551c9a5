"""Small models of every format and what is done to them, for `fuzz.py`."""

import json
import shutil
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import h5py
import numpy as np
import torch

from spacy_elmo.weights import read_weights, safetensors_file
from spacy_elmo.weights.formats import read_bundle
from spacy_elmo.weights.pipeline_folder import PipelineFolder

from helpers import growths, reference, reference_manylangs
from helpers.models import tiny_options
from helpers.mutations import (
    ODD_VALUES,
    Mutation,
    change_arrays,
    change_bytes,
    change_json,
    change_lines,
    nest,
)

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
    options = tiny_options()
    return reference.write_hdf5(folder, options, reference.random_datasets(options)).parent


def write_word_ids(folder: Path) -> Path:
    options = {"lstm": tiny_options()["lstm"]}
    data = reference.random_datasets(options, n_words=len(WORDS))
    return reference.write_hdf5(folder, options, data, WORDS).parent


def mutate_hdf5(folder: Path, rng: Random) -> Mutation:
    options, weights, words = (folder / n for n in ("options.json", "weights.hdf5", "vocab.txt"))
    changes: list[Callable[[], Mutation]] = [
        *[lambda: change_bytes(weights, rng)] * 8,
        *[lambda: change_datasets(weights, rng)] * 4,
        *[lambda: set_traps(weights, options, rng)] * 2,
        *[lambda: change_json(options, rng)] * 2,
        lambda: change_bytes(options, rng),
        lambda: nest(options, rng),
    ]
    if words.exists():
        changes += [lambda: change_lines(words, rng), lambda: change_bytes(words, rng)]
    return rng.choice(changes)()


def _read_hdf5(path: Path) -> dict[str, np.ndarray]:
    arrays: dict[str, np.ndarray] = {}
    with h5py.File(path) as file:
        file.visititems(
            lambda name, item: arrays.update({name: item[()]}) if hasattr(item, "shape") else None
        )
    return arrays


def change_datasets(path: Path, rng: Random) -> Mutation:
    arrays = _read_hdf5(path)
    what = change_arrays(arrays, rng)
    with h5py.File(path, "w") as file:
        for name, values in arrays.items():
            file.create_dataset(name, data=values)
    return Mutation(f"{path.name}: {what.description}", what.must_raise)


def set_traps(path: Path, options_path: Path, rng: Random) -> Mutation:
    """Sizes that fit the options and are not there, and what HDF5 can do besides."""
    kind = rng.choice(["unallocated", "packed", "external", "link", "cycle", "string", "chunks"])
    arrays = _read_hdf5(path)
    name = next(name for name in sorted(arrays) if name.endswith("LSTMCell/W_0"))
    options = json.loads(options_path.read_text("utf8"))
    dim = rng.choice([10**5, 10**6])
    with h5py.File(path, "a") as file:
        del file[name]
        if kind in ("unallocated", "packed", "chunks"):
            options["lstm"]["dim"] = dim
            options_path.write_text(json.dumps(options), "utf8")
            packed = {} if kind == "unallocated" else {"chunks": (1, dim), "compression": "gzip"}
            file.create_dataset(name, (10, 4 * dim), "float32", **packed)
            if kind == "packed":
                file[name][0] = 0.0
        elif kind == "external":
            file.create_dataset(name, arrays[name].shape, "f4", external=[("/dev/zero", 0, 10**6)])
        elif kind == "link":
            file[name] = h5py.ExternalLink(str(path), rng.choice(["/", name, "char_embed"]))
        elif kind == "cycle":
            file[name] = h5py.SoftLink(rng.choice(["/", f"/{name}", "."]))
            file["RNN_0/RNN/again"] = file["/"]
        else:
            file[name] = np.array([b"text"] * 10, dtype=h5py.string_dtype())
    return Mutation(f"{path.name}: {kind} in place of {name}", True)


# ELMoForManyLangs' folders


def write_manylangs(folder: Path) -> Path:
    sizes = reference_manylangs.sizes_of()
    tensors = reference_manylangs.random_tensors(sizes)
    return reference_manylangs.write_folder(folder, sizes, tensors)


def write_old_manylangs(folder: Path) -> Path:
    sizes = reference_manylangs.sizes_of()
    tensors = reference_manylangs.random_tensors(sizes)
    return reference_manylangs.write_folder(folder, sizes, tensors, old_pickles=True)


def mutate_manylangs(folder: Path, rng: Random) -> Mutation:
    pickled = folder / rng.choice(["encoder.pkl", "token_embedder.pkl"])
    settings = folder / rng.choice(["config.json", "sizes.json"])
    words = folder / rng.choice(["char.dic", "word.dic"])
    changes: list[Callable[[], Mutation]] = [
        *[lambda: change_bytes(pickled, rng)] * 8,
        *[lambda: change_tensors(pickled, rng)] * 4,
        *[lambda: change_pickle(pickled, rng)] * 4,
        lambda: change_json(settings, rng),
        lambda: change_bytes(settings, rng),
        lambda: nest(settings, rng),
        lambda: change_lines(words, rng),
        lambda: change_bytes(words, rng),
        lambda: remove(rng.choice([pickled, words, folder / "config.json"])),
    ]
    return rng.choice(changes)()


def remove(path: Path) -> Mutation:
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
    if not zipfile.is_zipfile(path):
        data = path.read_bytes()
        changed, what = _changed_pickle(data, rng)
        path.write_bytes(changed)
        return Mutation(f"{path.name}: {what}", False)
    with zipfile.ZipFile(path) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    what = ""
    for name in members:
        if name.endswith("data.pkl"):
            members[name], what = _changed_pickle(members[name], rng)
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return Mutation(f"{path.name}: {what}", False)


def _changed_pickle(data: bytes, rng: Random) -> tuple[bytes, str]:
    old, new = rng.choice(
        [
            (b"ctorch\nFloatStorage\n", b"cos\nsystem\n"),
            (b"ctorch\nFloatStorage\n", b"cbuiltins\nbytearray\n"),
            (b"ctorch\nFloatStorage\n", b"ctorch\nLongStorage\n"),
            (b"ctorch\nFloatStorage\n", b"cthis\ns\n"),
            (b"ccollections\nOrderedDict\n", b"csubprocess\nPopen\n"),
            (b"ccollections\nOrderedDict\n", b"ccollections\nCounter\n"),
            (b"_rebuild_tensor_v2\n", b"_rebuild_sparse_tensor\n"),
            (b"_rebuild_tensor_v2\n", b"_rebuild_meta_tensor_no_storage\n"),
            (b"K\x06\x86", b"J\x00\x00\x00\x7f\x86"),
            (b"K\x14", b"J\xff\xff\xff\x7f"),
            (b"K\x06", b"\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f"),
            (b"K\x00", b"\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80"),
            (b"X\x03\x00\x00\x00cpu", b"X\x04\x00\x00\x00meta"),
            (b"X\x03\x00\x00\x00cpu", b"X\x06\x00\x00\x00cuda:9"),
            (b"tq", b"0q"),
            (b"q\x02", b"h\x00"),
        ]
    )
    places = data.count(old)
    if not places:
        return data, "nothing"
    return data.replace(old, new, rng.choice([1, -1])), f"{old!r} became {new!r}"


# Our own


def write_safetensors(folder: Path) -> Path:
    (folder / "source").mkdir()
    source = write_manylangs(folder / "source")
    safetensors_file.write(read_weights(source), folder / "model.safetensors")
    shutil.rmtree(folder / "source")
    return folder / "model.safetensors"


def mutate_safetensors(folder: Path, rng: Random) -> Mutation:
    path = folder / "model.safetensors"
    change = rng.choice([change_bytes, change_bytes, change_header, change_header, change_config])
    return change(path, rng)


def _split(path: Path) -> tuple[dict[str, Any], bytes]:
    content = path.read_bytes()
    end = 8 + int.from_bytes(content[:8], "little")
    return json.loads(content[8:end]), content[end:]


def _join(path: Path, header: dict[str, Any], data: bytes) -> None:
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def change_header(path: Path, rng: Random) -> Mutation:
    header, data = _split(path)
    name = rng.choice([name for name in header if name != "__metadata__"])
    entry = header[name]
    kind = rng.choice(
        ["rename", "remove", "dtype", "shape", "huge", "offsets", "metadata", "length"]
    )
    must_raise = True
    if kind == "rename":
        header[name + "x"] = header.pop(name)
    elif kind == "remove":
        del header[name]
    elif kind == "dtype":
        entry["dtype"] = rng.choice(
            ["I32", "F64", "F16", "F8_E4M3", "BOOL", "U8", "C64", "F4", "x"]
        )
        must_raise = entry["dtype"] != "U8" or "vocabulary" not in name
    elif kind == "shape":
        entry["shape"] = rng.choice([[], [1], [*entry["shape"], 2], entry["shape"][:-1], "x", [-1]])
    elif kind == "huge":
        entry["shape"] = [rng.choice([2**31, 2**62, 2**64 - 1, 10**30]), *entry["shape"][1:]]
        entry["data_offsets"] = [0, rng.choice([len(data), 2**40, 2**63])]
    elif kind == "offsets":
        entry["data_offsets"] = [rng.choice([0, -1, 2**40, 4]), rng.choice([0, 4, 2**62])]
    elif kind == "metadata":
        header["__metadata__"] = rng.choice([{}, {"a": "b"}, {"config": "[]"}, {"config": "{"}])
    _join(path, header, data)
    if kind == "length":
        content = bytearray(path.read_bytes())
        content[:8] = rng.choice([0, 1, 2**31, 2**63, 2**64 - 1, 10**8]).to_bytes(8, "little")
        path.write_bytes(content)
    return Mutation(f"{name}: {kind}", must_raise)


def change_config(path: Path, rng: Random) -> Mutation:
    header, data = _split(path)
    config = json.loads(header["__metadata__"]["config"])
    name = rng.choice([*config, "provenance"])
    if name == "provenance":
        header["__metadata__"]["provenance"] = rng.choice(["[", "3", "[]", "[" * 10**5, "NaN"])
    else:
        config[name] = rng.choice(ODD_VALUES)
        header["__metadata__"]["config"] = json.dumps(config)
    _join(path, header, data)
    return Mutation(f"config: {name} is {str(config.get(name))[:30]}", False)


# Pipelines


def write_pipeline(folder: Path) -> Path:
    (folder / "source").mkdir()
    options = tiny_options()
    data = reference.random_datasets(options)
    rng = np.random.default_rng(0)
    data["softmax/W"] = rng.standard_normal((len(WORDS), 5)).astype("float32")
    data["softmax/b"] = np.zeros(len(WORDS), "float32")
    bundle = read_bundle(reference.write_hdf5(folder / "source", options, data, WORDS))
    bundle.lang = "en"
    PipelineFolder.write(bundle, folder / "pipeline")
    shutil.rmtree(folder / "source")
    return folder / "pipeline"


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
    (folder / "source").mkdir()
    source = write_manylangs(folder / "source")
    with zipfile.ZipFile(folder / "144.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(source.iterdir()):
            archive.write(file, file.name)
    shutil.rmtree(folder / "source")
    return folder / "144.zip"


def mutate_archive(folder: Path, rng: Random) -> Mutation:
    path = folder / "144.zip"
    kind = rng.choice(["bytes", "bytes", "member", "member", "bomb", "twice", "packing"])
    if kind == "bytes":
        return change_bytes(path, rng)
    (folder / "source").mkdir()
    with zipfile.ZipFile(path) as archive:
        archive.extractall(folder / "source")
    packing = zipfile.ZIP_DEFLATED
    what = Mutation(kind, kind != "packing")
    victim = folder / "source" / rng.choice(["encoder.pkl", "char.dic", "sizes.json"])
    if kind == "member":
        what = mutate_manylangs(folder / "source", rng)
    elif kind == "bomb":
        victim.write_bytes(bytes(rng.choice([3 * 10**6, 3 * 10**7])))
    elif kind == "packing":
        packing = rng.choice([zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA, zipfile.ZIP_STORED])
    with zipfile.ZipFile(path, "w", packing) as archive:
        for file in sorted((folder / "source").iterdir()):
            archive.write(file, file.name)
        if kind == "twice":
            archive.write(victim, "144/encoder.pkl")
            what = Mutation("a second model in it", False)
    shutil.rmtree(folder / "source")
    return Mutation(f"144.zip: {what.description}", what.must_raise)


PACKED = growths.PYTORCH_ARCHIVES
FORMATS = {
    "safetensors": Format(write_safetensors, mutate_safetensors, growths.SAFETENSORS),
    "allennlp": Format(write_hdf5, mutate_hdf5, growths.HDF5),
    "word ids": Format(write_word_ids, mutate_hdf5, growths.WORD_IDS),
    "manylangs": Format(write_manylangs, mutate_manylangs, growths.MANYLANGS + PACKED),
    "old manylangs": Format(write_old_manylangs, mutate_manylangs, growths.MANYLANGS),
    "archive": Format(write_archive, mutate_archive, PACKED),
    "pipeline": Format(write_pipeline, mutate_pipeline, growths.PIPELINE),
}
