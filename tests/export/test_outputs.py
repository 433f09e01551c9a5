"""Every output format, read back with the library of the format."""

import json
import os

import h5py
import numpy as np
import pyarrow.parquet
import pytest
import spacy
from spacy.tokens import DocBin

import spacy_elmo.export.parquet
import spacy_elmo.export.spacy_output
from spacy_elmo.export import load_docs
from spacy_elmo.export.outputs import OUTPUTS
from spacy_elmo.weights import read_weights

from helpers import reference
from helpers.embedded import embed_corpus
from helpers.models import TINY_OPTIONS
from helpers.rounding import check_close
from helpers.written_vectors import FORMATS, SENTENCES, TEXT, index_of, read

pytestmark = pytest.mark.corpora


def one_batch(bilm, sentences):
    """Return the layers of `BiLM.embed` for all sentences in one batch, in the order of the job."""
    bilm.embed([[]], "warm")
    bilm.token_vectors(list(dict.fromkeys(word for words in sentences for word in words)))
    order = sorted(range(len(sentences)), key=lambda i: -len(sentences[i]))
    layers, _ = bilm.embed([sentences[i] for i in order if sentences[i]], "warm")
    found = dict(zip(order, [*layers, np.zeros((3, 0, bilm.config.width), dtype="float32")]))
    return [found[i] for i in range(len(sentences))]


def same(got, expected):
    for ours, theirs in zip(got, expected, strict=True):
        assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
        assert ours.tobytes() == theirs.tobytes()


@pytest.mark.parametrize("format", FORMATS)
def test_outputs_equal_the_layers_bit_by_bit(folder, tiny_weights, format):
    """The output has all layers or one, also in half precision, and says how it was made."""
    model, bilm, path = str(tiny_weights), read_weights(tiny_weights), folder / FORMATS[format]
    counts = embed_corpus(model, "text.txt", path, layers="all")
    assert (counts.entries, counts.tokens) == (6, sum(map(len, SENTENCES)))
    expected = one_batch(bilm, SENTENCES)
    same(read(format, path), expected)
    for dtype in ("float32", "float16"):
        more = {"output_format": format, "layers": "top", "dtype": dtype}
        embed_corpus(model, "text.txt", folder / dtype, **more)
        same(read(format, folder / dtype), [layers[-1].astype(dtype) for layers in expected])
        found = OUTPUTS[format].read_settings(folder / dtype)
        assert found.items() >= {**more, "model": bilm.checksum(), "entries": 6}.items()
        assert found["inputs"][0]["name"] == "text.txt"
    assert OUTPUTS[format].read_settings(folder / "text.txt") == {}
    assert {*os.listdir(folder)} == {"text.txt", "float32", "float16", FORMATS[format]}


@pytest.mark.parametrize("format", ["hdf5", "npz"])
def test_sentences_have_the_index_of_their_last_occurrence(folder, tiny_weights, format):
    path = folder / FORMATS[format]
    embed_corpus(str(tiny_weights), "text.txt", path)
    # As AllenNLP: the last of those that are equal.
    assert index_of(format, path) == {" ".join(words): str(i) for i, words in enumerate(SENTENCES)}
    opened = h5py.File if format == "hdf5" else np.load
    with opened(path) as file:  # no key twice
        assert len(json.loads(file["sentence_to_index"][0], object_pairs_hook=list)) == 5
    embed_corpus(str(tiny_weights), "text.txt", path, texts="none", force=True)
    with opened(path) as file:
        assert sorted(filter(str.isdecimal, file)) == [str(i) for i in range(6)]
        assert "sentence_to_index" not in file


