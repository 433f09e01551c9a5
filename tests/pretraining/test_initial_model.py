"""Runs that start from an existing model: its weights, its vocabulary and its softmax, or a new
one."""

import shutil
from dataclasses import replace
from types import SimpleNamespace

import h5py
import pytest
import srsly
import torch

from spacy_elmo.bilm.model import BiLM
from spacy_elmo.bilm.softmax import AdaptiveSoftmax, freeze, thaw_softmax
from spacy_elmo.language_model.frozen import read_language_model
from spacy_elmo.language_model.perplexity import perplexity
from spacy_elmo.model.vocabulary import SPECIAL, InputVocabulary, Vocabularies
from spacy_elmo.pretraining import initial_model as module
from spacy_elmo.pretraining.config import check_config
from spacy_elmo.pretraining.initial_model import initial_model, product_dtype
from spacy_elmo.pretraining.run import pretrain
from spacy_elmo.pretraining.trainer import Trainer
from spacy_elmo.text.corpus import read_corpus
from spacy_elmo.weights import read_weights, safetensors_file

from helpers import reference
from helpers.calls import note_calls
from helpers.models import check_refused, tiny_bilm, tiny_options
from helpers.runs import arrays, assert_same_arrays, metrics, run_config, run_settings
from helpers.softmaxes import bytes_model, write_model
from helpers.trainers import Killed, kill_at, run, run_to_the_end

OTHER = read_corpus([["the", "a", "new", "b"], ["words", "the", "new", "the"]] * 20)
DEV = read_corpus([["the", "a", "unseen", "b"]])
SAID = {"attribution": "Of Maria's letters.", "licence": "CC-BY-4.0", "tokens": 3}


@pytest.fixture(scope="module")
def folder(texts, tmp_path_factory):
    """Return a folder with a pipeline for each kind of softmax, and weights in AllenNLP's format:
    `allennlp` without a softmax and `whole` with one."""
    made = shutil.copytree(texts, tmp_path_factory.mktemp("made") / "init")
    for kind in ("sampled", "adaptive"):
        pretrain(run_settings(made, softmax=kind, max_steps=4, seed=3), made / kind)
        (made / kind / "model-last").rename(made / f"{kind}-model")
    options = tiny_options()
    path = reference.write_hdf5(made / "allennlp", options, reference.random_datasets(options, 7))
    with h5py.File(path, "a") as file:
        file.attrs["spacy_elmo_provenance"] = srsly.json_dumps(SAID)
    write_model(made / "whole", *bytes_model())
    return made


def settings_of(folder, name="sampled-model", texts=None, init=(), **training):
    init = {"init": str(folder / name), **dict(init)}
    return run_settings(texts or folder, init=init, **training)


def check_bilm(model, expected):
    assert model.bilm.config == expected.config
    assert_same_arrays(model.bilm.freeze().arrays(), expected.arrays())
    assert all(weight.requires_grad for weight in model.parameters())


@pytest.mark.training
@pytest.mark.parametrize(
    ("name", "kind"),
    [("sampled-model", "sampled"), ("sampled-model", "full"), ("adaptive-model", "adaptive")]
    + [("whole", "sampled")],
)
def test_a_model_with_its_softmax_is_taken_over(folder, name, kind):
    """All weights and the vocabulary are taken over, and no steps train only the softmax. The
    config's sizes do not matter."""
    config = settings_of(folder, name, softmax=kind)
    config = config.model_copy(update={"bilm": read_weights(folder / "allennlp").config})
    model, softmax_warmup = initial_model(config, OTHER)
    assert softmax_warmup == 0
    expected = read_language_model(folder / name)
    assert model.vocabulary.words == expected.vocabulary.words
    assert "new" not in model.vocabulary
    assert_same_arrays(freeze(model.softmax).arrays(), expected.softmax.arrays())
    check_bilm(model, expected.bilm)


@pytest.mark.training
@pytest.mark.parametrize(
    ("name", "kind"), [("sampled-model", "adaptive"), ("adaptive-model", "full")]
)
def test_a_softmax_of_another_kind_is_refused(folder, name, kind):
    with pytest.raises(ValueError, match=rf"softmax is '{kind}'\. .* vocabulary = \"new\""):
        initial_model(settings_of(folder, name, softmax=kind), OTHER)
    config = settings_of(folder, name, init={"vocabulary": "new"}, softmax=kind)
    model, _ = initial_model(config, OTHER)
    assert isinstance(model.softmax, AdaptiveSoftmax) == (kind == "adaptive")


@pytest.mark.training
def test_a_new_vocabulary_takes_over_known_words(folder):
    config = settings_of(folder, init={"vocabulary": "new", "softmax_warmup": 7})
    model, softmax_warmup = initial_model(config, OTHER)
    assert softmax_warmup == 7
    old = read_language_model(folder / "sampled-model")
    rows = thaw_softmax(old.softmax)
    words = model.vocabulary.words
    assert set(words) == {"<S>", "</S>", "<UNK>", "the", "a", "b", "new", "words"}
    for word, weight, bias in zip(words, model.softmax.weight, model.softmax.bias):
        if word in ("new", "words"):
            assert not (weight == rows.weight[2]).any() and bias == 0
        else:
            known = old.vocabulary.words.index(word)
            assert torch.equal(weight, rows.weight[known]) and bias == rows.bias[known]
    check_bilm(model, old.bilm)


