"""A process that runs `embed` in children, and kills them: imports take seconds, and are
done once. Arguments: a JSON object with the settings of `embed_files`, the seed, the
number of kills; what it prints last is how many were killed in which phase."""

import json
import os
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
from stopping import SIGNALS, in_child, wait_for

import spacy_elmo.export.embedder as embedder
import spacy_elmo.export.job as job

embedder.CHUNK_BATCHES = 1


def start(settings, output):
    """A child that embeds."""
    return in_child(lambda: job.embed_files(output=Path(output), resume=True, **settings))


def phase(output):
    part = Path(output + ".part")
    n_chunks = len(list(part.glob("chunks/????????")))
    if (part / "whole").exists():
        return "writing"
    return "embedding" if n_chunks else "finished" if Path(output).exists() else "starting"


def main(settings, n_kills, formats):
    rng = np.random.default_rng(0)
    for format in formats:
        alone, output = f"{format}-alone", f"{format}-killed"
        settings["format"] = format
        started = time.monotonic()
        job.embed_files(output=Path(alone), **settings)  # here: what is slow once is done
        whole = time.monotonic() - started
        found = Counter()
        for wanted in ["embedding", "writing", *[None] * n_kills]:
            found[killed_in(settings, output, wanted, rng, whole)] += 1
        wait_for(start(settings, output))
        print(json.dumps(found), flush=True)


def killed_in(settings, output, wanted, rng, whole):
    """End a child by a signal in the wanted phase, or at any moment; the phase."""
    child, seconds = start(settings, output), rng.uniform(0, whole)
    deadline = time.monotonic() + (seconds if wanted is None else 60)
    while time.monotonic() < deadline and (wanted is None or phase(output) != wanted):
        if os.waitpid(child, os.WNOHANG)[0]:
            return phase(output)
        time.sleep(0.005)
    os.kill(child, rng.choice(SIGNALS))
    os.waitpid(child, 0)
    return phase(output)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
