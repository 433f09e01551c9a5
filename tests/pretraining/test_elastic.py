"""Runs on two machines, as two agents of `torchrun` with a process each: after one is lost, the
other resumes from the last checkpoint."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from torch.distributed import TCPStore

from spacy_elmo.pretraining.run import pretrain

from helpers.runs import ENVIRONMENT, run_config, run_settings, write_texts
from helpers.trainers import assert_like_one

# `pretrain`, slowed down, which writes down the windows that it reads: a file for each process.
# With `WAIT`, a process that is alone waits at this step until it is asked to stop: the run then
# takes its handler of the signal back.
SCRIPT = """
import hashlib, os, signal, sys, time
from spacy.cli._util import setup_cli
from spacy_elmo.language_model.windows import TrainingStreams

read, usual = TrainingStreams.at, signal.getsignal(signal.SIGTERM)

def read_and_note(self, step):
    window = read(self, step)
    digest = hashlib.sha256(window.inputs.tobytes() + window.targets.tobytes()).hexdigest()
    size = os.environ["WORLD_SIZE"]
    with open(f"windows/{os.environ['NODE']}-{os.getpid()}", "a") as file:
        file.write(f"{step} {digest} {size}\\n")
    time.sleep(0.1)
    while (size, str(step)) == ("1", os.environ.get("WAIT")):
        time.sleep(0.1)
        if signal.getsignal(signal.SIGTERM) == usual:
            break
    return window

TrainingStreams.at = read_and_note
sys.argv[0] = "spacy"
setup_cli()
"""
# Short: the one that is left waits so long for others.
RENDEZVOUS = "join_timeout=120,last_call_timeout=3,keep_alive_interval=1,keep_alive_max_attempt=3"
# Otherwise PyTorch 2.13 does not tell a machine that joins where the others are.
OWN_STORE = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
SETTINGS = {"max_steps": 40, "eval_frequency": 10, "checkpoint_minutes": 1e-9, "dropout": 0.0}

pytestmark = [
    pytest.mark.processes,
    pytest.mark.training,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(sys.platform != "linux", reason="ends a group of processes"),
]


@pytest.fixture
def start(tmp_path):
    """Return a function that starts one of the machines. They meet at a store of this process,
    which listens before any machine gets its port."""
    write_texts(tmp_path)
    run_config(tmp_path, **SETTINGS, state_reset=0.3).to_disk(tmp_path / "run.cfg")
    (tmp_path / "windows").mkdir()
    (tmp_path / "script.py").write_text(SCRIPT, "utf8")
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    started = []

    def start(node, **environment):
        options = ["--nnodes", "1:2", "--nproc-per-node", "1", "--max-restarts", "3"]
        options += ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{store.port}"]
        options += ["--rdzv-conf", f"{RENDEZVOUS},is_host=False"]
        options += ["--rdzv-id", "run", "--local-addr", "127.0.0.1", "script.py"]
        arguments = ["elmo", "pretrain", "run.cfg", "--output", "out", "--resume"]
        with (tmp_path / f"{node}.log").open("w") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "torch.distributed.run", *options, *arguments],
                cwd=tmp_path,
                env={**ENVIRONMENT, **OWN_STORE, **environment, "NODE": node},
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        started.append(process)
        return process

    yield start
    for process in started:
        lose(process)


def lose(process):
    """End an agent and its process at once, as a machine that is switched off."""
    if process.poll() is None:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
        for pid in (process.pid, *map(int, children.split())):
            os.kill(pid, signal.SIGKILL)
    process.wait()


def windows(folder):
    """Return what was read: step, digest of the window, and number of processes."""
    files = [path.read_text().splitlines() for path in (folder / "windows").iterdir()]
    lines = [line.split() for lines in files for line in lines]
    return [(int(step), digest, int(size)) for step, digest, size in lines]


def wait_for_step(folder, step, size, *processes):
    """Wait until a number of processes has begun a step together."""
    while not any(s >= step and n == size for s, _, n in windows(folder)):
        for process in processes:
            assert process.poll() is None
        time.sleep(0.05)


def assert_undisturbed(folder):
    """Check that the run equals a run of one process without interruption."""
    pretrain(run_settings(folder, **SETTINGS, state_reset=0.3), folder / "alone")
    assert_like_one(folder / "out", folder / "alone")


def test_the_run_resumes_without_a_lost_machine(tmp_path, start):
    first, second = start("first"), start("second")
    wait_for_step(tmp_path, 10, 2, first, second)
    lose(second)
    assert first.wait() == 0
    output = (tmp_path / "first.log").read_text("utf8")
    assert "another process of the run ended" in output
    assert "Traceback" not in output
    assert "Resuming from step" in output
    found = windows(tmp_path)
    assert {step for step, *_ in found} == set(range(40))
    alone = [size for step, _, size in found if step == 39]
    assert alone == [1]
    # Every process reads the same window for a step, also when the step is repeated.
    assert len({(step, digest) for step, digest, _ in found}) == 40
    assert_undisturbed(tmp_path)


def test_a_machine_can_join(tmp_path, start):
    """The run is stopped as by Ctrl-C, and both continue from there."""
    first = start("first", WAIT="7")
    wait_for_step(tmp_path, 7, 1, first)
    second = start("second")
    assert (first.wait(), second.wait()) == (0, 0)
    found = windows(tmp_path)
    assert len({(step, digest) for step, digest, _ in found}) == 40
    # Nothing is done again.
    assert sorted(step for step, _, size in found if size == 1) == list(range(8))
    assert sorted(step for step, _, size in found if size == 2) == sorted([*range(8, 40)] * 2)
    assert_undisturbed(tmp_path)
