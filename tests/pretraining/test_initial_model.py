"""Runs that go on from a model that exists."""

from dataclasses import replace
from types import SimpleNamespace

import h5py
import numpy as np
import pytest
import srsly
import torch

from spacy_elmo.bilm.model import BiLM
from spacy_elmo.bilm.softmax import AdaptiveSoftmax
from spacy_elmo.frozen.vocabulary import SPECIAL, InputVocabulary, Vocabularies
from spacy_elmo.language_model.frozen import read_language_model
from spacy_elmo.language_model.perplexity import perplexity
from spacy_elmo.pretraining import initial_model as module
from spacy_elmo.pretraining.config import check_config
from spacy_elmo.pretraining.initial_model import initial_model, product_dtype
from spacy_elmo.pretraining.run import pretrain
from spacy_elmo.pretraining.trainer import Trainer
from spacy_elmo.text.corpus import load_text, read_corpus
from spacy_elmo.weights import read_weights, safetensors_file

from helpers import reference
from helpers.models import check_refused, tiny_bilm, tiny_options
from helpers.runs import (
    arrays,
    assert_same_arrays,
    assert_same_weights,
    metrics,
    run_config,
    run_settings,
    write_texts,
)
from helpers.softmaxes import WORDS, bytes_model, write_model
from helpers.trainers import Killed, kill_at, run_to_the_end

OTHER = read_corpus([["the", "a", "new", "b"], ["words", "the", "new", "the"]] * 20)
DEV = read_corpus([["the", "a", "unseen", "b"]])
SAID = {"attribution": "Of Maria's letters.", "licence": "CC-BY-4.0", "tokens": 3}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """With a pipeline of each kind of softmax, and weights in AllenNLP's format."""
    made = tmp_path_factory.mktemp("init")
    write_texts(made)
    for kind in ("sampled", "adaptive"):
        pretrain(run_settings(made, softmax=kind, max_steps=4, seed=3), made / kind)
    options = tiny_options()
    path = reference.write_hdf5(made / "allennlp", options, reference.random_datasets(options, 7))
    with h5py.File(path, "a") as file:
        file.attrs["spacy_elmo_provenance"] = srsly.json_dumps(SAID)
    return made


def init_of(folder, name="sampled", **settings):
    path = folder / name
    return {"init": str(path / "model-last" if name != "allennlp" else path), **settings}


def trainer_of(folder, name="sampled", init=(), **training):
    config = run_settings(folder, init=init_of(folder, name, **dict(init)), **training)
    return Trainer(config, OTHER, DEV)


def run(trainer, **settings):
    trainer.run(on_evaluation=lambda *args: None, **settings)


@pytest.mark.parametrize(
    ("name", "kind"), [("sampled", "sampled"), ("sampled", "full"), ("adaptive", "adaptive")]
)
def test_pipeline_with_its_softmax(folder, name, kind):
    """All weights, the vocabulary, and no time for the softmax alone; the config's sizes
    are no matter."""
    config = run_settings(folder, init=init_of(folder, name), softmax=kind)
    config = config.model_copy(update={"bilm": read_weights(folder / "allennlp").config})
    model, softmax_warmup = initial_model(config, OTHER)
    assert softmax_warmup == 0
    expected = read_language_model(folder / name / "model-last")
    assert model.vocabulary.words == expected.vocabulary.words
    assert "new" not in model.vocabulary
    assert_same_weights(model, expected)
    assert all(weight.requires_grad for weight in model.parameters())
    assert model.bilm.config == expected.bilm.config


@pytest.mark.parametrize(("name", "kind"), [("sampled", "adaptive"), ("adaptive", "full")])
def test_softmax_of_another_kind_is_refused(folder, name, kind):
    config = run_settings(folder, init=init_of(folder, name), softmax=kind)
    with pytest.raises(ValueError, match=rf"softmax is '{kind}'\. .* vocabulary = \"new\""):
        initial_model(config, OTHER)
    config = run_settings(folder, init=init_of(folder, name, vocabulary="new"), softmax=kind)
    model, _ = initial_model(config, OTHER)
    assert isinstance(model.softmax, AdaptiveSoftmax) == (kind == "adaptive")


