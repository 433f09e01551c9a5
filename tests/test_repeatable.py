"""Tests that depend on time, load, chance, a port or the number of cores are found.

The names are looked for in the text of the tests and their helpers, and so in the programs that
they contain as strings. `ALLOWED` lists the exceptions.
"""

import random
import re
from pathlib import Path

import numpy as np
import pytest
import torch

TESTS = Path(__file__).parent
NAMES = (
    r"time\.(?:sleep|(?:time|monotonic|perf_counter|process_time|thread_time)(?:_ns)?)\b",
    r"(?:datetime|date)\.(?:now|today|utcnow)",
    r"(?:os|multiprocessing)\.(?:(?:process_)?cpu_count|sched_getaffinity|getloadavg|urandom)",
    r"uuid\.uuid[14]",
    r"torch\.(?:random\.)?seed\b",
    # Another program may take the port that a test found free. `http.server` binds port 0.
    r"socket\.(?:socket|create_server)(?=\()",
    # Without a seed they draw it by chance.
    r"(?:Random|default_rng|RandomState|SeedSequence|PCG64)(?=\((?:(?:seed=)?None)?\))",
    # What draws from a generator that all share.
    r"(?:np|numpy)\.random\.(?!default_rng|RandomState|SeedSequence|PCG64|Generator|seed)\w+",
    r"(?<!\.)random\.(?!Random\b|seed\b)\w+",
    # Without `mtime` it writes the time.
    r"gzip\.compress(?!\(data, mtime=0\))",
    # Under other names they would not be seen.
    r"import (?:time|datetime|random|uuid|os|socket|numpy\.random) as",
    r"from (?:time|uuid|socket|numpy\.random) import|from random import (?!Random\b)",
    r"import [\w, ]*\b(?:cpu_count|process_cpu_count|sched_getaffinity|getloadavg|urandom)\b",
)
FORBIDDEN = re.compile("|".join(rf"\b{name}" for name in NAMES))

# By file and name: why it may stand there.
ALLOWED = {
    ("model/test_threads.py", "os.cpu_count"): "the default is the machine's number of cores",
    ("model/test_threads.py", "os.sched_getaffinity"): "the default is the number of cores",
    ("export/test_ray.py", "time.sleep"): "waits for the first shard, however long it takes",
    ("helpers/file_server.py", "time.sleep"): "a slow reply; nothing is expected of how slow",
    ("helpers/fuzz.py", "time.process_time"): "a limit far above what a file takes",
    ("helpers/soak.py", "time.monotonic"): "`make soak` runs for minutes; a test counts requests",
    ("pretraining/test_elastic.py", "time.sleep"): "waits for a step; a run that is slow enough",
    ("pretraining/test_launch.py", "time.sleep"): "waits for a checkpoint, however long it takes",
    ("project/test_run_trial.py", "time.sleep"): "waits for the first run, however long it takes",
    ("text/test_prepare_interrupted.py", "time.sleep"): "waits for a file, however long it takes",
}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("f(module.time.monotonic_ns)\nS = 'import time; time.time()'",
         ["time.monotonic_ns", "time.time"]),
        ("from time import sleep\nimport time as t", ["from time import", "import time as"]),
        ("from os import path, cpu_count", ["import path, cpu_count"]),
        ("a = np.random.default_rng()\nb = Random(seed=None)", ["default_rng", "Random"]),
        ("np.random.normal(size=3)", ["np.random.normal"]),
        ("gzip.compress(b'a')", ["gzip.compress"]),
        ("np.random.default_rng(0)\nx: np.random.Generator\nrandom.Random(0).choice('ab')", []),
        ("random.Random()\nrandom.choice('ab')", ["Random", "random.choice"]),
        ("socket.socket().bind(('', 0))\nsocket.socket.connect = None", ["socket.socket"]),
        ("datetime.now()", ["datetime.now"]),
        ("clock.sleep(1)\nrng.random()\nx.time()", []),
    ],
)  # fmt: skip
def test_clocks_and_unseeded_generators_are_found(source, expected):
    assert FORBIDDEN.findall(source) == expected


def test_no_test_depends_on_the_machine():
    found = {
        (path.relative_to(TESTS).as_posix(), name)
        for path in TESTS.rglob("*.py")
        if path != Path(__file__)
        for name in FORBIDDEN.findall(path.read_text("utf8"))
    }
    new = sorted(f"{path}: {name}" for path, name in found - ALLOWED.keys())
    assert not new, "\n".join(["tests depend on the machine: mend or list them", *new])
    gone = sorted(f"{path}: {name}" for path, name in ALLOWED.keys() - found)
    assert not gone, "\n".join(["no longer used, take it off the list:", *gone])


@pytest.mark.parametrize("time", [1, 2])
def test_every_test_draws_the_same(time):
    """Numbers that were drawn before a test make no difference."""
    assert random.random() == random.Random(0).random()
    assert np.random.random() == np.random.RandomState(0).random_sample()
    assert torch.equal(torch.rand(3), torch.rand(3, generator=torch.Generator().manual_seed(0)))
