"""`pretrain` as a whole: the files that it leaves, after any interruption, and files that stay."""

import errno
import json
import shutil
import warnings
from functools import partial
from itertools import count

import pytest
import spacy
import srsly
from spacy import registry

from spacy_elmo.files import lock
from spacy_elmo.language_model.frozen import read_language_model
from spacy_elmo.language_model.perplexity import Perplexity, perplexity
from spacy_elmo.language_model.processes import Processes
from spacy_elmo.pretraining import reporting, trainer
from spacy_elmo.pretraining.checkpoint import checkpoints, read_checkpoint
from spacy_elmo.pretraining.config import check_config
from spacy_elmo.pretraining.earlier_run import make_room
from spacy_elmo.pretraining.run import pretrain
from spacy_elmo.pretraining.texts import InputTexts, open_texts
from spacy_elmo.text.corpus import load_text
from spacy_elmo.weights import read_weights

from helpers.calls import note_calls
from helpers.prepared import content, prepare
from helpers.runs import RANDOM, arrays, assert_same_arrays, metrics, run_config, run_settings
from helpers.trainers import kill_at, run_to_the_end

pytestmark = pytest.mark.training

OFTEN = {"checkpoint_minutes": 1e-9}


@pytest.fixture(scope="module")
def finished_once(texts, tmp_path_factory):
    folder = shutil.copytree(texts, tmp_path_factory.mktemp("made") / "finished")
    assert pretrain(run_settings(folder, max_steps=2), folder / "out")
    return folder


@pytest.fixture
def finished(finished_once, tmp_path):
    """Return a folder with the texts and a run of two steps, `out`."""
    return shutil.copytree(finished_once, tmp_path / "finished")


def steps_of(output):
    return [row["step"] for row in metrics(output)]


def left_alone(folder, **training):
    assert pretrain(run_settings(folder, **training), folder / "alone")
    return arrays(folder / "alone"), metrics(folder / "alone")


@pytest.mark.parametrize(
    ("settings", "after", "steps"),
    [
        (OFTEN, "step", (2, 3, 7, 10)),
        ({"optimizer": "adagrad", "accumulate_gradient": 2, **OFTEN}, "step", (2, 7)),
        ({"softmax": "adaptive", "directions": "different", **OFTEN}, "step", (2, 7)),
        ({"softmax": "full", "optimizer": "adamw", **OFTEN}, "step", (2, 7)),
        ({"optimizer": "muon", **OFTEN}, "step", (2, 7)),
        (OFTEN, "evaluation", (6, 11)),  # those since the checkpoint are made, and noted, again
        ({}, "step", (4,)),  # before the first checkpoint
    ],
)
def test_a_killed_and_resumed_run_equals_an_undisturbed_one(
    folder, monkeypatch, settings, after, steps
):
    """Weights are equal bit by bit, every evaluation is there once, and the best model is the
    same."""
    settings = {**RANDOM, "max_steps": 11, **settings}
    weights, rows = left_alone(folder, **settings)
    assert steps_of(folder / "alone") == [3, 6, 9, 11]
    kill_at(monkeypatch, *steps, after=after)
    assert run_to_the_end(run_settings(folder, **settings), folder / "out") == len(steps)
    assert_same_arrays(arrays(folder / "out"), weights)
    assert metrics(folder / "out") == rows
    assert_same_arrays(*(arrays(folder / name, "model-best") for name in ("out", "alone")))
    model, dev = read_language_model(folder / "out" / "model-last"), load_text(folder / "dev.txt")
    figures = perplexity(model, dev).to_dict()
    assert rows[-1]["perplexity"] == pytest.approx(figures, rel=1e-6)


def test_metrics_of_later_steps_and_a_torn_line_are_dropped(finished):
    path = finished / "out" / "metrics.jsonl"
    whole = path.read_text("utf8")
    later = [srsly.json_dumps({"step": step}) for step in (5, 900)]
    torn = '{"step": 1, "epo\xe9'.encode("latin-1")
    path.write_bytes((whole + "".join(f"{line}\n" for line in later)).encode() + torn)
    more = run_settings(finished, max_steps=7, eval_frequency=3)
    assert pretrain(more, finished / "out", resume=True)
    written = path.read_text("utf8")
    assert written.startswith(whole)
    assert [json.loads(line)["step"] for line in written.splitlines()] == [2, 3, 6, 7]


