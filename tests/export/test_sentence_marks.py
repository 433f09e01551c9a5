"""`embed --sentence-marks`, against the float64 formula."""

import numpy as np
import pyarrow.parquet
import pytest
import spacy
from spacy.tokens import DocBin

from spacy_elmo.export.sharding import embed_corpus

from helpers import reference
from helpers.models import TINY_OPTIONS
from helpers.written_vectors import SENTENCES, TEXT, read

DATASETS = reference.random_datasets(TINY_OPTIONS, seed=1)  # of tiny_weights


def expected_layers(sentences):
    """From the warm state, marks included."""
    _, warm = reference.layers(TINY_OPTIONS, DATASETS, [[]])
    return reference.layers(
        TINY_OPTIONS, DATASETS, sentences, warm * len(sentences), keep_marks=True
    )[0]


def test_first_and_last_row(folder, tiny_weights):
    output = folder / "out.npz"
    embed_corpus(str(tiny_weights), "text.txt", output, layers="all", sentence_marks=True)
    found = read("npz", output)
    for vectors, words, layers in zip(found, SENTENCES, expected_layers(SENTENCES)):
        layers = layers if words else layers[:, :0]
        np.testing.assert_allclose(vectors, layers, rtol=0, atol=1e-5)
    embed_corpus(str(tiny_weights), "text.txt", folder / "bare.npz", layers="all")
    for vectors, bare in zip(found, read("npz", folder / "bare.npz")):
        np.testing.assert_allclose(vectors[:, 1:-1], bare, rtol=0, atol=1e-6)
    with pytest.raises(ValueError, match="exists already"):
        embed_corpus(str(tiny_weights), "text.txt", output, layers="all", resume=True)


def test_around_each_sentence_of_a_doc(inputs, tiny_weights):
    embed_corpus(str(tiny_weights), "x.spacy", inputs / "x.parquet", sentence_marks=True)
    words = TEXT.split()
    expected = [["<S>", *words[:6], "</S>", "<S>", *words[6:], "</S>"], []]
    table = pyarrow.parquet.read_table(inputs / "x.parquet")
    assert table["tokens"].to_pylist()[:2] == expected
    first, second = expected_layers([words[:6], words[6:]])
    vectors = np.concatenate([first, second], axis=1)[-1]
    np.testing.assert_allclose(read("parquet", inputs / "x.parquet")[0], vectors, atol=1e-5)


@pytest.mark.parametrize("initial_state", ["warm", "carry"])
def test_not_between_windows(folder, make_nlp, initial_state):
    """But where the first begins and the last ends."""
    segmenter = {"@segmenters": "spacy-elmo.windows.v1", "size": 4, "overlap": 2}
    make_nlp(segmenter=segmenter, initial_state=initial_state).to_disk("pipeline")
    nlp = spacy.blank("en")
    DocBin(docs=[nlp(TEXT)]).to_disk("long.spacy")
    for name, marks in (("marked", True), ("bare", False)):
        embed_corpus("pipeline", "long.spacy", folder / f"{name}.parquet", sentence_marks=marks)
    marked = pyarrow.parquet.read_table("marked.parquet")["tokens"].to_pylist()[0]
    assert marked == ["<S>", *TEXT.split(), "</S>"]
    vectors, bare = (read("parquet", folder / f"{name}.parquet")[0] for name in ("marked", "bare"))
    np.testing.assert_allclose(vectors[1:-1], bare, atol=1e-6)
    assert len(vectors) == len(marked)


def test_docs_cannot_hold_them(folder, tiny_weights):
    with pytest.raises(ValueError, match="a Doc has no tokens for marks"):
        embed_corpus(str(tiny_weights), "text.txt", folder / "docs", sentence_marks=True)
