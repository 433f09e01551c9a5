"""`pretrain` as a whole: what it leaves on disk, however often it is stopped."""

import errno
import json
import shutil

import pytest
import spacy
import srsly
from spacy import registry

from spacy_elmo.files import lock
from spacy_elmo.language_model.frozen import read_language_model
from spacy_elmo.language_model.perplexity import Perplexity, perplexity
from spacy_elmo.pretraining import reporting, trainer
from spacy_elmo.pretraining.checkpoint import checkpoints, read_checkpoint
from spacy_elmo.pretraining.config import check_config
from spacy_elmo.pretraining.run import pretrain
from spacy_elmo.text.corpus import load_text
from spacy_elmo.text.prepare import prepare

from helpers.full_disk import room_for
from helpers.prepared import content
from helpers.runs import (
    RANDOM,
    arrays,
    assert_same_arrays,
    metrics,
    run_config,
    run_settings,
    write_texts,
)
from helpers.trainers import Killed, kill_at, run_to_the_end

VARIANTS = [
    {"softmax": "sampled", "optimizer": "adam"},
    {"softmax": "sampled", "optimizer": "adagrad", "accumulate_gradient": 2},
    {"softmax": "adaptive", "optimizer": "adam", "directions": "different"},
    {"softmax": "adaptive", "optimizer": "adagrad"},
    {"softmax": "full", "optimizer": "adamw"},
    {"softmax": "sampled", "optimizer": "muon"},
]


@pytest.fixture
def folder(tmp_path):
    write_texts(tmp_path)
    return tmp_path


def left_alone(folder, **training):
    assert pretrain(run_settings(folder, **training), folder / "alone")
    return arrays(folder / "alone"), metrics(folder / "alone")


OFTEN = {"checkpoint_minutes": 1e-9}


@pytest.mark.parametrize(
    ("settings", "after", "steps"),
    [
        ({**VARIANTS[0], **OFTEN}, "step", (2, 3, 7, 10)),
        *(({**variant, **OFTEN}, "step", (2, 7)) for variant in VARIANTS[1:]),
        (OFTEN, "evaluation", (6, 11)),  # those since the checkpoint are made, and noted, again
        ({}, "step", (4,)),  # before the first checkpoint
    ],
)
def test_killed_and_resumed_is_as_left_alone(folder, monkeypatch, settings, after, steps):
    """Weights bit by bit, every evaluation once, the same best model."""
    settings = {**RANDOM, "max_steps": 11, **settings}
    weights, rows = left_alone(folder, **settings)
    assert [row["step"] for row in rows] == [3, 6, 9, 11]
    kill_at(monkeypatch, *steps, after=after)
    assert run_to_the_end(run_settings(folder, **settings), folder / "out") == len(steps)
    assert_same_arrays(arrays(folder / "out"), weights)
    assert metrics(folder / "out") == rows
    best = arrays(folder / "alone", "model-best")
    assert_same_arrays(arrays(folder / "out", "model-best"), best)
    model, dev = read_language_model(folder / "out" / "model-last"), load_text(folder / "dev.txt")
    figures = perplexity(model, dev, n_streams=2).to_dict()
    assert rows[-1]["perplexity"] == pytest.approx(figures, rel=1e-6)


def test_metrics_of_later_steps_and_a_torn_line_are_dropped(folder):
    config = run_settings(folder, **RANDOM, max_steps=4)
    pretrain(config, folder / "out")
    path = folder / "out" / "metrics.jsonl"
    whole = path.read_text("utf8")
    later = [srsly.json_dumps({"step": step}) for step in (5, 900)]
    path.write_text(whole + "\n".join([*later, '{"step": 3, "epo']), "utf8")
    more = run_settings(folder, **RANDOM, max_steps=7)
    assert pretrain(more, folder / "out", resume=True)
    written = path.read_text("utf8")
    assert written.startswith(whole)
    assert [json.loads(line)["step"] for line in written.splitlines()] == [3, 4, 6, 7]


