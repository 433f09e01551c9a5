"""Escape sequences in models, texts and names of files, which commands print."""

import os
import re

import h5py
import numpy as np
import pytest
import spacy
import srsly

from spacy_elmo.language_model.model import save_model

from helpers.commands import run_elmo
from helpers.conversions import make_model

pytestmark = pytest.mark.commands

# Clears the screen, sets its title, goes to the beginning of the line, turns the direction.
NASTY = "x\x1b[2J\x1b]0;t\x07\x9b2J\u202ey"
FILE = NASTY + os.fsdecode(b"\xff")  # a name that is no UTF-8
COLORS = re.compile(r"\x1b\[[0-9;]*m")  # of the printer's own


def shown_by(*arguments, status=0):
    shown = COLORS.sub("", run_elmo(*arguments, status=status).output)
    for character in "\x1b\x07\x9b\u202e\udcff":
        assert character not in shown, ascii(shown)
    return "".join(shown.split())


@pytest.fixture
def model(here, monkeypatch):
    """A language model whose words, provenance and folder's name have them."""
    monkeypatch.setenv("COLUMNS", "300")
    nasty = {"name": NASTY, NASTY: {NASTY: [NASTY, 1]}, "licence": NASTY, "attribution": NASTY}
    model = make_model(words=["<S>", "</S>", "<UNK>", "cat", NASTY, "sat"])
    save_model(model, here / FILE, lang="en", provenance=nasty)
    (here / f"{FILE}.txt").write_text(f"the cat sat\na {NASTY} sat\n", "utf8")
    (here / f"{FILE}.jsonl").write_bytes(b'{"tokens": ["a"]}\n{\n')
    return FILE


ESCAPED = r"x\x1b[2J\x1b]0;t\x07\x9b2J\u202ey"


ASKED = ("--sentence", f"the {NASTY} sat", "--token")


@pytest.mark.parametrize(
    ("arguments", "status", "count"),
    [
        (["info", FILE], 0, 6),
        (["info", f"{NASTY}-is-none"], 1, 1),
        (["neighbors", FILE, f"{FILE}.txt", *ASKED, NASTY], 0, 3),
        (["neighbors", FILE, f"{FILE}.txt", *ASKED, "is-not-there"], 1, 1),
        (["substitutes", FILE, *ASKED, NASTY, "-n", 6], 0, 2),
        (["sample", FILE, "--n", 20, "--max-tokens", 20], 0, 1),
        (["perplexity", FILE, f"{FILE}.txt"], 0, 0),
        (["convert", FILE, f"{FILE}.safetensors"], 0, 1),
        (["convert", FILE, f"{FILE}.txt"], 1, 1),
        (["embed", FILE, f"{FILE}.txt", f"{FILE}.npz"], 0, 1),
        (["corpus", f"{FILE}.txt", f"{FILE}-corpus", "--min-count", 1], 0, 1),
        (["corpus", f"{FILE}.jsonl", f"{FILE}-corpus"], 0, 0),
    ],
)
def test_commands_print_escape_sequences_as_text(model, arguments, status, count):
    assert shown_by(*arguments, status=status).count(ESCAPED) >= count


def test_names_in_files_of_weights_are_printed_as_text(model):
    run_elmo("convert", model, "weights.hdf5", "--no-softmax")
    with h5py.File("weights.hdf5", "a") as file:
        file[f"more/{NASTY}"] = np.zeros(2)
    assert ESCAPED in shown_by("info", "weights.hdf5")
    assert ESCAPED in shown_by("convert", "weights.hdf5", "b.safetensors", status=3)
    with h5py.File("weights.hdf5", "a") as file:
        file[f"CNN/{NASTY}"] = np.zeros(2)
    assert r"\x1b[2J" in shown_by("info", "weights.hdf5", status=1)
    options = srsly.read_json("options.json")
    srsly.write_json("options.json", {**options, "lstm": {**options["lstm"], "dim": NASTY}})
    assert r"\x1b[2J" in shown_by("info", "weights.hdf5", status=1)


@pytest.mark.pipelines
def test_names_of_other_components_are_printed_as_text(model):
    nlp = spacy.load(model)
    nlp.add_pipe("sentencizer", name=NASTY)
    nlp.to_disk("other")
    assert ESCAPED in shown_by("info", "other").partition("also")[2]
