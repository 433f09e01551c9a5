"""Memory: inside `nlp.memory_zone()`, and after long work."""

import gc
import os
import subprocess
import sys
import weakref
from pathlib import Path

import numpy as np
import pytest

from components import concat_both, examples, tagger

# New words in every zone: strings, lexemes and token vectors come and go.
SCRIPT = """
import random, string, sys, time
from pathlib import Path
import spacy

def memory():
    lines = Path("/proc/self/status").read_text("utf8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024

def main(weights, seconds):
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", config={"weights": weights, "cache": 2000, "store_layers": True})
    rng = random.Random(0)
    known = ["".join(rng.choices(string.ascii_lowercase, k=6)) for _ in range(500)]

    def words(n):
        new = (rng.choices(string.ascii_letters, k=rng.randint(1, 15)) for _ in range(n))
        return [rng.choice(known) if rng.random() < 0.5 else "".join(word) for word in new]

    started, figures = time.monotonic(), []
    while time.monotonic() < started + float(seconds):
        with nlp.memory_zone():
            for doc in nlp.pipe(" ".join(words(rng.randint(0, 80))) for _ in range(200)):
                doc.vector, doc._.elmo
        figures.append(memory())
    warm, last = figures[len(figures) // 5], figures[-len(figures) // 10 :]
    print(len(figures), len(nlp.vocab.strings), warm, sorted(last)[len(last) // 2], max(figures))

if __name__ == "__main__":
    main(*sys.argv[1:])
"""
MOST_GROWTH = 8.0  # MB


def test_inside_a_memory_zone(make_nlp):
    """What a zone leaves behind is invalid: nothing of the pipe's may refer to it."""
    nlp, other = (make_nlp(store_layers=True) for _ in range(2))
    n_strings, seen = len(nlp.vocab.strings), []
    for number in range(3):
        texts = [f"grault{number} lies on corge{number} .", "", f"corge{number}"]
        wanted = [(doc.tensor, doc._.elmo) for doc in other.pipe(texts)]
        with nlp.memory_zone():
            docs = list(nlp.pipe(texts))
            for doc, (tensor, layers) in zip(docs, wanted):
                np.testing.assert_allclose(doc.tensor, tensor, atol=1e-5)
                np.testing.assert_allclose(doc._.elmo, layers, atol=1e-5)
            cosine = np.dot(*(v / np.linalg.norm(v) for v in (docs[0][0].vector, docs[2].vector)))
            assert docs[0][0].similarity(docs[2]) == pytest.approx(cosine, abs=1e-5)
            seen += [weakref.ref(doc) for doc in docs]
            del docs, doc
    gc.collect()
    assert [reference() for reference in seen] == [None] * 9
    assert len(nlp.vocab.strings) == n_strings
    assert len(other.vocab.strings) > n_strings


def test_a_listener_inside_a_memory_zone(make_nlp):
    nlp = make_nlp()
    nlp.add_pipe("tagger", config=tagger(concat_both()))
    batch = examples(nlp)
    sgd = nlp.initialize(lambda: batch)
    for _ in range(3):
        nlp.update(batch, sgd=sgd)
    texts = ["The xyzzy lends money .", "Maria swims on the plugh ."]
    with nlp.memory_zone():
        inside = [[token.tag_ for token in doc] for doc in nlp.pipe(texts)]
    assert "xyzzy" not in nlp.vocab.strings
    assert inside == [[token.tag_ for token in doc] for doc in nlp.pipe(texts)]


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads Linux's /proc")
def test_memory_is_flat(tiny_weights, tmp_path):
    """`ELMO_MEMORY_MINUTES` sets how long, 30 if it is not there."""
    minutes = float(os.environ.get("ELMO_MEMORY_MINUTES", "30"))
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    command = [sys.executable, str(script), str(tiny_weights), str(60 * minutes)]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    print(run.stdout)
    n_zones, _, warm, last, peak = (float(figure) for figure in run.stdout.split())
    assert n_zones > 20
    assert last - warm < MOST_GROWTH, f"{warm:.1f} MB warmed up, {last:.1f} MB at the end"
    assert peak - warm < 4 * MOST_GROWTH