def test_accumulation_may_change_in_between(folder, monkeypatch):
    """12 streams fit the text, 8 of them can be shared by 8: the batch may not shrink unseen."""
    (folder / "train.txt").write_text("a b c d e f g\n" * 12, "utf8")  # 96 items
    settings = {"batch_size": 16, "unroll_steps": 8, "checkpoint_minutes": 1e-9}
    kill_at(monkeypatch, 2)
    with pytest.raises(Killed):
        pretrain(run_settings(folder, **settings, max_steps=6), folder / "out")
    changed = run_settings(folder, **settings, max_steps=6, accumulate_gradient=8)
    with pytest.raises(ValueError, match=r"12.*8|8.*12"):
        pretrain(changed, folder / "out", resume=True)


def test_same_streams_with_another_accumulation(folder, monkeypatch):
    settings = {"max_steps": 6, "checkpoint_minutes": 1e-9, "eval_frequency": 3}
    weights, rows = left_alone(folder, **settings)
    kill_at(monkeypatch, 2)
    with pytest.raises(Killed):
        pretrain(run_settings(folder, **settings), folder / "out")
    pretrain(run_settings(folder, **settings, accumulate_gradient=4), folder / "out", resume=True)
    for name, values in arrays(folder / "out").items():
        assert values == pytest.approx(weights[name], abs=2e-4), name
    for row, expected in zip(metrics(folder / "out"), rows):
        assert row["perplexity"]["mean"] == pytest.approx(expected["perplexity"]["mean"], rel=1e-3)


@pytest.mark.parametrize("what", ["train", "dev", "own"])
def test_damaged_prepared_text_is_refused(folder, what):
    """Before a step is made: of a corpus that is given, and of a run's own."""
    config = run_config(folder, max_steps=2)
    prepared = folder / "prepared"
    if what == "own":
        assert pretrain(check_config(config), folder / "out")
        prepared = folder / "out" / "corpus"
    else:
        prepare(config["corpus"][what], prepared, min_count=1, n_process=1)
        config["corpus"][what] = str(prepared)
    path = prepared / "tokens-00000.npy"
    data = bytearray(path.read_bytes())
    data[-4] ^= 1  # another token
    path.write_bytes(data)
    config["training"]["max_steps"] = 4
    with pytest.raises(ValueError, match=r"tokens-00000.npy does not have .* damaged. Copy the"):
        pretrain(check_config(config), folder / "out", resume=True)
    found = checkpoints(folder / "out" / "checkpoints")
    assert len(found) == (what == "own")


@pytest.mark.parametrize(("min_count", "is_warned"), [(3, True), (2, False), (1, False)])
def test_vocabulary_of_prepared_text(folder, capsys, min_count, is_warned):
    """The config has 1. A setting that `corpus` was given is missed, its default is not."""
    config = run_config(folder, max_steps=1)
    prepare(config["corpus"]["train"], folder / "prepared", min_count=min_count, n_process=1)
    config["corpus"]["train"] = str(folder / "prepared")
    assert pretrain(check_config(config), folder / "out")
    said = " ".join(capsys.readouterr().out.split())
    assert ("was prepared with min_count 3" in said) == is_warned


def test_checkpoints_when_they_are_due(folder, monkeypatch):
    saved = []
    original = reporting.save_checkpoint

    def save(trainer, *args, **settings):
        saved.append(trainer.progress.step)
        return original(trainer, *args, **settings)

    monkeypatch.setattr(reporting, "save_checkpoint", save)
    pretrain(run_settings(folder, max_steps=4), folder / "out")
    assert saved == [4]  # the end, minutes before one is due
    saved.clear()
    config = run_settings(folder, max_steps=4, checkpoint_minutes=1e-9, keep=3)
    pretrain(config, folder / "out", overwrite=True)
    assert saved == [1, 2, 3, 4, 4]
    assert len(checkpoints(folder / "out" / "checkpoints")) == 3


def test_overwrite_leaves_nothing_of_the_earlier_run(folder):
    pretrain(run_settings(folder, max_steps=4), folder / "out")
    (folder / "out" / "mine.txt").touch()
    pretrain(run_settings(folder, max_steps=2, seed=1), folder / "out", overwrite=True)
    assert [row["step"] for row in metrics(folder / "out")] == [2]
    names = [path.name for path in checkpoints(folder / "out" / "checkpoints")]
    assert names == ["checkpoint-0000000002.pt"]
    assert (folder / "out" / "mine.txt").exists()