@pytest.mark.training
@pytest.mark.parametrize("has_lost_its_vocabulary", [False, True])
def test_weights_without_a_softmax_get_a_new_one(folder, tmp_path, capsys, has_lost_its_vocabulary):
    """A softmax whose vocabulary is missing is replaced, too, with a message."""
    path = folder / "allennlp"
    if has_lost_its_vocabulary:
        path = shutil.copytree(folder / "whole", tmp_path / "model")
        (path / "vocab.txt").unlink()
        check_refused(lambda: read_language_model(path), path, "has no vocab.txt")
    model, softmax_warmup = initial_model(settings_of(path.parent, path.name, folder), OTHER)
    shown = " ".join(capsys.readouterr().out.split())
    said = "has a softmax, but no vocab.txt: a new softmax replaces it"
    assert (said in shown) == has_lost_its_vocabulary
    assert softmax_warmup == 500
    assert "new" in model.vocabulary
    check_bilm(model, read_weights(path))
    assert model.softmax.weight.shape[1] == model.bilm.config.projection_dim


@pytest.mark.training
@pytest.mark.parametrize("kind", ["sampled", "adaptive"])
def test_a_new_softmax_is_trained_alone_first(folder, kind):
    """The biLM is frozen for a known number of steps. Then all weights are trained, after a second
    warm-up of the rate. The first figures are those of the frozen biLM with its softmax."""
    more = {"softmax": kind, "max_steps": 9, "warmup_steps": 3}
    config = settings_of(folder, "allennlp", init={"softmax_warmup": 5}, **more)
    trainer = Trainer(config, OTHER, DEV)
    bilm = BiLM.from_frozen(read_weights(folder / "allennlp")).state_dict()
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


@pytest.mark.training
def test_the_first_figures_take_no_time_of_the_limit(folder, monkeypatch):
    """An evaluation takes an hour and a step a minute, and all minutes of the limit are for
    steps."""
    clock = [0.0]
    for name, seconds in (("start_step", 60), ("_perplexity", 3600)):
        note_calls(monkeypatch, Trainer, name, lambda _, s=seconds: clock.append(clock[-1] + s))
    times = dict.fromkeys(("monotonic", "perf_counter"), lambda: clock[-1])
    monkeypatch.setattr("spacy_elmo.pretraining.trainer.time", SimpleNamespace(**times))
    config = settings_of(folder, max_steps=0, max_minutes=4, eval_frequency=100)
    trainer = Trainer(config, OTHER, DEV)
    run(trainer)
    expected = perplexity(read_language_model(folder / "sampled-model"), DEV, n_streams=2).mean
    assert trainer.progress.before == pytest.approx(expected, rel=1e-6)
    assert (trainer.progress.step, trainer.progress.elapsed) == (4, 240)


@pytest.mark.training
def test_a_kill_during_or_after_the_training_of_the_softmax_can_be_resumed(
    folder, tmp_path, monkeypatch
):
    """The run is resumed without its initial model, which may be gone."""
    init = {"softmax_warmup": 4}
    more = {"max_steps": 8, "dropout": 0.2, "checkpoint_minutes": 1e-9, "eval_frequency": 3}
    config = settings_of(folder, "allennlp", init=init, **more)
    alone, out = tmp_path / "alone", tmp_path / "out"
    pretrain(config, alone)
    kill_at(monkeypatch, 2, 4, 6)
    with pytest.raises(Killed):
        pretrain(config, out)
    monkeypatch.setattr(module, "read_bundle", None)
    assert run_to_the_end(config, out) == 2
    assert_same_arrays(arrays(out), arrays(alone))
    assert metrics(out) == metrics(alone)
    model = read_language_model(out / "model-last")
    assert model.bilm.config == read_weights(folder / "allennlp").config
    said = {name: model.bilm.provenance[name] for name in SAID}
    assert said == {**SAID, "tokens": metrics(out)[-1]["tokens"]}
    assert (out / "model-last" / "LICENSES_SOURCES").read_text("utf8") == SAID["attribution"]


def test_precisions_are_types_of_products(monkeypatch):
    cpu = torch.device("cpu")
    assert product_dtype("float32", cpu) is None
    assert product_dtype("bf16", cpu) is torch.bfloat16
    names = "_is_avx512_bf16_supported", "_is_amx_tile_supported"
    for has_bfloat16 in (False, True):
        for name in names:
            monkeypatch.setattr(torch.cpu, name, lambda has=has_bfloat16: has, raising=False)
        assert product_dtype("auto", cpu) is (torch.bfloat16 if has_bfloat16 else None)
    for name in names:  # of some versions of PyTorch
        monkeypatch.delattr(torch.cpu, name)
    assert product_dtype("auto", cpu) is None


@pytest.mark.training
def test_models_that_cannot_be_pretrained_are_refused(folder, tmp_path):
    """There is no model, or it reads ready-made vectors besides characters, which it would be
    trained without."""
    sizes = replace(tiny_bilm().config, n_words=4, word_embed_dim=5)
    bilm = BiLM(sizes, Vocabularies(words=InputVocabulary([*SPECIAL, "a"])))
    safetensors_file.write(bilm.freeze(), tmp_path / "a.safetensors")
    words = {"n_words": 5, "word_embed_dim": 8}
    points = {"token_encoder": "manylangs", "n_characters": 300}
    for init, sizes, message in (
        (folder / "missing", {}, "missing"),
        (None, words, "a new model reads .* or words; .*n_words = 5"),
        (None, points, "a new model reads .* or words; .*encoder = 'manylangs'"),
        (tmp_path / "a.safetensors", {}, "ready-made vectors of words beside its characters"),
    ):
        config = run_config(folder, init={"init": init and str(init)})
        config["model"].update(sizes)
        with pytest.raises(ValueError, match=message):
            initial_model(check_config(config), OTHER)
