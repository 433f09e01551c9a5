"""`Embedder` adds vectors to Arrow tables in any process; the token encoder reads each string
once."""

import pickle
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import spacy_elmo.export.embedder as embedding
import spacy_elmo.export.plan as planning
from spacy_elmo.export import Embedder
from spacy_elmo.frozen.encoder import FrozenEncoder
from spacy_elmo.weights import formats
from spacy_elmo.weights.convert import convert

from helpers.calls import note_calls
from helpers.embedded import embed_corpus
from helpers.prepared import random_text
from helpers.written_vectors import SENTENCES, TEXT, assert_same, read, vectors_of


@pytest.fixture
def table():
    return pa.table({"id": range(len(SENTENCES)), "tokens": SENTENCES})


@pytest.mark.corpora
def test_an_embedder_gives_the_vectors_of_embed(folder, tiny_weights, table):
    """The table is cut in several ways. In the second run all words are known."""
    embed_corpus(str(tiny_weights), "text.txt", folder / "out.npz", layers="all")
    expected = read("npz", folder / "out.npz")
    embedder = Embedder(str(tiny_weights), layers="all")
    for size in (6, 2):
        found = pa.concat_tables(embedder(table.slice(i, size)) for i in range(0, 6, size))
        assert found.column_names == ["id", "tokens", "layer_0", "layer_1", "layer_2"]
        assert found["id"].to_pylist() == list(range(6))
        for number in range(3):
            for ours, theirs in zip(vectors_of(found, f"layer_{number}"), expected, strict=True):
                np.testing.assert_allclose(ours, theirs[number], rtol=0, atol=2e-5)


@pytest.mark.pipelines
def test_text_is_read_as_by_the_pipeline(make_nlp, tmp_path, monkeypatch):
    """A RecordBatch stays a RecordBatch."""
    monkeypatch.chdir(tmp_path)
    nlp = make_nlp()
    nlp.to_disk("pipeline")
    embedder = Embedder("pipeline", dtype="float16", batch_tokens=5)
    batch = pa.record_batch({"text": pa.array(["It's late", None, TEXT], pa.large_string())})
    found = embedder(batch)
    assert isinstance(found, pa.RecordBatch)
    assert found.schema.field("vectors").type == pa.list_(pa.list_(pa.float16()))
    assert found["tokens"].to_pylist() == [["It", "'s", "late"], [], TEXT.split()]
    np.testing.assert_allclose(vectors_of(found)[2], nlp(TEXT).tensor, rtol=2**-11, atol=1e-6)
    nothing = embedder(pa.table({"text": pa.array([], pa.string())}))
    assert (nothing.num_rows, nothing.column_names) == (0, ["text", "tokens", "vectors"])
    assert nothing.schema.field("vectors").type == found.schema.field("vectors").type


@pytest.mark.corpora
def test_an_embedder_is_pickled_as_its_arguments(tiny_weights, table):
    embedder = Embedder(str(tiny_weights), layers="top", sentence_marks=True)
    expected = embedder(table)
    assert expected["tokens"].to_pylist()[:2] == [["<S>", *SENTENCES[0], "</S>"], []]
    pickled = pickle.dumps(embedder)
    assert len(pickled) < 1000
    assert pickle.loads(pickled) == embedder
    assert_same(pickle.loads(pickled)(table), expected)


@pytest.mark.corpora
def test_weights_are_read_once(tiny_weights, table, monkeypatch):
    """For the language of the tokenizer and for the vectors."""
    read = note_calls(monkeypatch, formats, "read_model", lambda path, **_: path)
    Embedder(str(tiny_weights))(table)
    assert read == [str(tiny_weights)]
    with pytest.raises(ImportError, match="language zz"):
        Embedder(str(tiny_weights), lang="zz").reader()
    assert len(read) == 1


