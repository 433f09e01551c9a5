"""Memory of a pipeline: inside `nlp.memory_zone()`, in Docs that stay, and in long runs."""

import gc
import json
import weakref
from pathlib import Path

import numpy as np
import pytest

from helpers.commands import run_python
from helpers.components import concat_both, tagger
from helpers.trained import trained

BEGIN = """
import json, random, sys
from pathlib import Path
import spacy
from spacy.tokens import Doc

def memory(name):
    lines = Path("/proc/self/status").read_text("utf8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) / 1024
"""
# New words in every zone: strings, lexemes and token vectors come and go.
SCRIPT = """
nlp, weights = spacy.blank("en"), sys.argv[1]
if weights:
    nlp.add_pipe("elmo", config={"weights": weights, "cache": 2000, "store_layers": True})
rng = random.Random(0)

def words(n):
    return [f"{rng.randrange(16 ** rng.randint(1, 15)):x}" for _ in range(n)]

figures = []
for _ in range(5000):
    with nlp.memory_zone():
        for doc in nlp.pipe(" ".join(words(rng.randint(0, 80))) for _ in range(200)):
            doc.vector
    figures.append(memory("VmRSS"))
print(json.dumps(figures))
"""


@pytest.mark.pipelines
def test_a_pipe_works_inside_memory_zones(make_nlp):
    """Strings of a zone are invalid after it, so the pipe must not refer to them."""
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


def bytes_held_by(array):
    """Return the number of bytes of an array, or of the array or tensor under a view."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array.nbytes if array.base is None else array.base.untyped_storage().nbytes()


@pytest.mark.pipelines
@pytest.mark.parametrize(
    ("segmenter", "initial_state"),
    [("sentences.v2", "warm"), ("sentences.v2", "carry"), ("windows.v1", "warm")],
)
def test_a_doc_does_not_keep_its_batch_in_memory(make_nlp, segmenter, initial_state):
    """One Doc of thousands may stay, with only its own bytes."""
    segmenters = {"@segmenters": f"spacy-elmo.{segmenter}", "size": 6, "overlap": 2}
    nlp = make_nlp(store_layers=True, segmenter=segmenters, initial_state=initial_state)
    texts = ["The bank lends money .", "", "He sat by the river and it ran on and on and on ."]
    for doc in nlp.pipe(texts):
        for array in (doc._.elmo, doc.tensor):
            assert bytes_held_by(array) == array.nbytes
            assert array.shape[-2] == len(doc)


@pytest.mark.training
@pytest.mark.pipelines
def test_a_listener_works_inside_memory_zones(nlp):
    batch, sgd = trained(nlp, tagger=tagger(concat_both()))
    for _ in range(3):
        nlp.update(batch, sgd=sgd)
    texts = ["The xyzzy lends money .", "Maria swims on the plugh ."]
    with nlp.memory_zone():
        inside = [[token.tag_ for token in doc] for doc in nlp.pipe(texts)]
    assert "xyzzy" not in nlp.vocab.strings
    assert inside == [[token.tag_ for token in doc] for doc in nlp.pipe(texts)]


@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads Linux's /proc")
def test_memory_stays_flat(tiny_weights):
    """Memory is compared from the middle of the run on with spaCy alone on the same text, because
    spaCy's tables of strings grow a little in a memory zone, too."""
    with_elmo, alone = (
        json.loads(run_python("-c", BEGIN + SCRIPT, weights)) for weights in (tiny_weights, "")
    )
    ours, spacys = (rss[-1] - rss[len(rss) // 2] for rss in (with_elmo, alone))
    print(f"{len(alone)} zones: {ours:.1f} MB with elmo, {spacys:.1f} MB spaCy alone")
    assert ours - spacys < 8.0  # MB


LONG_DOC = """
words = "The bank of the river was steep , and the bank lends money .".split()
nlp = spacy.blank("en")
nlp.add_pipe("elmo", config={"store_layers": True})
nlp(Doc(nlp.vocab, words=words))
doc = Doc(nlp.vocab, words=[words[i % len(words)] for i in range(100_000)])
before = memory("VmRSS")
nlp(doc)
print(json.dumps([doc._.elmo.nbytes / 2**20, memory("VmHWM") - before]))
"""


@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads Linux's /proc")
def test_a_long_doc_has_its_layers_only_once_in_memory():
    """The tensor takes a third of the layers' memory in addition."""
    layers, peak = json.loads(run_python("-c", BEGIN + LONG_DOC))
    print(f"{layers:.0f} MB of layers, peak {peak:.0f} MB above")
    assert peak < 1.5 * layers
