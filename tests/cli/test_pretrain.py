import json
import os
import signal
from types import SimpleNamespace

import pytest
import spacy
from thinc.api import Config

from spacy_elmo.language_model.frozen import read_language_model
from spacy_elmo.language_model.perplexity import perplexity
from spacy_elmo.pretraining import clock as clocks
from spacy_elmo.pretraining.checkpoint import checkpoints, read_checkpoint
from spacy_elmo.pretraining.trainer import Trainer
from spacy_elmo.text.corpus import load_text

from helpers.commands import shown_by
from helpers.models import pretraining_config
from helpers.runs import arrays, assert_same_arrays, metrics

TEXT = "the cat sat on a mat .\ndogs run far !\n" * 12


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "train.txt").write_text(TEXT, "utf8")
    (tmp_path / "dev.txt").write_text(TEXT[:60] + " unseen\n", "utf8")
    more = {"system": {"seed": 0}, "pretraining": {"init": None}}
    Config({**pretraining_config(), **more}).to_disk(tmp_path / "a.cfg")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def pretrain(*settings, output="out", status=0):
    return shown_by("pretrain", "a.cfg", "--output", output, *settings, status=status)


def steps(number):
    return "--training.max_steps", number


def test_pretrain_then_perplexity(folder):
    settings = [*steps(6), "--training.eval_frequency", "4", "--nlp.lang", "de"]
    pretrain(*settings, output="out/deep")
    rows = metrics(folder / "out" / "deep")
    assert [row["step"] for row in rows] == [4, 6]
    dev = load_text("dev.txt")
    for name in ("model-last", "model-best"):
        model = read_language_model(folder / "out" / "deep" / name)
        expected = (
            min(rows, key=lambda row: row["perplexity"]["mean"]) if "best" in name else rows[1]
        )
        figures = perplexity(model, dev, n_streams=2)
        assert figures.mean == pytest.approx(expected["perplexity"]["mean"], rel=1e-5)
    nlp = spacy.load(folder / "out" / "deep" / "model-best")
    assert (nlp.lang, nlp.pipe_names) == ("de", ["elmo"])
    provenance = nlp.get_pipe("elmo").bilm.provenance
    assert provenance["training"]["max_steps"] == 6
    assert provenance["corpus"]["train"] == "train.txt"
    assert len(provenance["corpus"]["sha256"]) == 64

    shown = shown_by("perplexity", "out/deep/model-last", "dev.txt", "--output", "figures.json")
    figures = perplexity(model := read_language_model("out/deep/model-last"), dev).to_dict()
    assert json.loads((folder / "figures.json").read_text())["total"] == pytest.approx(figures)
    assert f"{figures['mean']:.2f}" in shown
    assert f"{figures['unknown']:.2%}" in shown
    assert figures["n_tokens"] == dev.n_words + len(dev.starts)
    assert model.bilm.config.lstm_dim == 16


def test_running_text_for_training(folder):
    (folder / "train.txt").write_text("I can't see. Can you? " * 20 + "\n", "utf8")
    pretrain("--corpus.format", "text")
    words = (folder / "out" / "model-last" / "vocab.txt").read_text("utf8").split("\n")
    assert set(words) >= {"ca", "n't", "see", ".", "Can", "you", "?"}


def test_interrupted_run_goes_on(folder, monkeypatch):
    """Ctrl-C lets the step end and writes a checkpoint; the message says how to go on."""
    settings = [*steps(6), "--training.dropout", "0.2"]
    pretrain(*settings, output="alone")
    original = Trainer.step

    def step(self):
        if self.progress.step == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return original(self)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "step", step)
        shown = pretrain(*settings, status=130)
    assert "Stopped at step 3" in shown
    assert "To resume from out/checkpoints, use --resume" in shown
    assert [path.name for path in checkpoints(folder / "out" / "checkpoints")] == [
        "checkpoint-0000000003.pt"
    ]
    assert "Resuming from step 3" in pretrain("--resume", *settings)
    assert_same_arrays(arrays(folder / "out"), arrays(folder / "alone"))


def test_earlier_run_is_not_overwritten_unasked(folder):
    pretrain(*steps(2))
    before = arrays(folder / "out")
    shown = pretrain(*steps(2), "--system.seed", "5", status=1)
    assert "out contains the checkpoints of a run. --resume resumes it, --overwrite" in shown
    assert_same_arrays(arrays(folder / "out"), before)
    assert len(metrics(folder / "out")) == 1
    pretrain(*steps(2), "--system.seed", "5", "--overwrite")
    after = arrays(folder / "out")
    assert any((after[name] != values).any() for name, values in before.items())
    assert len(metrics(folder / "out")) == 1


