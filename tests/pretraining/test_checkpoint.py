"""Checkpoints: damage is found, the one before is used, and other settings are named."""

import io
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from thinc.api import Config

from spacy_elmo.pretraining import checkpoint as module
from spacy_elmo.pretraining.checkpoint import checkpoints, read_checkpoint, save_checkpoint
from spacy_elmo.pretraining.config import AdvancedSettings, check_config

from helpers.full_disk import room_for
from helpers.models import pretraining_config
from helpers.prepared import content as files_of
from helpers.trainers import make

pytestmark = pytest.mark.training

RANDOM = {"dropout": 0.3, "state_reset": 0.3, "max_steps": 8, "eval_frequency": 3}


def save_after(folder, *steps, keep=10):
    trainer = make(**RANDOM)
    for step in steps:
        while trainer.progress.step < step:
            trainer.step()
        path = save_checkpoint(trainer, folder, corpus="abc", keep=keep)
        assert path == folder / f"checkpoint-{step:010d}.pt"
    return trainer


def step_read(folder):
    return read_checkpoint(folder)["states"]["progress"]["step"]


def test_the_last_checkpoints_and_files_of_other_programs_stay(tmp_path):
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
    files = files_of(folder)
    assert files.keys() == {*others, *kept}
    assert {files[name] for name in others} == {b"mine"}
    assert step_read(folder) == 11


class Code:
    """Object whose pickle is a call."""

    def __reduce__(self):
        return os.mkdir, ("trap",)


TORN = {
    "empty": lambda data: b"",
    "zeros": lambda data: bytes(len(data)),
    "half": lambda data: data[: len(data) // 2],
    "end missing": lambda data: data[:-1],
    "a bit": lambda data: flipped(data, data.index(b"sampled_loss")),
    "a list": lambda data: saved([1, 2]),
    "another dict": lambda data: saved({"a": 1}),
    "another version": lambda data: saved({**loaded(data), "version": 2}),
    "code": lambda data: saved({**loaded(data), "words": Code()}),
    "code alone": lambda data: pickle.dumps(Code()),
}


def loaded(data):
    return torch.load(io.BytesIO(data), weights_only=True)


def saved(content):
    stream = io.BytesIO()
    torch.save(content, stream)
    return stream.getvalue()


def flipped(data, place):
    """Return the data with one bit flipped."""
    return data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :]


@pytest.mark.parametrize("how", TORN)
def test_a_torn_file_is_skipped_for_the_one_before(tmp_path, monkeypatch, capsys, how):
    """No code in it runs."""
    monkeypatch.chdir(tmp_path)
    save_after(tmp_path, 1, 3)
    oldest, newest = checkpoints(tmp_path)
    newest.write_bytes(TORN[how](newest.read_bytes()))
    assert step_read(tmp_path) == 1
    shown = "".join(capsys.readouterr().out.split())
    assert shown.count("cannotbeused") == shown.count(newest.name) == 1
    assert f"resumingfromthecheckpointbefore,{oldest.name}" in shown
    assert ("ithasversion2,butthisprogramreadsonlyversion1" in shown) == (how == "another version")
    oldest.write_bytes(b"x")
    message = rf"^no checkpoint in .* can be read: .*{newest.name}.*{oldest.name}.*`overwrite=True`"
    with pytest.raises(ValueError, match=message):  # no line break: a dot is none
        read_checkpoint(tmp_path)
    assert not Path("trap").exists()


def test_a_flipped_bit_is_found_or_changes_nothing(tmp_path):
    save_after(tmp_path, 1, 3)
    newest, numbers = checkpoints(tmp_path)[-1], np.random.default_rng(0)
    data, whole = newest.read_bytes(), saved(read_checkpoint(tmp_path))
    seen = 0
    for place in numbers.integers(len(data), size=40):
        newest.write_bytes(flipped(data, int(place)))
        content = read_checkpoint(tmp_path)
        if content["states"]["progress"]["step"] == 1:
            seen += 1
        else:  # between the parts, or in a name that nothing reads
            assert saved(content) == whole
    assert seen > 20


def test_a_torn_file_does_not_displace_a_whole_one(tmp_path):
    """A run that used an older checkpoint writes checkpoints of earlier steps than the torn
    one's."""
    trainer = save_after(tmp_path, 2)
    (tmp_path / "checkpoint-0000000009.pt").write_bytes(b"")
    for step in (3, 4):
        trainer.step()
        save_checkpoint(trainer, tmp_path, corpus="abc", keep=1)
        assert step_read(tmp_path) == step


