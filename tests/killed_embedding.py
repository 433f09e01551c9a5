"""A process that runs `embed` in children, and kills them: imports take seconds, and are
done once. Arguments: a JSON object with the settings of `embed_files`, the seed, the
number of kills; what it prints last is how many were killed in which phase."""

import json
import os
import signal
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np

import spacy_elmo.export.job as job

job.CHUNK_BATCHES = 1


def start(settings, output):
    """A child that embeds."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        job.embed_files(output=Path(output), resume=True, **settings)
        status = 0
    except BaseException as error:
        print(repr(error), flush=True)
    finally:
        os._exit(status)


def finish(settings, output):
    """Run to the end; how many seconds it took."""
    started = time.monotonic()
    assert os.waitpid(start(settings, output), 0)[1] == 0
    return time.monotonic() - started


def phase(output):
    part = Path(output + ".part")
    n_chunks = len(list(part.glob("chunks/????????")))
    if (part / "whole").exists():
        return "writing"
    return "embedding" if n_chunks else "finished" if Path(output).exists() else "starting"


def main(settings, seed, n_kills):
    whole = finish(settings, "alone")
    rng, found = np.random.default_rng(seed), Counter()
    for wanted in ["embedding", "writing", *[None] * n_kills]:
        child, output = start(settings, "killed"), "killed"
        deadline = time.monotonic() + (rng.uniform(0, whole) if wanted is None else 60)
        while time.monotonic() < deadline and (wanted is None or phase(output) != wanted):
            if os.waitpid(child, os.WNOHANG)[0]:
                child = 0
                break
            time.sleep(0.001)
        if child:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        found[phase(output)] += 1
    finish(settings, "killed")
    print(json.dumps(found))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
