import io
import os
import pickle
import signal

import numpy as np
import pytest
import torch
from thinc.api import Config

from spacy_elmo.files import atomic_stream
from spacy_elmo.pretraining.checkpoint import (
    check_same_run,
    checkpoints,
    read_checkpoint,
    restored_model,
    save_checkpoint,
)
from spacy_elmo.pretraining.config import check_config
from spacy_elmo.pretraining.trainer import Trainer
from spacy_elmo.text.corpus import read_corpus

from helpers.full_disk import room_for
from helpers.killed import child
from helpers.models import pretraining_config

CORPUS = read_corpus([["the", "cat", "sat", "."], ["dogs", "run", "far", "!"]] * 12)
RANDOM = {"dropout": 0.3, "state_reset": 0.3, "max_steps": 8, "eval_frequency": 3}


def settings(seed=0, **training):
    return check_config(
        Config({**pretraining_config(**{**RANDOM, **training}), "system": {"seed": seed}})
    )


def make(**changes):
    return Trainer(settings(**changes), CORPUS, CORPUS)


def restored(content, **changes):
    model = restored_model(content)
    trainer = Trainer(settings(**changes), CORPUS, CORPUS, model=model)
    trainer.load_state_dict(content["states"])
    return trainer


def save_after(folder, *steps, keep=10):
    trainer = make()
    for step in steps:
        while trainer.progress.step < step:
            trainer.step()
        save_checkpoint(trainer, folder, corpus="abc", keep=keep)
    return trainer


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def assert_equal(found, expected):
    """Tensors and numbers in dicts and lists, bit by bit, types too."""
    assert type(found) is type(expected)
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for key in expected:
            assert_equal(found[key], expected[key])
    elif isinstance(expected, list):
        assert len(found) == len(expected)
        for ours, theirs in zip(found, expected):
            assert_equal(ours, theirs)
    elif isinstance(expected, torch.Tensor):
        assert torch.equal(found, expected)
    else:
        assert repr(found) == repr(expected)  # nan, too


@pytest.mark.parametrize("kind", ["sampled", "adaptive"])
def test_round_trip(tmp_path, kind):
    trainer = make(softmax=kind)
    for _ in range(3):
        trainer.step()
    trainer.evaluate()
    trainer.step()
    path = save_checkpoint(trainer, tmp_path / "new", corpus="abc", keep=1)
    assert path == tmp_path / "new" / "checkpoint-0000000004.pt"
    content = read_checkpoint(tmp_path / "new")
    assert_equal(content["states"], trainer.state_dict())
    assert content["corpus"] == "abc"
    again = restored(content, softmax=kind)
    assert_equal(again.state_dict(), trainer.state_dict())
    assert again.model.vocabulary.words == trainer.model.vocabulary.words
    assert again.progress == trainer.progress
    assert len(again.progress.losses) == 1


def test_the_last_ones_are_kept_and_files_of_other_programs_stay(tmp_path):
    folder = tmp_path / "checkpoints"
    assert read_checkpoint(folder) is None
    folder.mkdir()
    assert read_checkpoint(folder) is None
    others = ["checkpoint-500.pt", "checkpoint-0000000001.part", "checkpoint-0000000003.old"]
    for name in others:
        (folder / name).write_bytes(b"mine")
    save_after(folder, 9, 10, 11, keep=2)
    kept = ["checkpoint-0000000010.pt", "checkpoint-0000000011.pt"]
    assert [path.name for path in checkpoints(folder)] == kept
    assert names(folder) == sorted([*others, *kept])
    assert all((folder / name).read_bytes() == b"mine" for name in others)
    assert read_checkpoint(folder)["states"]["progress"]["step"] == 11