def test_parquet_has_a_column_per_layer(folder, tiny_weights, monkeypatch):
    monkeypatch.setattr(spacy_elmo.export.parquet, "ROW_GROUP_ROWS", 4)
    embed_corpus(str(tiny_weights), "text.txt", folder / "out.parquet", layers="all")
    table = pyarrow.parquet.read_table("out.parquet")
    place = ["index", "file", "line"]
    layers = ["layer_0", "layer_1", "layer_2"]
    assert table.column_names == [*place, "text", "tokens", *layers]
    assert table["tokens"].to_pylist() == SENTENCES
    assert table["text"].to_pylist() == [" ".join(words) for words in SENTENCES]
    assert "fixed_size_list<element: float>[12]" in str(table.schema.field("layer_1").type)
    assert pyarrow.parquet.ParquetFile("out.parquet").num_row_groups == 2
    embed_corpus(str(tiny_weights), "text.txt", folder / "b.parquet", texts="none")
    assert pyarrow.parquet.read_schema("b.parquet").names == [*place, "tokens", "vectors"]


def test_without_pyarrow_the_error_says_what_to_install(folder, tiny_weights, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    monkeypatch.delitem(__import__("sys").modules, "pyarrow.parquet")
    with pytest.raises(ImportError, match=r"spacy-elmo\[parquet\]"):
        embed_corpus(str(tiny_weights), "text.txt", folder / "out.parquet")


@pytest.mark.pipelines
@pytest.mark.parametrize("layers", ["average", "all"])
def test_the_loader_restores_vectors(folder, inputs, make_nlp, layers, monkeypatch):
    monkeypatch.setattr(spacy_elmo.export.spacy_output, "SHARD_BYTES", 1500)
    nlp = make_nlp(store_layers=True, mix="average")
    nlp.to_disk("pipeline")
    embed_corpus("pipeline", "x.spacy", folder / "out", layers=layers)
    assert len(list((folder / "out").glob("*.spacy"))) == 2
    docs = list(load_docs("out", spacy.blank("en").vocab))
    originals = DocBin().from_disk("x.spacy").get_docs(nlp.vocab)
    for doc, expected in zip(docs, map(nlp, originals), strict=True):
        assert doc.text == expected.text
        assert [token.is_sent_start for token in doc] == [t.is_sent_start for t in expected]
        check_close(doc.tensor, expected.tensor)
        if layers == "all":
            check_close(doc._.elmo, expected._.elmo)
    assert [(ent.text, ent.label_) for ent in docs[2].ents] == [("Maria", "PER")]
    assert docs[2].user_data["kept"] == 3
    np.testing.assert_allclose(docs[0][2:4].vector, docs[0].tensor[2:4].mean(axis=0), rtol=1e-6)


def test_the_loader_restores_half_precision_as_float32(folder, tiny_weights):
    embed_corpus(str(tiny_weights), "text.txt", folder / "out", layers="all", dtype="float16")
    doc = next(load_docs(folder / "out", spacy.blank("en").vocab))
    assert doc[0].vector.dtype == doc._.elmo.dtype == np.float32
    assert doc.text == "The cat sat ."
    with pytest.raises(ValueError, match=r"no \.spacy file at 'nowhere'"):
        next(load_docs("nowhere", doc.vocab))


def test_sentences_can_be_keys(folder, tiny_weights):
    """AllenNLP's --use-sentence-keys does this. Sentences that cannot be names are refused, and
    nothing is lost."""
    (folder / "plain.txt").write_text("The cat sat .\nnaïve 日本\n\nThe cat sat .\n", "utf8")
    for name, texts in (("keys", "keys"), ("numbers", "index")):
        embed_corpus(str(tiny_weights), "plain.txt", folder / f"{name}.hdf5", texts=texts)
    with h5py.File("keys.hdf5") as keys, h5py.File("numbers.hdf5") as numbers:
        assert set(keys) == {"The cat sat .", "naïve 日本"}
        np.testing.assert_array_equal(keys["The cat sat ."], numbers["0"])
        np.testing.assert_array_equal(keys["naïve 日本"], numbers["1"])
    for name, texts in (("keys", "index"), ("numbers", "keys")):
        path, options = folder / f"{name}.hdf5", {"texts": texts, "resume": True}
        with pytest.raises(ValueError, match=rf"{name}\.hdf5 exists already"):
            embed_corpus(str(tiny_weights), "plain.txt", path, **options)
    path = folder / "slash.hdf5"
    with pytest.raises(ValueError, match=r"sentence 2 cannot be the name of a dataset: 'a/b"):
        embed_corpus(str(tiny_weights), "text.txt", path, texts="keys")
    assert not path.exists()
    assert embed_corpus(str(tiny_weights), "text.txt", path, resume=True).entries == 6


# `--sentence-marks`, against the float64 formula


DATASETS = reference.random_datasets(TINY_OPTIONS, seed=1)  # of tiny_weights


def expected_layers(sentences, initial_state="warm"):
    """Compute the layers, with the rows of the sentence marks."""
    _, warm = reference.layers(TINY_OPTIONS, DATASETS, [[]])
    states = warm * len(sentences) if initial_state == "warm" else None
    return reference.layers(TINY_OPTIONS, DATASETS, sentences, states, keep_marks=True)[0]


@pytest.mark.parametrize("initial_state", ["warm", "zeros"])
def test_sentence_marks_are_the_first_and_last_row(folder, tiny_weights, initial_state):
    output = folder / "out.npz"
    settings = {"layers": "all", "initial_state": initial_state}
    embed_corpus(str(tiny_weights), "text.txt", output, sentence_marks=True, **settings)
    embed_corpus(str(tiny_weights), "text.txt", folder / "bare.npz", **settings)
    found, bare = read("npz", output), read("npz", folder / "bare.npz")
    expected = expected_layers(SENTENCES, initial_state)
    for words, vectors, inner, layers in zip(SENTENCES, found, bare, expected, strict=True):
        layers = layers if words else layers[:, :0]
        np.testing.assert_allclose(vectors, layers, rtol=0, atol=1e-5)
        check_close(vectors[:, 1:-1], inner)
    with pytest.raises(ValueError, match="exists already"):
        embed_corpus(str(tiny_weights), "text.txt", output, resume=True, **settings)


def test_each_sentence_of_a_doc_has_marks(inputs, tiny_weights):
    embed_corpus(str(tiny_weights), "x.spacy", inputs / "x.parquet", sentence_marks=True)
    words = TEXT.split()
    expected = [["<S>", *words[:6], "</S>", "<S>", *words[6:], "</S>"], []]
    assert pyarrow.parquet.read_table(inputs / "x.parquet")["tokens"].to_pylist()[:2] == expected
    first, second = expected_layers([words[:6], words[6:]])
    vectors = np.concatenate([first, second], axis=1)[-1]
    np.testing.assert_allclose(read("parquet", inputs / "x.parquet")[0], vectors, atol=1e-5)


@pytest.mark.pipelines
@pytest.mark.parametrize("initial_state", ["warm", "carry"])
def test_windows_have_no_marks_between_them(folder, make_nlp, initial_state):
    """Marks are before the first window and after the last one."""
    segmenter = {"@segmenters": "spacy-elmo.windows.v1", "size": 4, "overlap": 2}
    make_nlp(segmenter=segmenter, initial_state=initial_state).to_disk("pipeline")
    DocBin(docs=[spacy.blank("en")(TEXT)]).to_disk("long.spacy")
    for name, marks in (("marked", True), ("bare", False)):
        embed_corpus("pipeline", "long.spacy", folder / f"{name}.parquet", sentence_marks=marks)
    marked = pyarrow.parquet.read_table("marked.parquet")["tokens"].to_pylist()[0]
    assert marked == ["<S>", *TEXT.split(), "</S>"]
    vectors, bare = (read("parquet", folder / f"{name}.parquet")[0] for name in ("marked", "bare"))
    check_close(vectors[1:-1], bare)
    assert len(vectors) == len(marked)