@pytest.mark.parametrize("lang", ["cu", "ja", "punctuation"])
def test_text_without_a_tokenizer_is_split_as_english(tiny_weights, tmp_path, monkeypatch, lang):
    """The tokenizer of Japanese needs a library, and `spacy.lang.punctuation` is no language."""
    monkeypatch.setitem(sys.modules, "sudachipy", None)
    convert(tiny_weights, tmp_path / "x.safetensors", lang=lang)
    embedder = Embedder(str(tmp_path / "x.safetensors"))
    with pytest.warns(UserWarning, match=f"no tokenizer for '{lang}', so .* as 'en'"):
        assert embedder.reader().nlp.lang == "en"


def test_a_device_that_does_not_exist_is_named(tiny_weights):
    with pytest.raises(ValueError, match="the device 'cuda:99' cannot be used: "):
        Embedder(str(tiny_weights), device="cuda:99").reader()


@pytest.mark.corpora
def test_datasets_of_hugging_face_are_mapped(tiny_weights, table):
    datasets = pytest.importorskip("datasets")
    embedder = Embedder(str(tiny_weights))
    rows = datasets.Dataset(table).with_format("arrow").map(embedder, batched=True, batch_size=4)
    assert_same(pa.table(rows.with_format(None)[:]), embedder(table))


REFUSED = [
    ({"word": ["a"]}, "no column 'tokens' or 'text', but word"),
    ({"text": [None, 0]}, r"row 1 \(from 0\): the column 'text' .* strings, got int64"),
    ({"text": [b""]}, "the column 'text' must contain strings, got binary"),
    ({"tokens": ["a b"]}, "the column 'tokens' must contain lists of strings, got string"),
    ({"tokens": [["a"]], "vectors": [0]}, "has a column 'vectors', which .* would replace. Rename"),
    ({"tokens": [None, ["a", None]]}, r"row 1 .*got list<item: string>, with a null in it"),
]


@pytest.mark.parametrize(("columns", "message"), REFUSED)
def test_tables_without_usable_columns_are_refused(tiny_weights, columns, message):
    with pytest.raises(ValueError, match=message):
        Embedder(str(tiny_weights))(pa.table(columns))


# Strings are encoded once


@pytest.fixture
def embed_with(embed, folder, make_nlp, monkeypatch):
    """Return a function that embeds 150 sentences in many groups. Its argument is the size of the
    cache of strings."""
    monkeypatch.setattr(embedding, "CHUNK_BATCHES", 1)
    monkeypatch.setattr(planning, "SHARD_SIZE", 500)
    monkeypatch.setattr(planning, "CHUNK_SIZE", 50)
    (folder / "text.txt").write_text(random_text(150), "utf8")

    def run(cache, **settings):
        make_nlp(cache=cache).to_disk("pipeline")
        embed(model="pipeline", batch_tokens=50, layers="all", **settings)
        return Path("out.npz").read_bytes()

    return run


@pytest.mark.pipelines
@pytest.mark.corpora
def test_every_string_is_encoded_once(embed_with, monkeypatch):
    """A shard encodes it once. Without a cache, each group encodes it once."""
    monkeypatch.setattr(planning, "SHARD_SIZE", 10**6)
    counts = Counter()
    note_calls(monkeypatch, FrozenEncoder, "__call__", lambda _, tokens: counts.update(tokens))
    groups = note_calls(monkeypatch, embedding.GroupEmbedder, "encode", lambda _, group: group)
    embed_with(cache=20_000)
    assert set(counts) == {"<S>", "</S>", *Path("text.txt").read_text("utf8").split()}
    assert set(counts.values()) == {1}
    counts.clear()
    n_groups = len(groups)
    embed_with(cache=0, force=True)
    marks = counts.pop("<S>"), counts.pop("</S>")
    assert max(counts.values()) <= len(groups) - n_groups <= min(marks)  # before the first, too


@pytest.mark.pipelines
@pytest.mark.corpora
@pytest.mark.parametrize("cache", [0, 40, 20_000])
def test_the_cache_does_not_change_a_byte(embed_with, cache, written):
    """Strings may leave the cache and be encoded again."""
    expected = embed_with(cache)
    Path("out.npz").unlink()
    for n_shards in (1, 3):
        written.stop_at = len(written.found) + n_shards
        with pytest.raises(InterruptedError):
            embed_with(cache)
    written.stop_at = None
    assert embed_with(cache) == expected