def test_a_batch_that_shrinks_is_named(folder, capsys):
    """A short text has room for 12 streams, and 8 parts can share 8 of them.

    The tokens are counted, and not the steps, whose number of tokens changes.
    """
    (folder / "train.txt").write_text("a b c d e f g\n" * 12, "utf8")  # 96 items
    settings = {"batch_size": 16, "unroll_steps": 8}
    assert pretrain(run_settings(folder, **settings, max_steps=2), folder / "out")
    changed = run_settings(folder, **settings, max_steps=6, accumulate_gradient=8)
    assert pretrain(changed, folder / "out", resume=True)
    shown = " ".join(capsys.readouterr().out.split())
    assert "The run had 12 streams and has 8 now: LSTM states start from zeros" in shown
    assert "after 448 tokens, 4.7 times the text, 6 steps" in shown  # (2 * 12 + 4 * 8) * 8 / 96


@pytest.mark.corpora
@pytest.mark.parametrize("what", ["train", "dev", "own"])
def test_damaged_prepared_text_is_refused(finished, what):
    """The error comes before the first step. The text is given by the user, or is the run's own."""
    config, out = run_config(finished, max_steps=4), finished / "out"
    prepared = out / "corpus" if what == "own" else finished / "prepared"
    if what != "own":
        prepare(config["corpus"][what], prepared, min_count=1, n_process=1)
        config["corpus"][what] = str(prepared)
    path = prepared / "tokens-00000.npy"
    data = bytearray(path.read_bytes())
    data[-4] ^= 1  # another token
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"tokens-00000.npy does not have .* damaged. Copy the"):
        pretrain(check_config(config), out, resume=True)
    assert steps_of(out) == [2]


def test_a_damaged_checkpoint_does_not_count_for_keep(finished):
    folder = finished / "out" / "checkpoints"
    (folder / "checkpoint-0000000003.pt").write_bytes(b"x")
    assert pretrain(run_settings(finished, max_steps=4, keep=2), finished / "out", resume=True)
    names = sorted(path.name for path in folder.glob("checkpoint-*"))
    wanted = ("2.pt", "3.damaged", "4.pt")
    assert names == [f"checkpoint-000000000{name}" for name in wanted]


def test_checkpoints_are_written_when_they_are_due(folder, monkeypatch):
    saved = note_calls(
        monkeypatch, reporting, "save_checkpoint", lambda trainer, *_, **__: trainer.progress.step
    )
    pretrain(run_settings(folder, max_steps=4), folder / "out")
    assert saved == [4]  # the end, minutes before one is due
    saved.clear()
    pretrain(run_settings(folder, max_steps=4, keep=3, **OFTEN), folder / "out", overwrite=True)
    assert saved == [1, 2, 3, 4, 4]
    assert len(checkpoints(folder / "out" / "checkpoints")) == 3


@pytest.mark.filterwarnings("always")
@pytest.mark.parametrize("name", ["train", "dev"])
def test_files_that_are_left_out_are_named_once(folder, name):
    (folder / "notes.md").touch()
    config = run_config(folder)
    config["corpus"][name] = str(folder)
    settings, out = check_config(config), folder / "out"
    texts = InputTexts(settings.corpus)
    with pytest.warns(UserWarning, match="left out notes.md") as warned:
        make_room(settings, texts, out, resume=False, overwrite=False)
    assert len(warned) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        open_texts(settings, texts, out, Processes.join())


@pytest.mark.filterwarnings("error:.*left out notes.md")
@pytest.mark.parametrize("name", ["train", "dev"])
def test_a_warning_that_is_an_error_comes_before_a_run_is_deleted(finished, name):
    (finished / "texts").mkdir()
    shutil.copy(finished / f"{name}.txt", finished / "texts")
    (finished / "texts" / "notes.md").touch()
    config = run_config(finished)
    config["corpus"][name] = str(finished / "texts")
    message = "left out notes.md"
    check_refused_and_kept(config, finished / "out", message, UserWarning, overwrite=True)


