"""Design, facts 3 and 5: own processes, for a hang must not take pytest along."""

import os
import sys

import pytest

from helpers.commands import run_python

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
def test_n_process(tiny_weights, tmp_path, method, precisions):
    if method == "fork" and sys.platform != "linux":
        pytest.skip("fork is Linux's start method")
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    # The hang needs more than one thread.
    shown = run_python(script, tiny_weights, method, *precisions, OMP_NUM_THREADS="2")
    assert shown == "done\n"


FORK = """
import os
import threading
from spacy_elmo.frozen.config import BiLMConfig
from spacy_elmo.bilm.model import BiLM

bilm = BiLM(BiLMConfig(lstm_dim=4, projection_dim=2, filters=((1, 2),))).freeze()
held, done = threading.Event(), threading.Event()

def lay_out():
    with bilm._exclusively():
        held.set()
        done.wait()

threading.Thread(target=lay_out).start()
held.wait()
try:
    child = os.fork()
    if child == 0:
        bilm.embed([["a", "b"]])
        os._exit(0)
    print(os.waitpid(child, 0)[1])
finally:
    done.set()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_fork_while_weights_are_laid_out():
    assert run_python("-c", FORK, OMP_NUM_THREADS="1") == "0\n"
