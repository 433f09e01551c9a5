"""SIGKILL, SIGTERM and SIGHUP at any moment: the run that is resumed ends as one that was left
alone."""

import itertools
import os
import subprocess
import sys
import time

import numpy as np
import pytest
from stopping import SIGNALS, listen

from spacy_elmo.pretraining.config import read_config
from spacy_elmo.pretraining.run import pretrain

from runs import RANDOM, arrays, assert_same_arrays, metrics, run_config, write_texts

SETTINGS = {**RANDOM, "checkpoint_minutes": 0.001, "max_steps": 0, "max_epochs": 40}


def start(folder, output):
    """A run, as soon as it trains: what comes before, mostly imports, writes nothing."""
    words = ["-m", "spacy", "elmo", "pretrain", "run.cfg", "--output", output, "--resume"]
    process = subprocess.Popen(
        [sys.executable, *words],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        preexec_fn=listen,
    )
    shown = ""
    while "words in the softmax" not in shown:
        line = process.stdout.readline()
        assert line, shown
        shown += line
    return process


def finish(folder, output):
    """RETURNS (float): How long it trained, in seconds; in this process, which needs no imports."""
    started = time.monotonic()
    assert pretrain(read_config(folder / "run.cfg"), folder / output, resume=True)
    return time.monotonic() - started


def is_stopped(folder, output, seconds, number):
    """Whether a signal stopped it after so long, rather than its end before."""
    process = start(folder, output)
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(number)
    shown = process.communicate()[0]
    # Between the last step and the end a signal acts as ever.
    assert process.returncode in (-number, 130, 0), shown
    assert "Traceback" not in shown
    return process.returncode != 0


def check(folder, seed, n_kills, settings):
    write_texts(folder)
    run_config(folder, **settings).to_disk(folder / "run.cfg")
    whole = finish(folder, "alone")
    moments = np.random.default_rng(seed).uniform(0, whole / n_kills, n_kills)
    stopped = [
        is_stopped(folder, "out", moment, number)
        for moment, number in zip(moments, itertools.cycle(SIGNALS))
    ]
    assert sum(stopped) > 0.8 * n_kills
    finish(folder, "out")
    for name in ("model-last", "model-best"):
        assert_same_arrays(arrays(folder / "out", name), arrays(folder / "alone", name))
    assert metrics(folder / "out") == metrics(folder / "alone")
    names = sorted(path.name for path in (folder / "out").iterdir())
    assert names == sorted(path.name for path in (folder / "alone").iterdir())
    assert not list((folder / "out").rglob("*.spacy-elmo-*"))


def test_stopped_three_times(tmp_path):
    check(tmp_path, 0, 3, {**SETTINGS, "max_epochs": 5})


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_stopped_at_thirty_random_moments(tmp_path):
    check(tmp_path, 1, 30, SETTINGS)
