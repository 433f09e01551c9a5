import gzip
import json
import os
import signal

import pytest
import spacy
from spacy.cli._util import app
from thinc.api import Config
from typer.testing import CliRunner

import spacy_elmo.cli  # noqa: F401  (adds the commands to spaCy's)
from spacy_elmo.language_model.model import read_language_model
from spacy_elmo.language_model.perplexity import perplexity
from spacy_elmo.pretraining.checkpoint import checkpoints
from spacy_elmo.pretraining.trainer import Trainer
from spacy_elmo.text.corpus import read_corpus
from spacy_elmo.text.reading import find_files, read_sentences

from models import pretraining_config
from runs import arrays, assert_same_arrays, metrics

TEXT = "the cat sat on a mat .\ndogs run far !\n" * 12


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "train.txt").write_text(TEXT, "utf8")
    (tmp_path / "dev.txt").write_text(TEXT[:60] + " unseen\n", "utf8")
    more = {"system": {"seed": 0}, "pretraining": {"init": None}}
    Config({**pretraining_config(), **more}).to_disk(tmp_path / "a.cfg")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments):
    result = CliRunner().invoke(app, ["elmo", *map(str, arguments)])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_pretrain_then_perplexity(folder):
    overrides = ["--training.max_steps", "6", "--training.eval_frequency", "4", "--nlp.lang", "de"]
    result = run("pretrain", "a.cfg", "--output", "out/deep", *overrides)
    assert result.exit_code == 0
    rows = metrics(folder / "out" / "deep")
    assert [row["step"] for row in rows] == [4, 6]
    dev = read_corpus(read_sentences(find_files("dev.txt")))
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

    result = run("perplexity", "out/deep/model-last", "dev.txt", "--output", "figures.json")
    assert result.exit_code == 0
    figures = perplexity(model := read_language_model("out/deep/model-last"), dev).to_dict()
    assert json.loads((folder / "figures.json").read_text())["total"] == pytest.approx(figures)
    assert f"{figures['mean']:.2f}" in result.stdout
    assert f"{figures['unknown']:.2%}" in result.stdout
    assert figures["n_tokens"] == dev.n_words + len(dev.starts)
    assert model.bilm.config.lstm_dim == 16


def test_perplexity_of_several_inputs_and_of_running_text(folder):
    run("pretrain", "a.cfg", "--output", "out", "--training.max_steps", "1")
    (folder / "more.txt.gz").write_bytes(gzip.compress(b"A cat sat. Dogs run!\n"))
    inputs = ["dev.txt", "more.txt.gz"]
    for flags in ([], ["--format", "text"]):
        result = run("perplexity", "out/model-last", *inputs, *flags, "-o", "figures.json")
        assert result.exit_code == 0
        found = read_corpus(read_sentences(find_files(inputs), running_text=bool(flags)))
        figures = json.loads((folder / "figures.json").read_text())["total"]
        assert figures["n_tokens"] == found.n_words + len(found.starts)


def test_running_text_for_training(folder):
    (folder / "train.txt").write_text("I can't see. Can you? " * 20 + "\n", "utf8")
    result = run("pretrain", "a.cfg", "-o", "out", "--corpus.format", "text")
    assert result.exit_code == 0
    words = (folder / "out" / "model-last" / "vocab.txt").read_text("utf8").split("\n")
    assert set(words) >= {"ca", "n't", "see", ".", "Can", "you", "?"}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_run_goes_on(folder, monkeypatch, number):
    """Ctrl-C lets the step end and writes a checkpoint; the message says how to go on."""
    settings = ["--training.max_steps", "6", "--training.dropout", "0.2"]
    run("pretrain", "a.cfg", "-o", "alone", *settings)
    original = Trainer.step

    def step(self):
        if self.progress.step == 2:
            os.kill(os.getpid(), number)
        return original(self)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "step", step)
        result = run("pretrain", "a.cfg", "-o", "out", *settings)
    assert result.exit_code == 130
    shown = " ".join((result.stdout + result.stderr).split())
    assert "Stopped at step 3" in shown
    assert "--resume goes on from out/checkpoints" in shown
    assert "Traceback" not in shown
    assert [path.name for path in checkpoints(folder / "out" / "checkpoints")] == [
        "checkpoint-0000000003.pt"
    ]
    result = run("pretrain", "a.cfg", "-o", "out", "--resume", *settings)
    assert result.exit_code == 0
    assert "Going on from step 3" in " ".join(result.stdout.split())
    assert_same_arrays(arrays(folder / "out"), arrays(folder / "alone"))


def test_earlier_run_is_not_overwritten_unasked(folder):
    settings = ["--training.max_steps", "2"]
    run("pretrain", "a.cfg", "-o", "out", *settings)
    before = arrays(folder / "out")
    result = run("pretrain", "a.cfg", "-o", "out", *settings, "--system.seed", "5")
    assert result.exit_code == 1
    shown = " ".join((result.stdout + result.stderr).split())
    assert "out holds the checkpoints of a run: --resume goes on with it, --overwrite" in shown
    assert_same_arrays(arrays(folder / "out"), before)
    assert len(metrics(folder / "out")) == 1
    more = [*settings, "--system.seed", "5", "--overwrite"]
    assert run("pretrain", "a.cfg", "-o", "out", *more).exit_code == 0
    after = arrays(folder / "out")
    assert any((after[name] != values).any() for name, values in before.items())
    assert len(metrics(folder / "out")) == 1


