"""Design, facts 3 and 5: `n_process` works with each start method. The tests start processes,
because a hang must not block pytest."""

import os
import sys
import threading

import pytest

from helpers.commands import run_python
from helpers.killed import in_child
from helpers.models import tiny_bilm

pytestmark = pytest.mark.processes

SCRIPT = """
import multiprocessing, sys, warnings
import numpy as np
import spacy
from spacy_elmo.embedding.vectors import restore_vectors

TOLERANCE = {"float32": 1e-5, "bfloat16": 0.02, "int8": 0.02}  # of the largest value

def check(weights, precision):
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", config={"weights": weights, "mix": "top", "precision": precision})
    texts = [f"The bank {i} of the river . A bank lends money ." for i in range(30)] + [""]
    one = [doc for doc in nlp.pipe(texts)]  # a warm forward pass, with all threads
    two = [restore_vectors(doc) for doc in nlp.pipe(texts, n_process=2, batch_size=4)]
    assert [doc.text for doc in two] == texts
    for a, b in zip(one, two):
        atol = TOLERANCE[precision] * np.abs(a.tensor).max(initial=1.0)
        np.testing.assert_allclose(a.tensor, b.tensor, rtol=0, atol=atol)
    similar, expected = (docs[0][1].similarity(docs[0][8]) for docs in (two, one))
    assert abs(similar - expected) < TOLERANCE[precision]
    assert similar < 0.9999

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    weights, method, *precisions = sys.argv[1:]
    multiprocessing.set_start_method(method)
    for precision in precisions:
        check(weights, precision)
    print("done")
"""


@pytest.mark.parametrize(
    ("method", "precisions"),
    [
        ("fork", ["float32", "bfloat16", "int8"]),
        ("spawn", ["int8"]),
        pytest.param("spawn", ["float32", "bfloat16"], marks=pytest.mark.slow),
    ],
)
def test_several_processes_give_the_same_vectors(tiny_weights, tmp_path, method, precisions):
    if method == "fork" and sys.platform != "linux":
        pytest.skip("fork is Linux's start method")
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    # The hang needs more than one thread.
    shown = run_python(script, tiny_weights, method, *precisions, OMP_NUM_THREADS="2")
    assert shown == "done\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_fork_while_weights_are_laid_out_does_not_hang():
    bilm, held, done = tiny_bilm(), threading.Event(), threading.Event()

    def lay_out():
        with bilm._exclusively():
            held.set()
            done.wait()

    threading.Thread(target=lay_out).start()
    held.wait()
    try:
        in_child(lambda: bilm.embed([["a", "b"]]))
    finally:
        done.set()