TORN = {
    "empty": lambda data: b"",
    "zeros": lambda data: bytes(len(data)),
    "start": lambda data: data[:100],
    "half": lambda data: data[: len(data) // 2],
    "end missing": lambda data: data[:-1],
    "zeros at the end": lambda data: data[: len(data) // 2] + bytes(len(data) - len(data) // 2),
    "text": lambda data: b"something else\n",
    "a bit": lambda data: flipped(data, data.index(b"sampled_loss")),
    "a list": lambda data: saved([1, 2]),
    "a number": lambda data: saved(3),
    "another dict": lambda data: saved({"a": 1}),
    "another version": lambda data: saved({**loaded(data), "version": 2}),
    "NaN": lambda data: spoiled(data, np.nan),  # as earlier versions wrote it
    "infinite": lambda data: spoiled(data, np.inf),
}
REASONS = {
    "another version": "it has version 2, but this program reads only version 1",
    "NaN": "its bilm.stacks.0.0.bias is NaN",
    "infinite": "its bilm.stacks.0.0.bias is NaN or infinite",
}


def loaded(data):
    return torch.load(io.BytesIO(data), weights_only=True)


def spoiled(data, value):
    content = loaded(data)
    content["states"]["bilm"]["stacks.0.0.bias"][0] = value
    return saved(content)


def saved(content):
    stream = io.BytesIO()
    torch.save(content, stream)
    return stream.getvalue()


def flipped(data, place):
    """One bit is another."""
    return data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :]


@pytest.mark.parametrize("how", TORN)
def test_torn_file_is_skipped_for_the_one_before(tmp_path, capsys, how):
    save_after(tmp_path, 1, 3)
    oldest, newest = checkpoints(tmp_path)
    newest.write_bytes(TORN[how](newest.read_bytes()))
    assert read_checkpoint(tmp_path)["states"]["progress"]["step"] == 1
    shown = "".join(capsys.readouterr().out.split())
    assert shown.count("cannotbeused") == shown.count(newest.name) == 1
    assert f"resumingfromthecheckpointbefore,{oldest.name}" in shown
    assert REASONS.get(how, "").replace(" ", "") in shown
    oldest.write_bytes(b"x")
    with pytest.raises(
        ValueError, match=r"no checkpoint in .* can be read: .*`overwrite=True`"
    ) as error:
        read_checkpoint(tmp_path)
    assert oldest.name in str(error.value)
    assert newest.name in str(error.value)
    assert "\n" not in str(error.value)


def test_any_flipped_bit_is_seen_or_no_matter(tmp_path):
    save_after(tmp_path, 1, 3)
    newest, numbers = checkpoints(tmp_path)[-1], np.random.default_rng(0)
    data, whole = newest.read_bytes(), read_checkpoint(tmp_path)
    seen = 0
    for place in numbers.integers(len(data), size=100):
        newest.write_bytes(flipped(data, int(place)))
        content = read_checkpoint(tmp_path)
        if content["states"]["progress"]["step"] == 1:
            seen += 1
        else:  # between the parts, or in a name that nothing reads
            assert_equal(content, whole)
    assert seen > 50


@pytest.mark.parametrize("keep", [1, 2])
def test_torn_file_does_not_push_out_a_whole_one(tmp_path, keep):
    """A run that fell back writes checkpoints of earlier steps than the torn one's."""
    trainer = save_after(tmp_path, 2)
    (tmp_path / "checkpoint-0000000009.pt").write_bytes(b"")
    for _ in range(3):
        trainer.step()
        save_checkpoint(trainer, tmp_path, corpus="abc", keep=keep)
        content = read_checkpoint(tmp_path)
        assert content["states"]["progress"]["step"] == trainer.progress.step


@pytest.mark.parametrize("share", [0.0, 0.3, 0.99])
def test_file_that_may_not_grow(tmp_path, share):
    """The system's own error, in PyTorch's writer: no file may be larger than this."""
    trainer = save_after(tmp_path, 1)
    size = checkpoints(tmp_path)[0].stat().st_size
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    trainer.step()
    message = r"0000000002.pt cannot be written: File too large. Make .*0000000001.pt is kept"
    with room_for(size * share), pytest.raises(OSError, match=message):
        save_checkpoint(trainer, tmp_path, corpus="abc", keep=1)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
    save_checkpoint(trainer, tmp_path, corpus="abc", keep=1)  # there is space again
    assert read_checkpoint(tmp_path)["states"]["progress"]["step"] == 2


SPOILED = {
    "a weight of the model": lambda t: t.model.bilm.stacks[0][0].bias,
    "a weight of the softmax": lambda t: t.model.softmax.weight,
    "a moment": lambda t: next(iter(t.optimizers.bilm_optimizer.state.values()))["exp_avg_sq"],
}


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("what", SPOILED)
def test_what_is_not_finite_is_not_written(tmp_path, what, value):
    trainer = save_after(tmp_path, 1)
    trainer.step()
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    SPOILED[what](trainer).data.view(-1)[-1] = value
    with pytest.raises(FloatingPointError, match=r"became NaN or infinite at step 2: lower"):
        save_checkpoint(trainer, tmp_path, corpus="abc", keep=1)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
    if what != "a moment":  # a model does not have it
        with pytest.raises(FloatingPointError, match="at step 2: lower"):
            trainer.evaluate()


def test_leftover_of_a_killed_run_goes(tmp_path):
    def write():
        with atomic_stream(tmp_path / "checkpoint-0000000001.pt") as file:
            file.write(b"half")
            os.kill(os.getpid(), signal.SIGKILL)

    with child(write) as process:
        os.waitpid(process, 0)
    assert len(names(tmp_path)) == 1
    save_after(tmp_path, 2, keep=1)
    assert names(tmp_path) == ["checkpoint-0000000002.pt"]


class Code:
    """Pickled, it is a call."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("whole", [True, False])
def test_code_is_refused_and_not_run(tmp_path, capsys, whole):
    folder, trap = tmp_path / "checkpoints", tmp_path / "trap"
    save_after(folder, 1)
    bad = folder / "checkpoint-0000000007.pt"
    if whole:
        content = loaded(checkpoints(folder)[0].read_bytes())
        torch.save({**content, "words": Code(trap)}, bad)
    else:
        bad.write_bytes(pickle.dumps(Code(trap)))
    assert read_checkpoint(folder)["states"]["progress"]["step"] == 1
    checkpoints(folder)[0].unlink()
    with pytest.raises(ValueError, match="no checkpoint"):
        read_checkpoint(folder)
    assert not trap.exists()


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved")
    save_after(folder, 1)
    return read_checkpoint(folder)


def test_what_differs_is_named(content):
    with pytest.raises(ValueError, match="cannot be resumed") as error:
        check_same_run(content, settings(seed=3, learn_rate=0.5, softmax="full"), "xyz")
    for part in (
        "seed was 0 and is 3",
        "training.learn_rate was 0.01 and is 0.5",
        "training.softmax was 'sampled' and is 'full'",
        "the training text is different",
        "`overwrite=True`",
    ):
        assert part in str(error.value)
    assert "dropout" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("model.lstm_dim", 20),
        ("model.filters", [[1, 4]]),
        ("vocabulary.min_count", 2),
        ("pretraining.init", "somewhere"),
        ("training.dropout", 0.1),
        ("training.batch_size", 8),
        ("training.state_reset", 0.0),
        ("training.precision", "bf16"),
        ("training.decay", "none"),
        ("nlp.lang", "de"),
    ],
)
def test_what_must_not_differ(content, name, value):
    section, name = name.split(".")
    changed = pretraining_config(**RANDOM)
    changed.setdefault(section, {})[name] = value
    with pytest.raises(ValueError, match=name):
        check_same_run(content, check_config(Config(changed)), "abc")


def test_another_initial_model_has_its_own_sizes(content):
    """They are not listed as differences."""
    changed = {**pretraining_config(**RANDOM), "pretraining": {"init": "somewhere"}}
    with pytest.raises(ValueError, match="pretraining.init was None and is 'somewhere'") as error:
        check_same_run(content, check_config(Config(changed)), "abc")
    assert "model." not in str(error.value)


def test_a_setting_that_the_run_did_not_know_was_at_its_default(content):
    known = dict(content["config"])
    for name in (
        *("training.muon_learn_rate", "model.use_skip_connections"),
        *("pretraining.vocabulary", "vocabulary.max_size"),
    ):
        del known[name]
    early = {**content, "config": known}
    check_same_run(early, settings(), "abc")
    with pytest.raises(ValueError, match=r"training.muon_learn_rate was 0.02 and is 0.05"):
        check_same_run(early, settings(muon_learn_rate=0.05), "abc")


def test_what_may_differ(content):
    """Limits and evaluations; and earlier versions took no language for English."""
    limits = {"max_epochs": 3, "max_steps": 99, "max_tokens": 5, "max_minutes": 1, "patience": 7}
    more = {"eval_frequency": 9, "eval_tokens": 8, "eval_streams": 3, "keep": 5}
    rest = {"checkpoint_minutes": 0.5, "accumulate_gradient": 4}
    check_same_run(content, settings(**limits, **more, **rest), "abc")
    changed = pretraining_config(**RANDOM)
    del changed["nlp"]
    check_same_run(content, check_config(Config(changed)), "abc")
