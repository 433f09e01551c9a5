import gzip
import json

import pytest
import spacy
from spacy.cli._util import app
from thinc.api import Config
from typer.testing import CliRunner

import spacy_elmo.cli  # noqa: F401  (adds the commands to spaCy's)
from spacy_elmo.pretraining.corpus import find_files, read_corpus, read_sentences
from spacy_elmo.pretraining.language_model import read_language_model
from spacy_elmo.pretraining.perplexity import perplexity
from spacy_elmo.pretraining.trainer import Trainer

from models import pretraining_config

TEXT = "the cat sat on a mat .\ndogs run far !\n" * 12


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "train.txt").write_text(TEXT, "utf8")
    (tmp_path / "dev.txt").write_text(TEXT[:60] + " unseen\n", "utf8")
    Config(pretraining_config()).to_disk(tmp_path / "a.cfg")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments):
    result = CliRunner().invoke(app, ["elmo", *map(str, arguments)])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def metrics(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text("utf8").splitlines()]


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
    assert json.loads((folder / "figures.json").read_text()) == pytest.approx(figures)
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
        figures = json.loads((folder / "figures.json").read_text())
        assert figures["n_tokens"] == found.n_words + len(found.starts)


def test_running_text_for_training(folder):
    (folder / "train.txt").write_text("I can't see. Can you? " * 20 + "\n", "utf8")
    result = run("pretrain", "a.cfg", "-o", "out", "--corpus.format", "text")
    assert result.exit_code == 0
    words = (folder / "out" / "model-last" / "vocab.txt").read_text("utf8").split("\n")
    assert set(words) >= {"ca", "n't", "see", ".", "Can", "you", "?"}


def test_interrupted_run_keeps_what_it_has(folder, monkeypatch):
    original = Trainer.step

    def step(self, window):
        if self.progress.step == 2:
            raise KeyboardInterrupt
        return original(self, window)

    monkeypatch.setattr(Trainer, "step", step)
    result = run("pretrain", "a.cfg", "-o", "out")
    assert result.exit_code == 130
    assert "step 2" in result.stdout + result.stderr
    assert spacy.load(folder / "out" / "model-last").pipe_names == ["elmo"]


def test_best_model_is_the_best_one(folder, monkeypatch):
    original = Trainer.evaluate
    best = iter([True, False, True, False])
    monkeypatch.setattr(Trainer, "evaluate", lambda self: (original(self)[0], next(best)))
    settings = ["--training.max_steps", "4", "--training.eval_frequency", "1"]
    run("pretrain", "a.cfg", "-o", "out", *settings)
    for name, step in (("model-best", 3), ("model-last", 4)):
        assert read_language_model(folder / "out" / name).bilm.provenance["step"] == step


def test_metrics_start_anew(folder):
    for _ in range(2):
        run("pretrain", "a.cfg", "-o", "out", "--training.max_steps", "1")
    assert len(metrics(folder / "out")) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--corpus.train", "missing.txt"], "missing.txt"),
        (["--corpus.train", "empty.txt"], "empty.txt holds no sentence"),
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
