import json
import shutil
from itertools import product

import pytest
import spacy
from spacy.tokens import Doc, DocBin, Span

import spacy_elmo.cli  # noqa: F401  (adds the commands to spaCy's)

from helpers.commands import run_elmo

TAGS = {"the": "DT", "a": "DT", "cat": "NN", "dog": "NN", "sat": "VB", "ran": "VB"}
SENTENCES = [" ".join(words) for words in product(("the", "a"), ("cat", "dog"), ("sat", "ran"))]


def write(path, sentences):
    vocab = spacy.blank("en").vocab
    docs = []
    for sentence in sentences:
        words = sentence.split()
        doc = Doc(vocab, words=words, tags=[TAGS[word] for word in words])
        doc.spans["senses"] = [Span(doc, 1, 2, f"{words[1]}_{words[2]}")]
        docs.append(doc)
    DocBin(docs=docs).to_disk(path)


@pytest.fixture
def folder(tmp_path, monkeypatch, tiny_weights):
    write(tmp_path / "train.spacy", SENTENCES[:6])
    write(tmp_path / "test.spacy", SENTENCES[6:])
    shutil.copytree(tiny_weights.parent, tmp_path / "model")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments, fails=False):
    given = ("model", "train.spacy", "test.spacy", *map(str, arguments))
    return run_elmo("probe", *given, status=1 if fails else 0)


def test_tags(folder, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    result = run("--task", "tag", "--json", "out/tag.json")
    report = json.loads((folder / "out" / "tag.json").read_text())
    assert (report["task"], report["n_labels"]) == ("tag", 3)
    assert (report["n_train"], report["n_test"], report["n_unseen"]) == (18, 6, 0)
    rows = report["rows"]
    reads = ["", "", "layer 0", "layer 1", "layer 2", "average"]
    assert [row["input"] for row in rows] == reads
    assert rows[0]["scores"]["accuracy"] == pytest.approx(1 / 3)
    assert rows[1]["scores"]["accuracy"] == 1.0  # a word has one tag
    assert rows[2]["scores"] == {"accuracy": 1.0, "macro_f": 1.0}
    assert max(map(len, result.stdout.splitlines())) <= 80
    lines = [line.split() for line in result.stdout.splitlines()]
    shown = next(line for line in lines if line[2:4] == ["layer", "1"])
    assert shown[4] == f"{rows[3]['scores']['accuracy']:.2%}"
    assert "3 labels; trained on 18, tested on 6" in " ".join(result.stdout.split())


def test_senses_and_layers(folder):
    result = run("--task", "senses:senses", "--layers", "1, concat", "--json", "-")
    report = json.loads(result.stdout)
    assert [(row["method"], row["input"]) for row in report["rows"]] == [
        ("most frequent sense", ""),
        ("nearest neighbor", "layer 1"),
        ("nearest neighbor", "concat"),
        ("logistic regression", "layer 1"),
        ("logistic regression", "concat"),
    ]
    assert set(report["rows"][0]["scores"]) == {"accuracy", "word_accuracy"}


def test_limit_and_seed(folder):
    reports = [
        json.loads(run("--task", "tag", "--limit", 5, "--seed", seed, "--json", "-").stdout)
        for seed in (0, 0, 1)
    ]
    assert [report["n_train"] for report in reports] == [5, 5, 5]
    first, second, third = ([row["scores"] for row in report["rows"]] for report in reports)
    assert first == second
    assert first != third
    settings = ("--task", "senses:senses", "--neighbors", "0", "--json", "no.json")
    assert "must be at least 1, got 0" in run(*settings, fails=True).output
    assert not (folder / "no.json").exists()