def test_overwrite_deletes_only_files_of_the_earlier_run(finished):
    """Files of other programs stay, whatever their names."""
    out = finished / "out"
    (out / "mine.txt").touch()
    neighbors = {"model-last.old", "model-last.part", "model-best.old", "metrics.jsonl.part"}
    for name in neighbors:
        (out / name).mkdir()
    assert pretrain(run_settings(finished, max_steps=3), out, resume=True)
    assert pretrain(run_settings(finished, max_steps=1, seed=1), out, overwrite=True)
    assert steps_of(out) == [1]
    assert checkpoints(out / "checkpoints") == [out / "checkpoints" / "checkpoint-0000000001.pt"]
    assert {"mine.txt", *neighbors} < {path.name for path in out.iterdir()}


def check_refused_and_kept(config, out, message, error=ValueError, **how):
    before = content(out)
    with pytest.raises(error, match=message):
        pretrain(check_config(config), out, **how)
    after = content(out)
    assert {file: after[file] for file in before} == before


def test_a_run_is_neither_deleted_nor_mixed_with_another(finished, monkeypatch):
    """On several machines, a machine that joins restarts all processes, and `torchrun` does not
    count this."""
    config, out = run_config(finished, max_steps=3), finished / "out"
    notes = out / "model-last" / "notes.txt"
    check_refused = partial(check_refused_and_kept, config, out)
    check_refused("Give one of them", overwrite=True, resume=True)
    with monkeypatch.context() as patch:
        patch.setenv("GROUP_WORLD_SIZE", "2")
        check_refused(r"`overwrite` does not work on.*`resume=True`", overwrite=True)
    with lock(out / "checkpoints" / "lock"):
        check_refused("another process is writing to .*out", BlockingIOError, resume=True)
    for path in (notes, notes.parent / "elmo" / "notes.txt"):
        path.write_text("mine")
        check_refused("model-last is .* contains other files. Move these away", resume=True)
        path.unlink()
    assert pretrain(check_config(config), out, resume=True)
    shutil.rmtree(out / "checkpoints")
    check_refused("out contains the model-best of a run. `resume=True`")
    config["pretraining"] = {"init": str(finished / "nothing")}
    check_refused("nothing", overwrite=True)
    for init in ("model-best", "model-last/elmo"):
        config["pretraining"] = {"init": str(out / init)}
        check_refused(f"{init} is an input of this run, but .* deletes", overwrite=True)
    del config["pretraining"]
    config["corpus"]["train"] = str(out / "corpus")
    check_refused("corpus is an input of this run, but .* deletes", overwrite=True)
    config["corpus"]["train"] = str(finished / "nothing")
    check_refused("nothing", overwrite=True)


@pytest.mark.pipelines
@pytest.mark.parametrize("how", [{}, {"resume": True}, {"overwrite": True}])
@pytest.mark.parametrize(
    ("name", "file", "text"),
    [
        ("model-best", "", ""),
        ("model-last", "", ""),
        ("metrics.jsonl", "", '{"epoch": 1}\n{"epoch": 2}\n'),
        ("metrics.jsonl", "", "mine\n"),
        ("corpus", "tokens-mine.txt", "mine\n"),
        ("corpus", "tokens-mine.npy", "mine\n"),
    ],
)
def test_files_of_other_programs_stay(folder, name, file, text, how):
    """The files come from `spacy train --output out`, or are a user's own text in a folder
    `corpus`."""
    out = folder / "out"
    out.mkdir()
    path = out / name / file
    if text:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    else:
        nlp = spacy.blank("en")
        nlp.add_pipe("sentencizer")
        nlp.to_disk(path)
    config, message = run_config(folder, max_steps=2), rf"{name} (is not|contains other)"
    check_refused_and_kept(config, out, message, **how)


def fail_to_write(monkeypatch, name, *numbers):
    """Fail with a full disk in the calls of these numbers, from 1."""
    original, calls = getattr(reporting, name), count(1)

    def write(*args, **settings):
        if next(calls) in numbers:
            raise OSError(errno.ENOSPC, "No space left on device")
        return original(*args, **settings)

    monkeypatch.setattr(reporting, name, write)


