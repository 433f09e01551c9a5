"""Processes that run `embed --shards` side by side, and are killed at random moments: imports
take seconds, and are done once. Arguments: a JSON object with the settings of `embed_shards`, the
number of kills, the output. What it prints is how many shards were there at each kill."""

import json
import os
import signal
import sys
import time
from pathlib import Path

import numpy as np
from stopping import SIGNALS, in_child, wait_for

from spacy_elmo.export.sharding import embed_shards


def start(settings, output):
    """A child that makes shards."""
    return in_child(lambda: embed_shards(output=Path(output), **settings))


def workers_of(process):
    """The processes that a process has spawned to make shards."""
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return [int(child) for child in children if b"spawn_main" in read(f"/proc/{child}/cmdline")]


def read(path):
    try:
        return Path(path).read_bytes()
    except OSError:  # it has ended
        return b""


def kill(process, n_workers, rng):
    """A process that makes shards, or one of its workers."""
    victims = workers_of(process) if n_workers > 1 and rng.random() < 0.7 else []
    if victims:
        os.kill(rng.choice(victims), signal.SIGKILL)
    else:
        os.kill(process, rng.choice(SIGNALS))
    os.waitpid(process, 0)


def main(settings, n_kills, output):
    """Some at a time, which make the same shards, or one with workers. Each is killed at a moment
    that some number of shards precedes."""
    rng, found = np.random.default_rng(0), []
    n_workers = settings.get("workers", 1)
    started = time.monotonic()
    embed_shards(output=Path(f"{output}-alone"), **{**settings, "workers": 1})
    n_shards = len(list(Path(f"{output}-alone").glob("part-*")))
    pause = 4 * (time.monotonic() - started) / n_shards

    def count():
        return len(list(Path(output).glob("part-*")))

    for threshold in sorted(rng.choice(n_shards, n_kills, replace=False)):
        children = [start(settings, output) for _ in range(1 if n_workers > 1 else 2)]
        while count() < threshold:
            time.sleep(pause / 10)
        for child in children:
            time.sleep(rng.uniform(0, pause))
            kill(child, n_workers, rng)
            found.append(count())
    wait_for(start(settings, output))
    print(json.dumps(found))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
