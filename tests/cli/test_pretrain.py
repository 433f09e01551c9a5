"""`spacy elmo pretrain`: its models, interrupts and resuming, and its last words."""

import os
import signal

import pytest
import spacy
import srsly
from thinc.api import Config

from spacy_elmo.language_model.frozen import read_language_model
from spacy_elmo.language_model.perplexity import perplexity
from spacy_elmo.pretraining.checkpoint import checkpoints
from spacy_elmo.pretraining.trainer import Trainer
from spacy_elmo.text.corpus import load_text

from helpers.commands import shown_by
from helpers.models import pretraining_config
from helpers.runs import arrays, assert_same_arrays, metrics

pytestmark = [pytest.mark.training, pytest.mark.commands]

TEXT = "the cat sat on a mat .\ndogs run far !\n" * 12


@pytest.fixture
def folder(here):
    (here / "train.txt").write_text(TEXT, "utf8")
    (here / "dev.txt").write_text(TEXT[:60] + " unseen\n", "utf8")
    more = {"system": {"seed": 0}, "pretraining": {"init": None}}
    Config({**pretraining_config(), **more}).to_disk(here / "a.cfg")
    return here


def pretrain(*settings, output="out", status=0):
    return shown_by("pretrain", "a.cfg", "--output", output, *settings, status=status)


def steps(number):
    return "--training.max_steps", number


def test_models_of_running_text_have_its_language_and_tokens(folder, monkeypatch):
    (folder / "train.txt").write_text("The cat sat. Dogs run! " * 20 + "\n", "utf8")
    original = Trainer.evaluate
    best = iter([True, False, True, False])
    monkeypatch.setattr(Trainer, "evaluate", lambda self: (original(self)[0], next(best)))
    settings = ("--training.eval_frequency", "1", "--nlp.lang", "de", "--corpus.format", "text")
    pretrain(*steps(4), *settings, output="out/deep")
    output = folder / "out" / "deep"
    assert [row["step"] for row in metrics(output)] == [1, 2, 3, 4]
    nlp = spacy.load(output / "model-best")
    assert (nlp.lang, nlp.pipe_names) == ("de", ["elmo"])
    provenance = nlp.get_pipe("elmo").bilm.provenance
    last = read_language_model(output / "model-last")
    assert (provenance["step"], last.bilm.provenance["step"]) == (3, 4)
    assert {*last.vocabulary.words} >= {"The", "cat", "sat", ".", "!"}
    assert provenance["training"]["max_steps"] == 4
    assert provenance["corpus"]["train"] == "train.txt"
    assert len(provenance["corpus"]["sha256"]) == 64


def test_an_interrupted_run_is_resumed_finished_and_overwritten(folder, monkeypatch):
    """Ctrl-C lets the step end and writes a checkpoint; the messages say how to go on."""
    limits = ("--training.max_epochs", "100", "--training.max_minutes", "60")
    step = Trainer.start_step

    def step_with_ctrl_c(self):
        if self.progress.step == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return step(self)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "start_step", step_with_ctrl_c)
        shown = pretrain(*steps(6), *limits, status=130)
    assert "Stopped at step 3. To resume from out/checkpoints, run it again" in shown
    (left,) = checkpoints(folder / "out" / "checkpoints")
    assert left.name == "checkpoint-0000000003.pt"
    assert "Resuming from step 3" in pretrain("--resume", *steps(6), *limits)
    before = arrays(folder / "out")
    for how, status, message in (
        ("--resume", 0, "finished before, by max_steps = 6: nothing was trained"),
        ("--resume", 0, "To resume it, raise [training] max_steps; to start again"),
        ("--resume", 0, "Planned: max_epochs = 100, max_steps = 6, max_minutes = 60"),
        ("--training.keep=2", 1, "out contains the checkpoints of a run. --resume resumes it"),
    ):
        assert message in pretrain(how, *steps(6), *limits, status=status)
        assert_same_arrays(arrays(folder / "out"), before)
        assert [row["step"] for row in metrics(folder / "out")] == [6]
    assert "nothing was trained" not in pretrain("--resume", *steps(8))
    assert metrics(folder / "out")[-1]["step"] == 8
    pretrain(*steps(1), "--overwrite")
    assert [row["step"] for row in metrics(folder / "out")] == [1]


def test_the_summary_compares_the_perplexity_before_and_after(folder):
    assert "Before this run" not in pretrain(*steps(2), output="first")
    init = ("--pretraining.init", "first/model-last")
    shown = pretrain(*init, "--training.learn_rate", "0.03", *steps(20))
    first = read_language_model("first/model-last")
    before = perplexity(first, load_text("dev.txt"), n_streams=2).mean
    after = min(row["perplexity"]["mean"] for row in metrics(folder / "out"))
    assert f"Best held-out perplexity {after:.2f}" in shown
    assert f"Before this run the perplexity was {before:.2f}" in shown
    assert after < before
    n_tokens = metrics(folder / "out")[-1]["tokens"]
    assert f"Planned: max_steps = 20. Ended by max_steps = 20, after {n_tokens:,} tokens" in shown
    assert "unchanged" not in shown
    assert read_language_model("out/model-last").bilm.provenance["init"] == "first/model-last"
    # A run shorter than its `softmax_warmup` gives back the language model that it got.
    new = (*init, "--pretraining.vocabulary", "new", *steps(3), "--overwrite")
    shown = pretrain(*new)
    assert "The first 500 steps train only the new softmax" in shown
    assert "The language model of first/model-last is unchanged" in shown
    assert first.bilm.checksum() == read_language_model("out/model-last").bilm.checksum()
    assert "unchanged" not in pretrain(*new, "--pretraining.softmax_warmup", "1")


@pytest.mark.parametrize(
    ("option", "meant", "status"),
    [
        ("--max_steps", "Did you mean --training.max_steps?", 2),
        ("--max-steps", "Did you mean --training.max_steps?", 2),
        ("--resum", "Did you mean --resume?", 2),
        ("--xyz", "", 2),
        ("-x", "name should start with --", 2),
        ("--nlp.lang", "no tokenizer for 'zzz'. Set --nlp.lang", 1),
    ],
)
def test_unknown_options_and_languages_are_refused(folder, option, meant, status):
    shown = pretrain(option, "zzz", status=status)
    assert option in shown or status == 1
    assert meant in shown
    assert not (folder / "out").exists()


def test_profile_writes_no_run(folder):
    pretrain(*steps(2))
    before = {path: path.read_bytes() for path in (folder / "out").rglob("*.pt")}
    shown = pretrain("--resume", "--profile", 2)
    assert "2 steps of 4 streams x 8 tokens" in shown
    result = srsly.read_json(folder / "out" / "profile.json")
    assert result["steps"] == 2 and result["sections"]["lstms"]["cpu"] > 0
    assert {path: path.read_bytes() for path in (folder / "out").rglob("*.pt")} == before
    assert metrics(folder / "out")[-1]["step"] == 2