def test_new_vocabulary_takes_over_the_words_it_knows(folder):
    init = init_of(folder, vocabulary="new", softmax_warmup=7)
    torch.manual_seed(0)
    model, softmax_warmup = initial_model(run_settings(folder, init=init), OTHER)
    assert softmax_warmup == 7
    old = read_language_model(folder / "sampled" / "model-last")
    rows = old.softmax.thaw()
    words = model.vocabulary.words
    assert set(words) == {"<S>", "</S>", "<UNK>", "the", "a", "b", "new", "words"}
    known = {word: old.vocabulary.words.index(word) for word in words if word in old.vocabulary}
    assert set(known) == set(words) - {"new", "words"}
    for i, word in enumerate(words):
        if word in known:
            assert torch.equal(model.softmax.weight[i], rows.weight[known[word]])
            assert model.softmax.bias[i] == rows.bias[known[word]]
        else:
            assert not (model.softmax.weight[i] == rows.weight[2]).any()
            assert model.softmax.bias[i] == 0
    assert_same_arrays(model.bilm.freeze().arrays(), old.bilm.arrays())


def test_weights_without_a_softmax(folder):
    model, softmax_warmup = initial_model(
        run_settings(folder, init=init_of(folder, "allennlp")), OTHER
    )
    assert softmax_warmup == 500
    assert "new" in model.vocabulary
    expected = read_weights(folder / "allennlp")
    assert model.bilm.config == expected.config
    assert model.softmax.weight.shape[1] == expected.config.projection_dim
    assert_same_arrays(model.bilm.freeze().arrays(), expected.arrays())
    assert all(weight.requires_grad for weight in model.parameters())


@pytest.mark.parametrize("kind", ["sampled", "adaptive"])
def test_new_softmax_is_trained_alone_first(folder, kind):
    """The biLM stands still for so many steps, which is known; then all is trained; the rate
    warms up anew; the figures before are those of the frozen biLM with its softmax."""
    trainer = trainer_of(
        folder, "allennlp", {"softmax_warmup": 5}, softmax=kind, max_steps=9, warmup_steps=3
    )
    bilm = read_weights(folder / "allennlp").thaw().state_dict()
    softmaxes, still, rates, before = [], [], [], []

    def on_step(trainer):
        weights = trainer.model.bilm.state_dict()
        still.append(all(torch.equal(weights[name], bilm[name]) for name in bilm))
        assert trainer.is_softmax_alone == still[-1]
        softmaxes.append(torch.nn.utils.parameters_to_vector(trainer.model.softmax.parameters()))
        rates.append(trainer.optimizers.softmax_optimizer.param_groups[0]["lr"])
        if trainer.progress.step == 5:
            assert trainer.progress.before is None
            before.append(perplexity(trainer.model, DEV, n_streams=2).mean)

    run(trainer, on_step=on_step)
    assert still == [True] * 5 + [False] * 4
    assert all((a != b).any() for a, b in zip(softmaxes, softmaxes[1:]))
    assert trainer.progress.before == pytest.approx(before[0], rel=1e-6)
    assert rates[:5] == pytest.approx([0.01 / 3, 0.02 / 3, 0.01, 0.01, 0.01])
    assert rates[5] < rates[6]


def test_figures_before_are_those_of_the_model_and_take_no_time(folder, monkeypatch):
    """An hour for an evaluation, a minute for a step: all of the minutes are for steps."""
    clock = [0.0]

    def passes(call, seconds):
        def run(trainer):
            clock[0] += seconds
            return call(trainer)

        return run

    for name, seconds in (("step", 60), ("_perplexity", 3600)):
        monkeypatch.setattr(Trainer, name, passes(getattr(Trainer, name), seconds))
    tick = SimpleNamespace(monotonic=lambda: clock[0])
    monkeypatch.setattr("spacy_elmo.pretraining.clock.time", tick)
    trainer = trainer_of(folder, max_steps=0, max_minutes=4, eval_frequency=100)
    new = Trainer(run_settings(folder, max_steps=2), OTHER, DEV)
    for each in (trainer, new):
        run(each)
    model = read_language_model(folder / "sampled" / "model-last")
    expected = perplexity(model, DEV, n_streams=2).mean
    assert trainer.progress.before == pytest.approx(expected, rel=1e-6)
    assert trainer.progress.best != pytest.approx(expected, rel=1e-3)
    assert (trainer.progress.step, trainer.progress.elapsed) == (4, 240)
    assert new.progress.before is None


