"""The softmax of AllenNLP's files: perplexity by it, and runs that go on from it."""

import json
import math
import zipfile

import numpy as np
import pytest
import torch
from spacy.cli._util import app
from typer.testing import CliRunner

import spacy_elmo.cli  # noqa: F401  (adds the commands to spaCy's)
from spacy_elmo.language_model.model import read_language_model
from spacy_elmo.language_model.perplexity import perplexity
from spacy_elmo.pretraining.initial_model import initial_model
from spacy_elmo.pretraining.run import pretrain
from spacy_elmo.text.corpus import read_corpus

import reference
from models import check_refused
from runs import run_settings, write_texts
from softmaxes import MODELS, WORDS, bytes_model, read_words, write_model

SENTENCES = [["the", "cat", "sat"], ["naïve", "unreasonably", "."], ["the", "."]]
OTHER = read_corpus([["the", "a", "new", "cat"], ["words", "the", "new", "the"]] * 20)


def expected_figures(options, datasets):
    """Sentence by sentence, the state carried."""
    n_directions = 1 if "bidirectional" in options else 2
    losses = []
    for direction in range(n_directions):
        cells, found = None, []
        for sentence in SENTENCES:
            whole = ["<S>", *sentence, "</S>"][:: -1 if direction else 1]
            predicted, cells = reference.log_probabilities(
                options, datasets, whole[:-1], direction, cells, read_words(options)
            )
            ids = [WORDS.index(w) if w in WORDS else 2 for w in whole[1:]]
            found.extend(-predicted[range(len(ids)), ids])
        losses.append(np.mean(found))
    return losses


@pytest.mark.parametrize("kind", MODELS)
def test_perplexity(tmp_path, kind):
    options, datasets = MODELS[kind]()
    model = read_language_model(write_model(tmp_path, options, datasets))
    assert not any(weight.requires_grad for weight in model.parameters())
    figures = perplexity(model, read_corpus(SENTENCES), n_streams=1)
    losses = expected_figures(options, datasets)
    assert figures.forward == pytest.approx(math.exp(losses[0]), rel=1e-5)
    assert figures.mean == pytest.approx(math.exp(np.mean(losses)), rel=1e-5)
    if kind == "forward":
        assert math.isnan(figures.backward)
        assert figures.to_dict()["backward"] is None
    else:
        assert figures.backward == pytest.approx(math.exp(losses[1]), rel=1e-5)


def run_perplexity(*arguments):
    result = CliRunner().invoke(app, ["elmo", "perplexity", *map(str, arguments)])
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize("kind", MODELS)
def test_command(tmp_path, kind):
    options, datasets = MODELS[kind]()
    weights = write_model(tmp_path / "model", options, datasets)
    text = tmp_path / "text.txt"
    text.write_text("".join(" ".join(sentence) + "\n" for sentence in SENTENCES), "utf8")
    with zipfile.ZipFile(tmp_path / "model.zip", "w") as archive:
        for file in (tmp_path / "model").iterdir():
            archive.write(file, file.name)
    expected = {
        "forward": math.exp(expected_figures(options, datasets)[0]),
        "mean": math.exp(np.mean(expected_figures(options, datasets))),
    }
    for path in (weights, weights.parent, tmp_path / "model.zip"):
        total = json.loads(run_perplexity(path, text, "--json"))["total"]
        assert (total["backward"] is None) == (kind == "forward")
        for name, value in expected.items():
            assert total[name] == pytest.approx(value, rel=1e-5)
    row = run_perplexity(weights, text).splitlines()[-2].split()
    assert (row[2] == "-") == (kind == "forward")


def test_going_on_keeps_softmax_and_vocabulary(tmp_path):
    options, datasets = bytes_model()
    write_texts(tmp_path)
    path = write_model(tmp_path / "model", options, datasets)
    config = run_settings(tmp_path, init={"init": str(path)}, max_steps=2)
    model, softmax_warmup = initial_model(config, OTHER)
    assert softmax_warmup == 0
    assert model.vocabulary.words == WORDS
    np.testing.assert_array_equal(model.softmax.weight.detach(), datasets["softmax/W"])
    np.testing.assert_array_equal(model.softmax.bias.detach(), datasets["softmax/b"])
    assert all(weight.requires_grad for weight in model.parameters())
    pretrain(config, tmp_path / "out")
    after = read_language_model(tmp_path / "out" / "model-last")
    assert after.vocabulary.words == WORDS
    assert (after.softmax.weight.numpy() != datasets["softmax/W"]).any()
    np.testing.assert_allclose(after.softmax.weight, datasets["softmax/W"], atol=0.1)


def test_new_vocabulary_takes_over_its_words(tmp_path):
    options, datasets = bytes_model()
    write_texts(tmp_path)
    path = write_model(tmp_path / "model", options, datasets)
    init = {"init": str(path), "vocabulary": "new", "softmax_warmup": 7}
    model, softmax_warmup = initial_model(run_settings(tmp_path, init=init), OTHER)
    assert softmax_warmup == 7
    words = model.vocabulary.words
    assert "new" in words
    for word in ("the", "cat", "<UNK>"):
        weight = torch.from_numpy(datasets["softmax/W"][WORDS.index(word)])
        assert torch.equal(model.softmax.weight[words.index(word)], weight)


def test_softmax_without_vocabulary(tmp_path, capsys):
    """Nobody knows its words: a new one is trained, and that is said."""
    options, datasets = bytes_model()
    write_texts(tmp_path)
    path = write_model(tmp_path / "model", options, datasets)
    (tmp_path / "model" / "vocab.txt").unlink()
    config = run_settings(tmp_path, init={"init": str(path)})
    model, softmax_warmup = initial_model(config, OTHER)
    assert softmax_warmup == 500
    assert "new" in model.vocabulary
    shown = " ".join(capsys.readouterr().out.split())
    assert "has a softmax, but no vocab.txt: a new one takes its place" in shown
    check_refused(lambda: read_language_model(path), path, "holds no vocab.txt")


def test_vocabularies_that_do_not_fit(tmp_path):
    path = write_model(tmp_path, *bytes_model())
    words = tmp_path / "vocab.txt"
    words.write_text("\n".join(WORDS[1:]), "utf8")
    check_refused(lambda: read_language_model(path), words, "7 words", "softmax/W", "8 rows")
    words.write_text("\n".join(WORDS[::-1]), "utf8")
    check_refused(lambda: read_language_model(path), "vocab.txt of", path, "starts with <S>")