def test_last_words_name_the_perplexity_before_and_after(folder):
    assert "Before this run" not in pretrain(*steps(2), output="first")
    more = ["--pretraining.init", "first/model-last", "--training.learn_rate", "0.03"]
    shown = pretrain(*more, *steps(20))
    dev = load_text("dev.txt")
    before = perplexity(read_language_model("first/model-last"), dev, n_streams=2).mean
    after = min(row["perplexity"]["mean"] for row in metrics(folder / "out"))
    assert f"Best held-out perplexity {after:.2f}" in shown
    assert f"Before this run the perplexity was {before:.2f}" in shown
    assert after < before
    n_tokens = metrics(folder / "out")[-1]["tokens"]
    ended = f"Planned: max_steps = 20. Ended by max_steps = 20, after {n_tokens:,} tokens"
    assert ended in shown
    assert "unchanged" not in shown
    provenance = read_language_model("out/model-last").bilm.provenance
    assert provenance["init"] == "first/model-last"


@pytest.mark.parametrize(("share", "expected"), [(0.4, "in 40% of these minutes"), (0.0, "")])
def test_time_of_other_programs(folder, monkeypatch, share, expected):
    """Of a clock that each step moves by ten seconds; resumed, all steps count."""
    clock = [0.0]
    step = Trainer.step

    def slow_step(trainer):
        clock[0] += 10.0
        return step(trainer)

    monkeypatch.setattr(Trainer, "step", slow_step)
    times = SimpleNamespace(monotonic=lambda: clock[0])
    monkeypatch.setattr(clocks, "time", times)
    monkeypatch.setattr(clocks, "seconds_waited", lambda: 50.0 + share * clock[0])
    pretrain(*steps(2))
    monkeypatch.setattr(clocks, "seconds_waited", lambda: share * clock[0])
    shown = pretrain("--resume", *steps(4))
    assert ("waited for a processor" in shown) == bool(expected)
    assert expected in shown
    progress = read_checkpoint(folder / "out" / "checkpoints")["states"]["progress"]
    assert progress["elapsed"] == 40.0
    assert progress["waited"] == pytest.approx(share * 40.0)


def test_seconds_waited():
    """Linux counts them, and never backwards."""
    before = clocks.seconds_waited()
    assert 0.0 <= before <= clocks.seconds_waited()


def test_finished_run_is_finished(folder):
    settings = ["--training.max_epochs", "100", "--training.max_minutes", "60"]
    pretrain(*steps(2), *settings)
    before = arrays(folder / "out")
    shown = pretrain("--resume", *steps(2), *settings)
    assert "finished before, by max_steps = 2: nothing was trained" in shown
    assert "To resume it, raise [training] max_steps; to start again" in shown
    assert "Planned: max_epochs = 100, max_steps = 2, max_minutes = 60" in shown
    assert_same_arrays(arrays(folder / "out"), before)
    assert [row["step"] for row in metrics(folder / "out")] == [2]
    assert "nothing was trained" not in pretrain("--resume", *steps(4))
    assert metrics(folder / "out")[-1]["step"] == 4


def test_model_that_did_not_move(folder):
    """A run shorter than its `softmax_warmup` gives back the language model that it got."""
    pretrain(*steps(2), output="first")
    init = ["--pretraining.init", "first/model-last", "--pretraining.vocabulary", "new"]
    shown = pretrain(*init, *steps(3))
    assert "The first 500 steps train only the new softmax" in shown
    assert "The language model of first/model-last is unchanged" in shown
    first, last = (
        read_language_model(f"{name}/model-last").bilm.checksum() for name in ("first", "out")
    )
    assert first == last
    more = [*steps(3), "--pretraining.softmax_warmup", "1", "--overwrite"]
    assert "unchanged" not in pretrain(*init, *more)


def test_best_model_is_the_best_one(folder, monkeypatch):
    original = Trainer.evaluate
    best = iter([True, False, True, False])
    monkeypatch.setattr(Trainer, "evaluate", lambda self: (original(self)[0], next(best)))
    pretrain(*steps(4), "--training.eval_frequency", "1")
    for name, step in (("model-best", 3), ("model-last", 4)):
        assert read_language_model(folder / "out" / name).bilm.provenance["step"] == step


def test_unknown_language(folder):
    assert "zzz" in pretrain("--nlp.lang", "zzz", *steps(1), status=1)


@pytest.mark.parametrize(
    ("option", "meant"),
    [
        ("--max_steps", "Did you mean --training.max_steps?"),
        ("--max-steps", "Did you mean --training.max_steps?"),
        ("--resum", "Did you mean --resume?"),
        ("--xyz", ""),
        ("-x", "name should start with --"),
    ],
)
def test_unknown_options(folder, option, meant):
    shown = pretrain(option, "3", status=2)
    assert option in shown
    assert meant in shown
    assert not (folder / "out").exists()
