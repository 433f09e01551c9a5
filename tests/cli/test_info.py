"""`spacy elmo info` describes models of every format, without a download."""

import hashlib
import json
import shutil

import pytest
import spacy
from safetensors.numpy import load_file

from spacy_elmo.frozen.kernel import find_kernel
from spacy_elmo.weights.convert import convert
from spacy_elmo.weights.named import NAMED

from helpers.commands import run_elmo
from helpers.models import tiny_bilm, write_safetensors

pytestmark = [pytest.mark.commands, pytest.mark.conversions]

PROVENANCE = {"tokens": 12345, "perplexity": {"mean": 9.5}}


@pytest.fixture
def folder(here):
    write_safetensors(here / "x.safetensors", PROVENANCE)
    convert(here / "x.safetensors", here / "weights.hdf5", lang="sv")
    convert(here / "weights.hdf5", here / "pipeline")
    return here


def run(*arguments, status=0):
    return run_elmo("info", *arguments, status=status).stdout


@pytest.mark.parametrize(
    ("name", "format", "files", "languages"),
    [
        ("x.safetensors", "safetensors", ["x.safetensors"], []),
        ("weights.hdf5", "allennlp", ["weights.hdf5", "options.json"], ["sv"]),
        ("pipeline", "pipeline", ["elmo/model.safetensors"], ["sv"]),
    ],
)
def test_info_of_every_format(folder, name, format, files, languages):
    told = json.loads(run(name, "--json"))
    base = folder / name if format == "pipeline" else folder
    contents = {file.rpartition("/")[2]: (base / file).read_bytes() for file in files}
    n_weights = sum(values.size for values in load_file("x.safetensors").values())
    expected = {"path": name, "format": format, "languages": languages, "dtype": "float32"}
    expected |= {"layers": 3, "width": 10, "parameters": n_weights, "softmax": None}
    expected["provenance"] = {**PROVENANCE, **({"lang": "sv"} if languages else {})}
    expected["checksum"] = tiny_bilm().checksum()  # the same in every format
    expected["files"] = [
        {"name": file, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for file, data in contents.items()
    ]
    assert {key: told[key] for key in expected} == expected
    assert told["sizes"]["lstm_dim"] == 12


@pytest.mark.parametrize(
    ("fast", "chosen"),
    [((), "float32"), (("int8",), "float32"), (("bfloat16", "int8"), "bfloat16")],
)
def test_kernel_of_this_machine(folder, monkeypatch, fast, chosen):
    """The format of precision "auto" is fast on this machine, and close to float32."""
    kernel = find_kernel()
    monkeypatch.setattr(kernel, "fast_types", fast)
    told = json.loads(run("x.safetensors", "--json"))
    assert told["cpu"] == {"kernel": kernel.name, "auto": chosen}


def test_table_is_ordered_indented_and_narrow(folder, monkeypatch):
    """Settings that a config needs come first.

    Nested objects are indented. No line is too wide, and no checksum is broken.
    """
    monkeypatch.setenv("COLUMNS", "80")
    lines = run("pipeline").splitlines()
    assert " ".join(lines[0].split()) == "width 10 (a listener's `width`: 2 * projection_dim)"
    assert " ".join(lines[1].split()).startswith("layers 3 (a mix's")
    at = lines.index("provenance")
    shown = [" ".join(line.split()) for line in lines[at + 1 : at + 4]]
    assert shown == ["tokens 12,345", "perplexity", "mean 9.5"]
    assert [len(line) - len(line.lstrip()) for line in lines[at : at + 4]] == [0, 2, 2, 4]
    assert lines[lines.index("checksum") + 1].strip() == tiny_bilm().checksum()
    assert max(map(len, lines)) <= 80


@pytest.mark.pipelines
def test_half_precision_and_a_pipeline_whose_other_components_are_missing(folder):
    settings = {"dtype": "bfloat16", "allow_loss": True}
    convert(folder / "x.safetensors", folder / "half.safetensors", **settings)
    assert json.loads(run("half.safetensors", "--json"))["dtype"] == "bfloat16"
    nlp = spacy.load("pipeline")
    nlp.add_pipe("sentencizer")
    nlp.to_disk("two")
    (folder / "two" / "sentencizer" / "cfg").unlink(missing_ok=True)
    shutil.rmtree(folder / "two" / "vocab")
    told = json.loads(run("two", "--json"))
    assert told["also"] == ["the other components (sentencizer)"]
    assert told["checksum"] == tiny_bilm().checksum()


def test_info_of_a_named_model_downloads_nothing(folder, monkeypatch):
    monkeypatch.setenv("SPACY_ELMO_CACHE", str(folder / "cache"))
    told = json.loads(run("german", "--json"))
    assert (told["downloaded"], told["languages"]) == (False, ["de"])
    assert told["licence"] == "BSD-2-Clause"
    assert told["urls"] == [file.url for file in NAMED["german"].files]
    assert "weights.hdf5" in run("german")
    model = NAMED["small"]
    model.path.parent.mkdir(parents=True)
    for name, path in zip(("options.json", "weights.hdf5"), model.paths):
        shutil.copy(folder / name, path)
    told = json.loads(run("small", "--json"))
    assert (told["name"], told["path"]) == ("small", str(model.path))
    assert told["checksum"] == tiny_bilm().checksum()
    assert told["provenance"]["licence"] == told["licence"] == model.licence
