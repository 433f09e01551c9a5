"""Substitutes, against the reference's softmax: each direction reads no more than it may."""

import json

import numpy as np
import pytest

from spacy_elmo.analysis.substitutes import Substitute
from spacy_elmo.cli.neighbors import marked

from helpers import reference
from helpers.commands import run_elmo
from helpers.conversions import write_source
from helpers.models import write_safetensors
from helpers.softmaxes import MODELS, WORDS, bytes_model, read_words, write_model

pytestmark = pytest.mark.commands

SENTENCE = ["The", "cat", "sat", "there", "."]
REAL = WORDS[3:]  # no mark, and not <UNK>


def expected_of(options, datasets, sentence, position):
    """Log-probabilities of the words, by both and in each direction."""
    sides = [["<S>", *sentence[:position]], ["</S>", *sentence[position + 1 :][::-1]]]
    words, each = read_words(options), []
    for i, read in enumerate(sides[: 1 if "bidirectional" in options else 2]):
        predicted, _ = reference.log_probabilities(options, datasets, read, i, words=words)
        each.append(predicted[-1, 3:])
    both = sum(each)
    return [both - np.log(np.exp(both).sum()), *each]


def run(model, position, *options, sentence=SENTENCE, status=0):
    asked = ("--sentence", " ".join(sentence), "--token", position)
    result = run_elmo("substitutes", model, *asked, *options, status=status)
    return result.stdout if status == 0 else " ".join(result.output.split())


def substitutes_of(*arguments, **settings):
    """The words, and the token itself."""
    found = json.loads(run(*arguments, "--json", **settings))
    rows = [row and Substitute(**row) for row in (*found["substitutes"], found["itself"])]
    return rows[:-1], rows[-1]


@pytest.mark.training
@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("position", range(5))
def test_json_and_table_show_the_probabilities_of_the_softmax(tmp_path, kind, position):
    options, datasets = MODELS[kind]()
    model = write_model(tmp_path, options, datasets)
    found, itself = substitutes_of(model, position)
    both, *each = expected_of(options, datasets, SENTENCE, position)
    assert [one.word for one in found] == [REAL[i] for i in np.argsort(-both)]
    assert [one.rank for one in found] == [1, 2, 3, 4, 5]
    for one in found:
        values = [np.exp(x[REAL.index(one.word)]) for x in (both, *each)]
        got = [one.probability, one.forward, one.backward]
        if kind == "forward":
            assert got.pop() is None
        np.testing.assert_allclose(got, values, rtol=1e-4)
    assert sum(one.probability for one in found) == pytest.approx(1)
    word = SENTENCE[position]
    assert itself == next((one for one in found if one.word == word), None)
    assert (itself is None) == (word not in REAL)
    # The token itself is shown below the others.
    rows = [
        f"{one.rank} {one.word} {one.probability:.2%} {one.forward:.2%} "
        + ("-" if kind == "forward" else f"{one.backward:.2%}")
        for one in [*found[:2], *([itself] if itself and itself.rank > 2 else [])]
    ]
    lines = [" ".join(line.split()) for line in run(model, position, "-n", 2).splitlines()]
    header, columns, _, *lines = filter(None, lines)
    assert (header, columns) == (marked(SENTENCE, position, 80), "rank word both forward backward")
    assert lines == [*rows, *([] if itself else [f"The vocabulary lacks '{word}'"])]


def test_one_word_pipelines_and_models_without_a_softmax(tmp_path):
    model = write_model(tmp_path / "model", *bytes_model())
    found, itself = substitutes_of(model, "cat", sentence=["cat"])
    both = expected_of(*bytes_model(), ["cat"], 0)[0]
    assert itself.probability == pytest.approx(np.exp(both[1]), rel=1e-4)
    assert len(found) == 5
    assert len(substitutes_of(write_source(tmp_path / "pipeline"), "cat")[0]) == 3
    shown = run(write_safetensors(tmp_path / "a.safetensors"), "cat", status=1)
    assert "has no softmax, which a model needs" in shown
    assert "softmax.safetensors and vocab.txt. If it was published without, train" in shown
    assert f"pretrain CONFIG --pretraining.init {tmp_path / 'a.safetensors'}`" in shown
    (tmp_path / "model" / "vocab.txt").unlink()
    assert "has no vocab.txt" in run(model, "cat", status=1)