@pytest.mark.parametrize("share", [0.0, 0.99])
def test_a_full_disk_leaves_the_old_checkpoints(tmp_path, share):
    """The system limits the size of files, so PyTorch's writer gets the system's own error."""
    trainer = save_after(tmp_path, 1)
    size = checkpoints(tmp_path)[0].stat().st_size
    before = files_of(tmp_path)
    trainer.step()
    message = r"0000000002.pt cannot be written: File too large. Make .*0000000001.pt is kept"
    with room_for(size * share), pytest.raises(OSError, match=message):
        save_checkpoint(trainer, tmp_path, corpus="abc", keep=1)
    assert files_of(tmp_path) == before
    save_checkpoint(trainer, tmp_path, corpus="abc", keep=1)  # there is space again
    assert step_read(tmp_path) == 2


def test_weights_that_are_not_finite_are_not_written(tmp_path):
    trainer = save_after(tmp_path, 1)
    trainer.step()
    before = files_of(tmp_path)
    moments = next(iter(trainer.optimizers.bilm_optimizer.state.values()))["exp_avg_sq"]
    weights = trainer.model.bilm.stacks[0][0].bias, trainer.model.softmax.weight
    for tensor, value in zip((*weights, moments), (np.nan, np.inf, np.inf)):
        flat = tensor.detach().view(-1)
        whole, flat[-1] = flat[-1].item(), value
        with pytest.raises(FloatingPointError, match=r"became NaN or infinite at step 2: lower"):
            save_checkpoint(trainer, tmp_path, corpus="abc", keep=1)
        if tensor is not moments:  # a model does not have them
            with pytest.raises(FloatingPointError, match="at step 2: lower"):
                trainer.evaluate()
        flat[-1] = whole
    assert files_of(tmp_path) == before


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved")
    save_after(folder, 1)
    return read_checkpoint(folder)


def check(content, changes, corpus="abc"):
    """Check whether a run with changed settings is the same."""
    settings = pretraining_config(**RANDOM)
    for name, value in changes.items():
        section, key = name.split(".")
        place = settings.setdefault(section, {})
        (place["advanced"] if key in AdvancedSettings.model_fields else place)[key] = value
    module.check_same_run(content, check_config(Config(settings)), corpus)


def test_settings_that_must_not_differ_are_named(content):
    changes = {"system.seed": 3, "nlp.lang": "de", "model.lstm_dim": 20, "vocabulary.min_count": 2}
    changes |= {"model.filters": [[1, 4]], "corpus.noise": 0.5, "pretraining.vocabulary": "new"}
    training = {"learn_rate": 0.5, "softmax": "full", "dropout": 0.1}
    training |= {"state_reset": 0.0, "precision": "bf16", "decay": "none"}
    changes.update({f"training.{name}": value for name, value in training.items()})
    with pytest.raises(ValueError, match=r"cannot be resumed.*`overwrite=True`") as error:
        check(content, changes, "xyz")
    named = {"system.seed": "seed", "nlp.lang": "lang"}
    named["training.state_reset"] = "training.advanced.state_reset"
    for name in changes:
        assert f" {named.get(name, name)} was " in str(error.value)
    for part in ("seed was 0 and is 3", "softmax was 'sampled' and is 'full'", "text is different"):
        assert part in str(error.value)
    assert "n_negatives" not in str(error.value)


def test_another_initial_model_has_its_own_sizes(content):
    """Sizes are not listed as differences."""
    with pytest.raises(ValueError, match="pretraining.init was None and is 'somewhere'") as error:
        check(content, {"pretraining.init": "somewhere"})
    assert "model." not in str(error.value)


def test_settings_newer_than_a_checkpoint_are_not_compared(content):
    """Sizes are compared, because they have the same defaults in each version."""
    name = "training.advanced.muon_learn_rate"
    unknown = {name, "model.use_skip_connections", "vocabulary.max_size"}
    known = {name: value for name, value in content["config"].items() if name not in unknown}
    assert len(known) == len(content["config"]) - 3
    early = {**content, "config": known}
    check(early, {"training.muon_learn_rate": 0.05})
    with pytest.raises(ValueError, match=r"model.use_skip_connections was True and is False\. Res"):
        check(early, {"model.use_skip_connections": False, "vocabulary.max_size": 7})


def test_learning_rates_may_rise_only_with_another_batch(content):
    rates = {"training.learn_rate": 0.5, "training.muon_learn_rate": 0.5}
    with pytest.raises(ValueError, match=r"advanced.muon_learn_rate was .*learn_rate was 0.01 and"):
        check(content, rates)
    for batch in ({"training.batch_size": 8}, {"training.unroll_steps": 9}):
        check(content, batch)
        check(content, {**batch, **rates})
        with pytest.raises(ValueError, match="dropout was 0.3 and is 0.1"):
            check(content, {**batch, "training.dropout": 0.1})


def test_limits_and_evaluations_may_differ(content):
    changes = {"max_epochs": 3, "max_steps": 99, "max_tokens": 5, "max_minutes": 1, "patience": 7}
    changes |= {"eval_frequency": 9, "eval_tokens": 8, "keep": 5}
    changes |= {"checkpoint_minutes": 0.5, "accumulate_gradient": 4}
    check(content, {f"training.{name}": value for name, value in changes.items()})
