"""Processes that run `embed --shards` side by side, and are killed at random moments: imports
take seconds, and are done once. Arguments: a JSON object with the settings of `embed_shards`, the
number of kills, the output. What it prints is how many shards were there at each kill."""

import json
import os
import sys
import time
from pathlib import Path

import numpy as np
from stopping import SIGNALS, in_child, wait_for

from spacy_elmo.export.sharding import embed_shards


def start(settings, output):
    """A child that makes shards."""
    return in_child(lambda: embed_shards(output=Path(output), **settings))


def main(settings, n_kills, output):
    """Two at a time, which make the same shards; one of them is killed, then the other."""
    rng, found = np.random.default_rng(0), []
    started = time.monotonic()
    embed_shards(output=Path(f"{output}-alone"), **settings)
    whole = time.monotonic() - started
    while len(found) < n_kills:
        children = [start(settings, output) for _ in range(2)]
        for child in children:
            time.sleep(rng.uniform(0, whole / 2))
            os.kill(child, rng.choice(SIGNALS))
            os.waitpid(child, 0)
            found.append(len(list(Path(output).glob("part-*.parquet"))))
    children = [start(settings, output) for _ in range(2)]
    for child in children:
        wait_for(child)
    print(json.dumps(found))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