@pytest.mark.parametrize("how", [{}, {"resume": True}, {"overwrite": True}])
@pytest.mark.parametrize("name", ["model-best", "model-last", "metrics.jsonl", "corpus"])
def test_what_other_programs_wrote_stays(folder, name, how):
    """As `spacy train --output out` does, or a user's own text in a folder `corpus`."""
    out = folder / "out"
    out.mkdir()
    if name == "metrics.jsonl":
        (out / name).write_text('{"epoch": 1}\n{"epoch": 2}\n')
    elif name == "corpus":
        (out / name).mkdir()
        (out / name / "tokens-mine.txt").write_text("mine\n")
    else:
        nlp = spacy.blank("en")
        nlp.add_pipe("sentencizer")
        nlp.to_disk(out / name)
    before = content(out)
    with pytest.raises(ValueError, match=rf"{name} (is not|contains other)"):
        pretrain(run_settings(folder, max_steps=2), out, **how)
    after = content(out)
    assert {file: after[file] for file in before} == before


def test_neighbors_of_the_models_stay(folder):
    names = {"model-last.old", "model-last.part", "model-best.old", "metrics.jsonl.part"}
    for name in names:
        (folder / "out" / name).mkdir(parents=True)
    pretrain(run_settings(folder, max_steps=2), folder / "out")
    pretrain(run_settings(folder, max_steps=3), folder / "out", resume=True)
    pretrain(run_settings(folder, max_steps=2), folder / "out", overwrite=True)
    assert names < {path.name for path in (folder / "out").iterdir()}


def test_models_without_checkpoints_are_not_overwritten_unasked(folder):
    pretrain(run_settings(folder, max_steps=2), folder / "out")
    shutil.rmtree(folder / "out" / "checkpoints")
    before = content(folder / "out" / "model-best")
    with pytest.raises(ValueError, match="out contains the model-best of a run. `resume=True`"):
        pretrain(run_settings(folder, max_steps=2, seed=1), folder / "out")
    assert content(folder / "out" / "model-best") == before


def fail_to_write(monkeypatch, name, *numbers):
    """The calls of these numbers, from 1, find the disk full."""
    original, calls = getattr(reporting, name), []

    def write(*args, **settings):
        calls.append(1)
        if len(calls) in numbers:
            raise OSError(errno.ENOSPC, "No space left on device")
        return original(*args, **settings)

    monkeypatch.setattr(reporting, name, write)


def test_failing_write_is_told_and_the_run_goes_on(folder, monkeypatch, capsys):
    settings = {**RANDOM, "max_steps": 7, "checkpoint_minutes": 1e-9}
    weights, rows = left_alone(folder, **settings)
    fail_to_write(monkeypatch, "save_model", 1, 2)
    fail_to_write(monkeypatch, "save_checkpoint", 1, 2)
    assert pretrain(run_settings(folder, **settings), folder / "out")
    shown = " ".join("".join(capsys.readouterr()).split())
    assert shown.count("No space left on device") == 4
    assert_same_arrays(arrays(folder / "out"), weights)
    assert metrics(folder / "out") == rows


@pytest.mark.parametrize("name", ["save_model", "save_checkpoint"])
def test_failing_write_at_the_end_raises(folder, monkeypatch, name):
    """No success is told where the last model, or the last checkpoint, is not there."""
    fail_to_write(monkeypatch, name, *range(1, 100))
    with pytest.raises(OSError, match="No space left on device"):
        pretrain(run_settings(folder, max_steps=3), folder / "out")


def test_best_model_that_was_not_written_is_not_replaced_by_a_worse_one(
    folder, monkeypatch, capsys
):
    figures = iter([Perplexity(mean, mean, mean, n_tokens=3, unknown=0.0) for mean in (5.0, 9.0)])
    monkeypatch.setattr(trainer, "perplexity", lambda *args, **settings: next(figures))
    fail_to_write(monkeypatch, "save_model", 2)  # model-last, model-best, model-last
    assert pretrain(run_settings(folder, max_steps=4, eval_frequency=2), folder / "out")
    assert (folder / "out" / "model-last").is_dir()
    assert not (folder / "out" / "model-best").exists()
    assert "is not the best model" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("share", [0.05, 0.9])
