"""Peak memory, which must not grow with the text."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from helpers.commands import run_python
from helpers.runs import ENVIRONMENT

pytestmark = pytest.mark.processes

SCRIPT = """
import json, sys
from pathlib import Path
from helpers.embedded import embed_corpus

embed_corpus(sys.argv[1], sys.argv[2], Path(sys.argv[3]), **json.loads(sys.argv[4]))
lines = Path("/proc/self/status").read_text("utf8").splitlines()
print(next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024)
"""
MOST_GROWTH = 1.2


def write(path, n_bytes):
    """Write sentences of frequent words and of new words."""
    rng, size = np.random.default_rng(0), 0
    with path.open("w", encoding="utf8") as file:
        while size < n_bytes:
            numbers = np.minimum(rng.zipf(1.2, 100_000), 10**12)
            for sentence in np.split(numbers, np.sort(rng.choice(100_000, 5_000, replace=False))):
                words = [f"w{number}" for number in sentence]
                line, rest = " ".join(words), 8 * "\t_"
                size += len(line) + 1
                if path.suffix == ".jsonl":
                    line = json.dumps({"text": line})
                elif path.suffix == ".conllu":
                    line = "".join(f"{i}\t{word}{rest}\n" for i, word in enumerate(words, 1))
                file.write(line + "\n")


CASES = [
    ("x.txt", "hdf5", {"layers": "all", "texts": "none"}),
    # An npz file has a list of its members in memory.
    ("x.txt", "hdf5", {"format": "text", "texts": "none"}),
    ("x.jsonl", "parquet", {}),
    ("x.conllu", "spacy", {}),
]


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads Linux's /proc")
@pytest.mark.parametrize(("name", "format", "settings"), CASES)
def test_memory_does_not_grow_with_the_text(tmp_path, tiny_weights, name, format, settings):
    """`ELMO_EMBED_MB` is the size of the text, 20 MB by default."""
    most, peaks = float(os.environ.get("ELMO_EMBED_MB", "20")), []
    for n_mb in (1, most):
        write(tmp_path / name, n_mb * 1e6)
        options = json.dumps({**settings, "output_format": format, "force": True})
        arguments, where = [tiny_weights, name, "out", options], ENVIRONMENT["PYTHONPATH"]
        printed = run_python("-c", SCRIPT, *arguments, cwd=tmp_path, PYTHONPATH=where)
        peaks.append(float(printed))
    print(f"{name} to {format}: {peaks[0]:.0f} MB with 1 MB, {peaks[1]:.0f} with {most:g} MB")
    assert peaks[1] < MOST_GROWTH * peaks[0]
