"""Processes of a run: `--gpus` starts one per GPU, here on processors; and their memory."""

import ctypes
import platform
import subprocess
import sys
import time

import pytest
import torch

from spacy_elmo.pretraining import allocator
from spacy_elmo.pretraining import launch as module

from helpers.commands import run_python, shown_by
from helpers.runs import ENVIRONMENT, run_config

START = "import sys; from spacy_elmo.pretraining.launch import launch; "
START += "sys.exit(launch(sys.argv[1:], 2))"
COMMAND = [sys.executable, "-c", START, "a.cfg", "--output", "out"]


@pytest.fixture
def folder(folder, monkeypatch):
    settings = {"max_steps": 10_000, "eval_frequency": 10_000, "checkpoint_minutes": 1e-9}
    run_config(folder, **settings).to_disk(folder / "a.cfg")
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def see(monkeypatch):
    """Return a function that sets how many GPUs PyTorch sees."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return lambda n: monkeypatch.setattr(torch.cuda, "device_count", lambda: n)


def run(*arguments, status):
    return shown_by("pretrain", "a.cfg", "-o", "out", "--gpus", *arguments, status=status)


@pytest.mark.commands
@pytest.mark.parametrize(("visible", "chosen"), [("", "3,0"), ("4,GPU-5,6,GPU-7", "GPU-7,4")])
def test_the_command_starts_a_process_per_gpu(folder, see, monkeypatch, visible, chosen):
    """Numbers of GPUs count the visible ones."""
    see(4)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    given = []
    monkeypatch.setattr(module, "launch", lambda *found: given.append(found) or 7)
    more = ["--resume", "--training.max_steps", "2"]
    run("3, 0", *more, status=7)
    assert given == [(["a.cfg", "--output", "out", *more], 2)]
    assert module.os.environ["CUDA_VISIBLE_DEVICES"] == chosen
    assert "training.batch_size" in run("0", "--training.batchsize", "3", status=1)
    assert len(given) == 1  # said once, not by each process


@pytest.mark.commands
def test_minus_1_trains_on_the_processor(folder, see, monkeypatch):
    see(4)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    monkeypatch.setattr(module, "launch", None)
    run("-1", "--training.max_steps", "1", status=0)
    assert module.os.environ["CUDA_VISIBLE_DEVICES"] == ""
    assert (folder / "out" / "model-last").is_dir()


@pytest.mark.commands
@pytest.mark.parametrize(
    ("n", "gpus", "message"),
    [
        (0, "0", "PyTorch sees no GPU here"),
        (2, "0,2,5", "there is no GPU 2, 5; PyTorch sees 2, counted from 0"),
        (2, "0,00", "different ids, such as 0,1,2,3; got '0,00'"),
        (2, "all", "got 'all'"),
    ],
)
def test_missing_gpus_are_refused(folder, see, n, gpus, message):
    see(n)
    assert message in run(gpus, status=1)
    assert not (folder / "out").exists()


@pytest.mark.processes
def test_an_interrupt_stops_two_processes_after_the_step(folder):
    """Ctrl-C lets the step end and writes a checkpoint, as with one process."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with subprocess.Popen(COMMAND, env=ENVIRONMENT, **pipes) as process:
        while process.poll() is None and not list(folder.glob("out/checkpoints/*.pt")):
            time.sleep(0.1)
        process.send_signal(2)
        output = process.communicate()[0]
    assert process.returncode == 130, output
    assert output.count("Stopped at step") == 1
    assert "Traceback" not in output


@pytest.mark.processes
@pytest.mark.commands
@pytest.mark.slow
def test_a_failing_process_sets_the_exit_code(folder):
    """The error is printed without a traceback."""
    settings = ["--nlp.lang", "zzz", "--corpus.format", "text"]
    done = subprocess.run([*COMMAND, *settings], env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode == 1
    assert "zzz" in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr


TAKE_AND_FREE = """
import resource
import numpy as np
from spacy_elmo.pretraining.allocator import keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(5):
        np.ones(16_000_000)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

first = faults()
assert keep_freed_memory()
faults()
print(first, faults())
"""


@pytest.mark.processes
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="glibc alone can be told")
def test_freed_memory_is_reused():
    first, then = map(int, run_python("-c", TAKE_AND_FREE).split())
    assert then < 0.1 * first


def test_memory_is_not_kept_without_glibc(monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    assert allocator.keep_freed_memory() is False
