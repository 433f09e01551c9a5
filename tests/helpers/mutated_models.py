"""Small models of every format and their mutations, for `fuzz.py`."""

import json
import shutil
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random

from spacy_elmo.weights import read_weights, safetensors_file

from helpers import growths
from helpers.conversions import read_zip, write_source, write_zip
from helpers.models import write_tiny, write_word_ids
from helpers.mutations import (
    Mutation,
    change_bytes,
    change_json,
    change_lines,
    change_value,
    flip,
    join_safetensors,
    split_safetensors,
)
from helpers.prepared import content
from helpers.reference_manylangs import write_random


@dataclass(frozen=True)
class Format:
    """A format.

    write (Callable): Writes a good model into a folder.
    mutate (Callable): Changes the files in the folder.
    growths (List[Callable]): Each makes one structure in them huge.
    path (str): What is read, in the folder.
    """

    write: Callable[[Path], object]
    mutate: Callable[[Path, Random], Mutation]
    growths: list[growths.Growth]
    path: str = ""


# AllenNLP's and bilm-tf's HDF5


def mutate_hdf5(folder: Path, rng: Random) -> Mutation:
    options, weights, words = (folder / n for n in ("options.json", "weights.hdf5", "vocab.txt"))
    changes = [*[(change_bytes, weights)] * 8, *[(change_json, options)] * 2]
    changes += [(change_bytes, options)]
    if words.exists():
        changes += [(change_lines, words), (change_bytes, words)]
    change, path = rng.choice(changes)
    return change(path, rng)


# ELMoForManyLangs' folders


def mutate_manylangs(folder: Path, rng: Random) -> Mutation:
    pickled = folder / rng.choice(["encoder.pkl", "token_embedder.pkl"])
    settings = folder / rng.choice(["config.json", "sizes.json"])
    words = folder / rng.choice(["char.dic", "word.dic"])
    inside = change_pickle if zipfile.is_zipfile(pickled) else change_bytes
    changes = [*[(change_bytes, pickled)] * 8, *[(inside, pickled)] * 4]
    changes += [(change_lines, words), (change_bytes, words)]
    changes += [(change, settings) for change in (change_json, change_bytes)]
    changes += [(remove, rng.choice([pickled, words, folder / "config.json"]))]
    change, path = rng.choice(changes)
    return change(path, rng)


def remove(path: Path, _: Random) -> Mutation:
    path.unlink()
    return Mutation(f"{path.name} removed", True)


def change_pickle(path: Path, rng: Random) -> Mutation:
    """Flip bytes of the pickle itself. The archive around it stays valid."""
    members = read_zip(path)
    name = next(name for name in members if name.endswith("data.pkl"))
    changed = bytearray(members[name])
    what = flip(changed, rng)
    write_zip(path, {**members, name: bytes(changed)})
    return Mutation(f"{path.name}: {what.description} in {name}", False)


# Our own


def write_safetensors(folder: Path) -> None:
    source = write_random(folder / "source")
    safetensors_file.write(read_weights(source), folder / "model.safetensors")
    shutil.rmtree(source)


def mutate_safetensors(folder: Path, rng: Random) -> Mutation:
    change = rng.choice([change_bytes, change_header])
    return change(folder / "model.safetensors", rng)


def change_header(path: Path, rng: Random) -> Mutation:
    """Change a value in the header, or in the config within it."""
    header, data = split_safetensors(path)
    if rng.random() < 0.7:
        what = change_value(header, rng)
    else:
        config = json.loads(header["__metadata__"]["config"])
        what = change_value(config, rng)
        header["__metadata__"]["config"] = json.dumps(config)
    join_safetensors(path, header, data)
    return Mutation(f"header: {what}", False)


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


def write_archive(folder: Path) -> None:
    source = write_random(folder / "source")
    shutil.make_archive(str(folder / "144"), "zip", source)
    shutil.rmtree(source)


def mutate_archive(folder: Path, rng: Random) -> Mutation:
    path = folder / "144.zip"
    if rng.random() < 0.4:
        return change_bytes(path, rng)
    shutil.unpack_archive(path, folder / "source")
    what = mutate_manylangs(folder / "source", rng)
    write_zip(path, content(folder / "source"), zipfile.ZIP_DEFLATED)
    shutil.rmtree(folder / "source")
    return Mutation(f"144.zip: {what.description}", what.must_raise)


PACKED = growths.PYTORCH_ARCHIVES
FORMATS = {
    "safetensors": Format(
        write_safetensors, mutate_safetensors, growths.SAFETENSORS, "model.safetensors"
    ),
    "allennlp": Format(write_tiny, mutate_hdf5, growths.HDF5),
    "word ids": Format(write_word_ids, mutate_hdf5, growths.WORD_IDS),
    "manylangs": Format(write_random, mutate_manylangs, growths.MANYLANGS + PACKED),
    "old manylangs": Format(
        partial(write_random, old_pickles=True), mutate_manylangs, growths.OLD_PICKLES
    ),
    "archive": Format(write_archive, mutate_archive, PACKED, "144.zip"),
    "pipeline": Format(write_pipeline, mutate_pipeline, growths.PIPELINE, "pipeline"),
}
