"""A disk without room, by the limit on the size of files that a process may set itself."""

import json
import sys

import pytest

from helpers.forked import run_forked
from helpers.prepared import random_text
from helpers.written_vectors import FORMATS, read

SCRIPT = """
import json, resource, signal, sys
from pathlib import Path
import spacy_elmo.export.plan as plan
from spacy_elmo.export.sharding import embed_corpus

plan.SHARD_SIZE, plan.CHUNK_SIZE = 600, 200
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
settings = json.loads(sys.argv[1])
for format in sys.argv[2:]:
    for size in (9_000, 100_000, resource.RLIM_INFINITY):
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
        try:
            embed_corpus(output=Path(format), format=format, resume=True, **settings)
            print("whole")
        except OSError as error:
            n_shards = len(list(Path(format + ".part").glob("shards/part-*")))
            print(json.dumps([str(error), n_shards, Path(format).exists()]))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such limit")
def test_full_disk(folder, tiny_weights):
    (folder / "text.txt").write_text(random_text(300), "utf8")
    settings = {"model": str(tiny_weights), "inputs": "text.txt", "layers": "all"}
    given = json.dumps({**settings, "batch_tokens": 400})
    lines = run_forked("-c", SCRIPT, given, *FORMATS, cwd=folder).splitlines()
    assert len(lines) == 3 * len(FORMATS)
    for i, format in enumerate(FORMATS):
        for line, has_shards in zip(lines[3 * i :], (False, True)):
            message, n_shards, exists = json.loads(line)
            assert message == (
                f"{format} cannot be written: File too large. Make room and run again with "
                f"`resume=True`: it resumes."
            )
            assert not exists
            assert bool(n_shards) == has_shards
        assert lines[3 * i + 2] == "whole"
        assert len(read(format, folder / format)) == 300