def test_killed_in_and_after_the_time_of_the_softmax(folder, tmp_path, monkeypatch):
    """And resumed without the model that it went on from, which may be gone."""
    write_texts(tmp_path)
    init = init_of(folder, "allennlp", softmax_warmup=4)
    config = run_settings(
        tmp_path, init=init, max_steps=8, dropout=0.2, checkpoint_minutes=1e-9, eval_frequency=3
    )
    pretrain(config, tmp_path / "alone")
    kill_at(monkeypatch, 2, 4, 6)
    with pytest.raises(Killed):
        pretrain(config, tmp_path / "out")
    monkeypatch.setattr(module, "read_bundle", None)
    assert run_to_the_end(config, tmp_path / "out") == 2
    assert_same_arrays(arrays(tmp_path / "out"), arrays(tmp_path / "alone"))
    assert metrics(tmp_path / "out") == metrics(tmp_path / "alone")
    model = read_language_model(tmp_path / "out" / "model-last")
    assert model.bilm.config == read_weights(folder / "allennlp").config
    for name in ("attribution", "licence"):
        assert model.bilm.provenance[name] == SAID[name]
    assert model.bilm.provenance["tokens"] != SAID["tokens"]
    said = (tmp_path / "out" / "model-last" / "LICENSES_SOURCES").read_text("utf8")
    assert said == SAID["attribution"]


@pytest.mark.parametrize("name", ["missing", "train.txt"])
def test_what_is_no_model(folder, name):
    config = run_settings(folder, init={"init": str(folder / name)})
    with pytest.raises(ValueError, match=name):
        initial_model(config, load_text(folder / "train.txt"))


def test_types_of_products(monkeypatch):
    cpu = torch.device("cpu")
    assert product_dtype("float32", cpu) is None
    assert product_dtype("bf16", cpu) is torch.bfloat16
    for name in ("_is_avx512_bf16_supported", "_is_amx_tile_supported"):
        monkeypatch.setattr(torch.cpu, name, lambda: False, raising=False)
    assert product_dtype("auto", cpu) is None
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: True, raising=False)
    assert product_dtype("auto", cpu) is torch.bfloat16
    for name in ("_is_avx512_bf16_supported", "_is_amx_tile_supported"):
        monkeypatch.delattr(torch.cpu, name)
    assert product_dtype("auto", cpu) is None


def test_models_that_cannot_be_pretrained(folder, tmp_path):
    """Ready-made vectors stand beside the characters, which would be trained without them."""
    config = run_config(folder)
    words = {**config["model"], "n_words": 5, "word_embed_dim": 8}
    points = {"token_encoder": "manylangs", "n_characters": 300}
    for config["model"], message in ((words, "n_words = 5"), (points, "encoder = 'manylangs'")):
        with pytest.raises(ValueError, match=f"a new model reads .* or words; .*{message}"):
            initial_model(check_config(config), OTHER)
    bilm = BiLM(
        replace(tiny_bilm().config, n_words=4, word_embed_dim=tiny_bilm().config.projection_dim),
        Vocabularies(words=InputVocabulary([*SPECIAL, "a"])),
    )
    safetensors_file.write(bilm.freeze(), tmp_path / "a.safetensors")
    config = run_settings(folder, init={"init": str(tmp_path / "a.safetensors")})
    with pytest.raises(ValueError, match="ready-made vectors of words beside its characters"):
        initial_model(config, OTHER)


def test_another_model_in_the_place_of_the_first(folder, tmp_path, capsys):
    """The run goes on with its own, and says so; where the first one is gone, nothing is said."""
    write_texts(tmp_path)
    place = tmp_path / "first.safetensors"
    safetensors_file.write(tiny_bilm(1), place)

    def pretrain_for(steps, **how):
        config = run_settings(tmp_path, init={"init": str(place)}, max_steps=steps)
        pretrain(config, tmp_path / "out", **how)
        return " ".join(capsys.readouterr().out.split())

    pretrain_for(2)
    assert "has changed since" not in pretrain_for(4, resume=True)
    safetensors_file.write(tiny_bilm(2), place)
    said = f"{place} has changed since this run started from it"
    for steps in (6, 8):
        assert said in pretrain_for(steps, resume=True)
    place.unlink()
    assert "has changed since" not in pretrain_for(10, resume=True)


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
    weight = after.softmax.arrays()["weight"]
    assert (weight != datasets["softmax/W"]).any()
    np.testing.assert_allclose(weight, datasets["softmax/W"], atol=0.1)


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
    assert "has a softmax, but no vocab.txt: a new softmax replaces it" in shown
    check_refused(lambda: read_language_model(path), path, "has no vocab.txt")