def test_a_failing_write_is_reported_and_the_run_continues(folder, monkeypatch, capsys):
    settings = {**RANDOM, "max_steps": 7, "checkpoint_minutes": 1e-9}
    weights, rows = left_alone(folder, **settings)
    fail_to_write(monkeypatch, "save_model", 1, 2)
    fail_to_write(monkeypatch, "save_checkpoint", 1, 2)
    assert pretrain(run_settings(folder, **settings), folder / "out")
    shown = " ".join("".join(capsys.readouterr()).split())
    assert shown.count("No space left on device") == 4
    assert_same_arrays(arrays(folder / "out"), weights)
    assert metrics(folder / "out") == rows


def test_notes_that_are_written_during_a_run_stay_in_place(folder, monkeypatch, capsys):
    """The run continues, and the model is written after the notes were removed."""
    notes, calls = folder / "out" / "model-last" / "elmo" / "notes.txt", count(1)
    save, save_checkpoint = reporting.save_model, reporting.save_checkpoint

    def write(*args, **settings):
        save(*args, **settings)
        if next(calls) == 1:
            notes.write_text("mine")

    def checkpoint(*args, **settings):
        if not (folder / "moved").exists() and notes.exists():
            notes.rename(folder / "moved")
        return save_checkpoint(*args, **settings)

    monkeypatch.setattr(reporting, "save_model", write)
    monkeypatch.setattr(reporting, "save_checkpoint", checkpoint)
    settings = {**RANDOM, "max_steps": 3, "eval_frequency": 1, "checkpoint_minutes": 60.0}
    with pytest.raises(OSError, match="model-last is not replaced.*elmo/notes.txt"):
        pretrain(run_settings(folder, **settings), folder / "out")
    assert (folder / "moved").read_text() == "mine"
    assert "elmo/notes.txt). Move them away" in " ".join("".join(capsys.readouterr()).split())
    assert pretrain(run_settings(folder, **settings), folder / "out", resume=True)
    assert read_weights(folder / "out" / "model-last").provenance["step"] == 3


@pytest.mark.parametrize("name", ["save_model", "save_checkpoint"])
def test_a_failing_write_at_the_end_is_an_error(finished, monkeypatch, name):
    """A run without its last model or last checkpoint is no success."""
    config, out = run_settings(finished, max_steps=4, eval_frequency=2), finished / "out"
    with monkeypatch.context() as patch:
        fail_to_write(patch, name, *range(1, 100))
        with pytest.raises(OSError, match="No space left on device"):
            pretrain(config, out, resume=True)
    assert pretrain(config, out, resume=True)
    assert steps_of(out) == [2, 4]
    assert read_checkpoint(out / "checkpoints")["states"]["progress"]["step"] == 4
    assert read_weights(out / "model-last").provenance["step"] == 4


def test_a_best_model_that_was_not_written_is_not_replaced_by_a_worse_one(
    folder, monkeypatch, capsys
):
    figures = iter([Perplexity(mean, mean, mean, n_tokens=3, unknown=0.0) for mean in (5.0, 9.0)])
    monkeypatch.setattr(trainer, "perplexity", lambda *args, **settings: next(figures))
    fail_to_write(monkeypatch, "save_model", 2)  # model-last, model-best, model-last
    assert pretrain(run_settings(folder, max_steps=4, eval_frequency=2), folder / "out")
    assert (folder / "out" / "model-last").is_dir()
    assert not (folder / "out" / "model-best").exists()
    assert "is not the best model" in " ".join(capsys.readouterr().out.split())


def test_text_prepared_text_and_output_can_share_a_folder(folder):
    text = folder / "text"
    text.mkdir()
    (folder / "train.txt").rename(text / "train.txt")
    config = run_config(folder, max_steps=2)
    config["corpus"]["train"] = str(text)
    for _ in range(2):
        assert pretrain(check_config(config), text / "out", resume=True)
    config["corpus"].update(dict.fromkeys(["train", "dev"], str(text / "out" / "corpus")))
    assert pretrain(check_config(config), folder / "again")


def test_a_failing_logger_does_not_end_the_run(folder, capsys):
    def log_step(info):
        raise ConnectionError("no network")

    registry.loggers("failing.v1", func=lambda: lambda *_: (log_step, lambda: None))
    logger = {"@loggers": "failing.v1"}
    assert pretrain(run_settings(folder, max_steps=4, logger=logger), folder / "out")
    assert capsys.readouterr().err.count("no network") == 1