def test_other_settings_are_not_resumed(folder):
    run("pretrain", "a.cfg", "-o", "out", "--training.max_steps", "2")
    arguments = ["--resume", "--training.max_steps", "4", "--training.learn_rate", "0.5"]
    result = run("pretrain", "a.cfg", "-o", "out", *arguments)
    assert result.exit_code == 1
    shown = " ".join((result.stdout + result.stderr).split())
    assert "training.learn_rate was 0.01 and is 0.5" in shown
    assert "max_steps" not in shown


def test_resume_without_a_run_starts_one(folder):
    result = run("pretrain", "a.cfg", "-o", "out", "--resume")
    assert result.exit_code == 0
    assert len(metrics(folder / "out")) == 1


def test_last_words_name_the_perplexity_before_and_after(folder):
    result = run("pretrain", "a.cfg", "-o", "first", "--training.max_steps", "2")
    assert "Before this run" not in result.stdout
    more = ["--pretraining.init", "first/model-last", "--training.learn_rate", "0.03"]
    result = run("pretrain", "a.cfg", "-o", "out", *more, "--training.max_steps", "20")
    assert result.exit_code == 0
    dev = read_corpus(read_sentences(find_files("dev.txt")))
    before = perplexity(read_language_model("first/model-last"), dev, n_streams=2).mean
    after = min(row["perplexity"]["mean"] for row in metrics(folder / "out"))
    shown = " ".join(result.stdout.split())
    assert f"Best held-out perplexity {after:.2f}" in shown
    assert f"Before this run it was {before:.2f}" in shown
    assert after < before
    n_tokens, step = metrics(folder / "out")[-1]["tokens"], 20
    assert (
        f"Planned: max_steps = {step}. Ended by max_steps = {step}, after {n_tokens:,} tokens"
        in (shown)
    )
    assert "unchanged" not in shown
    provenance = read_language_model("out/model-last").bilm.provenance
    assert provenance["init"] == "first/model-last"


def test_finished_run_is_finished(folder):
    settings = ["--training.max_epochs", "100", "--training.max_minutes", "60"]
    run("pretrain", "a.cfg", "-o", "out", "--training.max_steps", "2", *settings)
    before = arrays(folder / "out")
    result = run(
        "pretrain", "a.cfg", "-o", "out", "--resume", "--training.max_steps", "2", *settings
    )
    shown = " ".join(result.stdout.split())
    assert result.exit_code == 0
    assert "finished before, by max_steps = 2: nothing was trained" in shown
    assert "--training.max_steps, goes on" in shown
    assert "Planned: max_epochs = 100, max_steps = 2, max_minutes = 60" in shown
    assert_same_arrays(arrays(folder / "out"), before)
    result = run("pretrain", "a.cfg", "-o", "out", "--resume", "--training.max_steps", "4")
    assert "nothing was trained" not in result.stdout
    assert metrics(folder / "out")[-1]["step"] == 4


def test_model_that_did_not_move(folder):
    """A run shorter than its `softmax_warmup` gives back the language model that it got."""
    run("pretrain", "a.cfg", "-o", "first", "--training.max_steps", "2")
    init = ["--pretraining.init", "first/model-last", "--pretraining.vocabulary", "new"]
    result = run("pretrain", "a.cfg", "-o", "out", *init, "--training.max_steps", "3")
    shown = " ".join(result.stdout.split())
    assert "The first 500 steps train the new softmax alone" in shown
    assert "still that of first/model-last, unchanged" in shown
    first, last = (
        read_language_model(f"{name}/model-last").bilm.checksum() for name in ("first", "out")
    )
    assert first == last
    more = ["--training.max_steps", "3", "--pretraining.softmax_warmup", "1", "--overwrite"]
    assert "unchanged" not in run("pretrain", "a.cfg", "-o", "out", *init, *more).stdout


def test_best_model_is_the_best_one(folder, monkeypatch):
    original = Trainer.evaluate
    best = iter([True, False, True, False])
    monkeypatch.setattr(Trainer, "evaluate", lambda self: (original(self)[0], next(best)))
    settings = ["--training.max_steps", "4", "--training.eval_frequency", "1"]
    run("pretrain", "a.cfg", "-o", "out", *settings)
    for name, step in (("model-best", 3), ("model-last", 4)):
        assert read_language_model(folder / "out" / name).bilm.provenance["step"] == step


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--corpus.train", "missing.txt"], "missing.txt"),
        (["--corpus.train", "empty.txt"], "empty.txt: holds no sentence"),
        (["--training.batchsize", "3"], "batchsize"),
        (["--model.lstm_dim", "0"], "lstm_dim"),
        (["--training.learn_rate", "1e30", "--training.warmup_steps", "0"], "learn_rate"),
        (["--nlp.lang", "zzz"], "zzz"),
    ],
)
def test_errors_have_no_traceback(folder, arguments, message):
    (folder / "empty.txt").write_text("\n \n")
    result = run("pretrain", "a.cfg", "-o", "out", "--training.max_steps", "50", *arguments)
    assert result.exit_code == 1
    shown = " ".join((result.stdout + result.stderr).split())  # the printer breaks lines
    assert message in shown
    assert "Traceback" not in shown


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
    result = run("pretrain", "a.cfg", "-o", "out", option, "3")
    assert result.exit_code == 2
    assert option in result.output
    assert meant in " ".join(result.output.split())
    assert not (folder / "out").exists()


def test_perplexity_of_an_unknown_format(folder):
    run("pretrain", "a.cfg", "-o", "out", "--training.max_steps", "1")
    result = run("perplexity", "out/model-last", "dev.txt", "--format", "lines")
    assert result.exit_code == 1
    assert "'lines'" in result.stdout + result.stderr


def test_perplexity_of_what_is_no_language_model(folder):
    for place in ("nothing", "train.txt"):
        result = run("perplexity", place, "dev.txt")
        assert result.exit_code == 1
        assert place in result.stdout + result.stderr