def test_models_that_may_not_grow(folder, share, capsys):
    """The system's own error, in the writer of the weights; what was there before stays."""
    settings = {"max_steps": 4, "eval_frequency": 2}
    pretrain(run_settings(folder, max_steps=2), folder / "out")
    before = arrays(folder / "out")
    size = (folder / "out" / "model-last" / "elmo" / "model.safetensors").stat().st_size
    assert size > (folder / "out" / "model-last" / "softmax.safetensors").stat().st_size
    with room_for(size * share), pytest.raises(OSError, match=r"\S"):
        pretrain(run_settings(folder, **settings), folder / "out", resume=True)
    assert_same_arrays(arrays(folder / "out"), before)
    assert read_checkpoint(folder / "out" / "checkpoints")["states"]["progress"]["step"] == 2
    assert pretrain(run_settings(folder, **settings), folder / "out", resume=True)
    assert [row["step"] for row in metrics(folder / "out")] == [2, 4]


def test_overwriting_deletes_nothing_before_the_text_is_found(folder):
    pretrain(run_settings(folder, max_steps=2), folder / "out")
    before = sorted(path.name for path in (folder / "out").rglob("*"))
    missing = run_config(folder, max_steps=2)
    missing["corpus"]["train"] = str(folder / "nothing")
    with pytest.raises(ValueError, match="nothing"):
        pretrain(check_config(missing), folder / "out", overwrite=True)
    with pytest.raises(ValueError, match="Give one of them"):
        pretrain(run_settings(folder, max_steps=2), folder / "out", overwrite=True, resume=True)
    assert sorted(path.name for path in (folder / "out").rglob("*")) == before


def test_several_machines_do_not_overwrite(folder, monkeypatch):
    """One that joins starts all processes anew, which `torchrun` does not count."""
    pretrain(run_settings(folder, max_steps=2), folder / "out")
    monkeypatch.setenv("GROUP_WORLD_SIZE", "2")
    with pytest.raises(ValueError, match=r"`overwrite` does not work on.*`resume=True`"):
        pretrain(run_settings(folder, max_steps=4), folder / "out", overwrite=True)
    assert pretrain(run_settings(folder, max_steps=4), folder / "out", resume=True)


def test_a_file_of_the_users_in_a_model_is_named_and_kept(folder):
    pretrain(run_settings(folder, max_steps=2), folder / "out")
    (folder / "out" / "model-last" / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match="model-last is .* contains other files. Move these away"):
        pretrain(run_settings(folder, max_steps=4), folder / "out", resume=True)
    (folder / "out" / "model-last" / "notes.txt").rename(folder / "notes.txt")
    assert pretrain(run_settings(folder, max_steps=4), folder / "out", resume=True)


def test_two_runs_do_not_write_to_one_folder(folder):
    pretrain(run_settings(folder, max_steps=2), folder / "out")
    with (
        lock(folder / "out" / "checkpoints" / "lock"),
        pytest.raises(BlockingIOError, match="another process is writing to .*out"),
    ):
        pretrain(run_settings(folder, max_steps=4), folder / "out", resume=True)


def test_prepared_text_and_output_in_one_folder_with_the_text(folder):
    text = folder / "text"
    text.mkdir()
    (folder / "train.txt").rename(text / "train.txt")
    config = run_config(folder, max_steps=2)
    config["corpus"]["train"] = str(text)
    for _ in range(2):
        assert pretrain(check_config(config), text / "out", resume=True)
    config["corpus"].update(dict.fromkeys(["train", "dev"], str(text / "out" / "corpus")))
    assert pretrain(check_config(config), folder / "again")


def test_failing_logger_does_not_end_the_run(folder, capsys):
    @registry.loggers("failing.v1")
    def make_failing():
        def log_step(info):
            raise ConnectionError("no network")

        return lambda nlp, stdout, stderr: (log_step, lambda: None)

    logger = {"@loggers": "failing.v1"}
    assert pretrain(run_settings(folder, max_steps=4, logger=logger), folder / "out")
    assert capsys.readouterr().err.count("no network") == 1
