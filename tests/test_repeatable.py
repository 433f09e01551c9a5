"""No test depends on time, load, chance, a port or the number of cores: what they may not use.

The names are looked for in the tests and their helpers, and in the programs that they hold as
strings. `ALLOWED` lists the exceptions.
"""

import ast
import random
import re
import textwrap
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import torch

TESTS = Path(__file__).parent
NAMES = {
    "time": ["sleep", "time", "monotonic", "perf_counter", "process_time", "thread_time"],
    "datetime": ["datetime.now", "datetime.today", "datetime.utcnow", "date.today"],
    "os": ["cpu_count", "process_cpu_count", "sched_getaffinity", "getloadavg", "urandom"],
    "multiprocessing": ["cpu_count"],
    "random": ["SystemRandom"],
    "uuid": ["uuid1", "uuid4"],
    "torch": ["seed", "random.seed"],
}
FORBIDDEN = {f"{module}.{name}" for module, names in NAMES.items() for name in names}
# Another program may take the port that a test found free. Servers of `http.server` bind port 0.
CALLS = {"socket.socket", "socket.create_server"}
# With a seed they may be used; without one they draw it by chance.
GENERATORS = {
    "random.Random",
    *(f"numpy.random.{name}" for name in ("default_rng", "RandomState", "SeedSequence", "PCG64")),
}
DRAW_NOTHING = {"numpy.random.Generator", "numpy.random.seed", "random.seed"}

# By file and name: why it may stand there.
ALLOWED = {
    ("frozen/test_threads.py", "os.cpu_count"): "the default is the machine's number of cores",
    ("frozen/test_threads.py", "os.sched_getaffinity"): "the default is the number of cores",
    ("export/test_ray.py", "time.sleep"): "waits for the first shard, however long it takes",
    ("helpers/file_server.py", "time.sleep"): "a slow reply; nothing is expected of how slow",
    ("helpers/fuzz.py", "time.process_time"): "a limit far above what a file takes",
    ("pretraining/test_elastic.py", "time.sleep"): "waits for a step; a run that is slow enough",
    ("pretraining/test_launch.py", "time.sleep"): "waits for a checkpoint, however long it takes",
    ("project/test_run_trial.py", "time.sleep"): "waits for the first run, however long it takes",
    ("text/test_prepare_interrupted.py", "time.sleep"): "waits for a file, however long it takes",
}


def programs(tree):
    """The programs that a module holds as strings. What is put into a template is a name."""
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Constant) else None
        if isinstance(text, str) and "import " in text:
            for program in (text, re.sub(r"\{[^{}]*\}", "x", text)):
                with suppress(SyntaxError):
                    yield ast.parse(textwrap.dedent(program))
                    break


def full_names(tree):
    """Every use of a name of another module, in full, and the call that it is in, if any."""
    origins, calls = {}, {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                name = alias.name if alias.asname else alias.name.split(".")[0]
                origins[alias.asname or name] = name
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                origins[alias.asname or alias.name] = f"{node.module}.{alias.name}"
        elif isinstance(node, ast.Call):
            calls[node.func] = node
    inner = set()
    for node in ast.walk(tree):
        if node in inner or not isinstance(node, ast.Attribute | ast.Name):
            continue
        parts, root = [], node
        while isinstance(root, ast.Attribute):
            parts.append(root.attr)
            root = root.value
            inner.add(root)
        if isinstance(root, ast.Name):
            name = origins.get(root.id)
            if name is not None:
                yield ".".join([name, *reversed(parts)]), calls.get(node)


def is_forbidden(name, call):
    name = re.sub(r"_ns$", "", name)
    # Also through a module that imports it, such as `download.time.sleep`.
    if any(name == found or name.endswith(f".{found}") for found in FORBIDDEN):
        return True
    if name in CALLS:
        return call is not None
    if name in GENERATORS:
        given = [] if call is None else [*call.args, *(word.value for word in call.keywords)]
        return call is not None and all(
            isinstance(value, ast.Constant) and value.value is None for value in given
        )
    module, _, rest = name.rpartition(".")
    return module in ("random", "numpy.random") and name not in DRAW_NOTHING and bool(rest)


def uses(source):
    """RETURNS (Set[str]): What a module uses of the forbidden."""
    tree = ast.parse(source)
    trees = [tree, *programs(tree)]
    found = (pair for tree in trees for pair in full_names(tree))
    return {name for name, call in found if is_forbidden(name, call)}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import time\ntime.sleep(1)", {"time.sleep"}),
        ("from time import sleep as wait\nwait(1)", {"time.sleep"}),
        ("import time as t\nf(t.monotonic_ns)", {"time.monotonic_ns"}),
        ("from a import b\nb.time.perf_counter()", {"a.b.time.perf_counter"}),
        ("import numpy as np\nnp.random.default_rng()", {"numpy.random.default_rng"}),
        ("import numpy as np\nnp.random.default_rng(None)", {"numpy.random.default_rng"}),
        ("from numpy.random import RandomState as R\nR()", {"numpy.random.RandomState"}),
        ("import numpy as np\nnp.random.normal(size=3)", {"numpy.random.normal"}),
        ("import numpy as np\nnp.random.default_rng(0)\nx: np.random.Generator", set()),
        ("import random\nrandom.Random(0).choice('ab')", set()),
        ("import random\nrandom.Random()\nrandom.choice('ab')", {"random.Random", "random.choice"}),
        ("from random import shuffle\nshuffle(x)", {"random.shuffle"}),
        ("import os\nx = os.cpu_count() + len(os.sched_getaffinity(0))",
         {"os.cpu_count", "os.sched_getaffinity"}),
        ("import socket\nsocket.socket().bind(('', 0))", {"socket.socket"}),
        ("from datetime import datetime\ndatetime.now()", {"datetime.datetime.now"}),
        ("S = '''\n    import time\n    time.sleep({pause!r})\n'''", {"time.sleep"}),
        ("S = 'import time; time.time()'", {"time.time"}),
        ("clock.sleep(1)\nrng.random()\nx.time()", set()),
    ],
)  # fmt: skip
def test_uses(source, expected):
    assert uses(source) == expected


def test_nothing_depends_on_the_machine():
    found = {
        (path.relative_to(TESTS).as_posix(), name)
        for path in TESTS.rglob("*.py")
        if path != Path(__file__)
        for name in uses(path.read_text("utf8"))
    }
    new = sorted(f"{path}: {name}" for path, name in found - ALLOWED.keys())
    assert not new, "\n".join(["tests depend on the machine: mend or list them", *new])
    gone = sorted(f"{path}: {name}" for path, name in ALLOWED.keys() - found)
    assert not gone, "\n".join(["no longer used, take it off the list:", *gone])


@pytest.mark.parametrize("time", [1, 2])
def test_every_test_draws_the_same(time):
    """What was drawn before a test, by others too, makes no difference."""
    assert random.random() == random.Random(0).random()
    assert np.random.random() == np.random.RandomState(0).random_sample()
    generator = torch.Generator().manual_seed(0)
    assert torch.equal(torch.rand(3), torch.rand(3, generator=generator))
