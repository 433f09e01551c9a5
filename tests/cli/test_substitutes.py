import json

import pytest

from spacy_elmo.analysis.substitutes import find_substitutes
from spacy_elmo.language_model.frozen import read_language_model
from spacy_elmo.weights import safetensors_file

from helpers.commands import run_elmo
from helpers.conversions import write_source
from helpers.models import tiny_bilm
from helpers.softmaxes import bytes_model, forward_model, write_model

ASKED = ("--sentence", "the cat barks", "--token", "cat")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    write_model(tmp_path / "model", *bytes_model())
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments, status=0):
    return run_elmo("substitutes", *arguments, status=status)


def lines_of(result):
    return [" ".join(line.split()) for line in result.stdout.splitlines() if line.strip()]


def test_json_and_table(folder):
    found, itself = find_substitutes(read_language_model("model"), ["the", "cat", "barks"], 1, n=3)
    got = json.loads(run("model", *ASKED, "-n", 3, "--json").stdout)
    assert (got["sentence"], got["position"], got["word"]) == (["the", "cat", "barks"], 1, "cat")
    for row, one in zip([*got["substitutes"], got["itself"]], [*found, itself], strict=True):
        assert list(row) == list(one._fields)
        assert (row["word"], row["rank"]) == one[:2]
        assert [row[name] for name in one._fields[2:]] == pytest.approx(one[2:], abs=1e-9)
    lines = lines_of(run("model", *ASKED, "-n", 3))
    assert lines[0] == "the [cat] barks"
    assert lines[1] == "rank word both forward backward"
    rows = [*found, *([itself] if itself.rank > 3 else [])]
    assert lines[3:] == [
        f"{one.rank} {one.word} {one.probability:.2%} {one.forward:.2%} {one.backward:.2%}"
        for one in rows
    ]


def test_the_token_itself_is_shown_below(folder):
    for n, word in ((1, "the"), (1, "cat"), (5, "cat")):
        shown = lines_of(run("model", "--sentence", "the cat barks", "--token", word, "-n", n))
        assert sum(f" {word} " in line for line in shown[3:]) == 1 or n == 1
        assert any(f" {word} " in line for line in shown[3:])


def test_unknown_token(folder):
    asked = ("--sentence", "the cat barks", "--token", 2)
    assert json.loads(run("model", *asked, "--json").stdout)["itself"] is None
    assert "The vocabulary lacks 'barks'" in run("model", *asked).output


def test_pipelines_and_one_direction(folder):
    write_source(folder / "pipeline")
    assert len(json.loads(run("pipeline", *ASKED, "--json").stdout)["substitutes"]) == 3
    write_model(folder / "forward", *forward_model())
    rows = json.loads(run("forward", *ASKED, "--json").stdout)["substitutes"]
    assert {row["backward"] for row in rows} == {None}
    assert all(line.endswith(" -") for line in lines_of(run("forward", *ASKED))[3:])


def test_models_without_a_softmax_say_what_to_do(folder):
    safetensors_file.write(tiny_bilm(), folder / "a.safetensors")
    shown = " ".join(run("a.safetensors", *ASKED, status=1).output.split())
    assert "has no softmax, which a model needs" in shown
    assert "`python -m spacy elmo pretrain` wrote" in shown
    (folder / "model" / "vocab.txt").unlink()
    assert "model has no vocab.txt" in " ".join(run("model", *ASKED, status=1).output.split())
