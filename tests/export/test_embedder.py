"""Tables of Arrow get vectors, in any process."""

import pickle

import numpy as np
import pyarrow as pa
import pytest

from spacy_elmo.export import Embedder
from spacy_elmo.export.sharding import embed_corpus

from helpers.written_vectors import SENTENCES, TEXT, read


def vectors_of(table, name="vectors"):
    return [np.array(cell).reshape(-1, 12) for cell in table[name].to_pylist()]


@pytest.fixture
def table():
    return pa.table({"id": range(len(SENTENCES)), "tokens": SENTENCES})


def test_vectors_of_embed(folder, tiny_weights, table):
    """Whatever the cut of the table; the second time with all words known."""
    embed_corpus(str(tiny_weights), "text.txt", folder / "out.npz", layers="all")
    expected = read("npz", folder / "out.npz")
    embedder = Embedder(str(tiny_weights), layers="all")
    for size in (6, 2):
        parts = [embedder(table.slice(i, size)) for i in range(0, 6, size)]
        found = pa.concat_tables(parts)
        assert found.column_names == ["id", "tokens", "layer_0", "layer_1", "layer_2"]
        assert found["id"].to_pylist() == list(range(6))
        for number in range(3):
            for ours, theirs in zip(vectors_of(found, f"layer_{number}"), expected, strict=True):
                np.testing.assert_allclose(ours, theirs[number], rtol=0, atol=2e-5)


def test_text(make_nlp, tmp_path, monkeypatch):
    """As the pipeline reads it; tables of other types stay what they are."""
    monkeypatch.chdir(tmp_path)
    nlp = make_nlp()
    nlp.to_disk("pipeline")
    embedder = Embedder("pipeline", dtype="float16", batch_tokens=5)
    batch = pa.record_batch({"text": pa.array(["It's late", None, TEXT], pa.large_string())})
    found = embedder(batch)
    assert isinstance(found, pa.RecordBatch)
    assert found.schema.field("vectors").type == pa.list_(pa.list_(pa.float16()))
    assert found["tokens"].to_pylist() == [["It", "'s", "late"], [], TEXT.split()]
    expected = nlp(TEXT).tensor
    np.testing.assert_allclose(vectors_of(found)[2], expected, rtol=2**-11, atol=1e-6)
    nothing = embedder(pa.table({"text": pa.array([], pa.string())}))
    assert (nothing.num_rows, nothing.column_names) == (0, ["text", "tokens", "vectors"])
    assert nothing.schema.field("vectors").type == found.schema.field("vectors").type


def test_pickled_as_its_arguments(tiny_weights, table):
    embedder = Embedder(str(tiny_weights), layers="top", sentence_marks=True)
    expected = embedder(table)
    assert expected["tokens"][0].as_py() == ["<S>", *SENTENCES[0], "</S>"]
    assert expected["tokens"][1].as_py() == []
    pickled = pickle.dumps(embedder)
    assert len(pickled) < 1000
    assert pickle.loads(pickled) == embedder
    for ours, theirs in zip(vectors_of(pickle.loads(pickled)(table)), vectors_of(expected)):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=2e-5)


def test_datasets(tiny_weights, table):
    """As of Hugging Face."""
    datasets = pytest.importorskip("datasets")
    embedder = Embedder(str(tiny_weights))
    rows = datasets.Dataset(table).with_format("arrow").map(embedder, batched=True, batch_size=4)
    found = rows.with_format(None)[:]
    expected = embedder(table)
    assert found["tokens"] == expected["tokens"].to_pylist()
    for ours, theirs in zip(found["vectors"], vectors_of(expected), strict=True):
        np.testing.assert_allclose(np.reshape(ours, (-1, 12)), theirs, rtol=0, atol=2e-5)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"word": ["a"]}, "no column 'tokens' or 'text', but word"),
        ({"text": [3]}, "the column 'text' must contain strings, got int64"),
        # Only a null is an empty text.
        (
            {"text": [None, 0]},
            r"row 1 \(from 0\): the column 'text' must contain strings, got int64",
        ),
        ({"text": [False]}, "the column 'text' must contain strings, got bool"),
        ({"text": [0.0]}, "the column 'text' must contain strings, got double"),
        ({"text": [b""]}, "the column 'text' must contain strings, got binary"),
        ({"tokens": ["a b"]}, "the column 'tokens' must contain lists of strings, got string"),
        ({"tokens": [""]}, "the column 'tokens' must contain lists of strings, got string"),
        ({"tokens": [None, ["a", None]]}, r"row 1 .*got list<item: string>, with a null in it"),
    ],
)
def test_tables_that_are_refused(tiny_weights, columns, message):
    with pytest.raises(ValueError, match=message):
        Embedder(str(tiny_weights))(pa.table(columns))


def test_settings_that_are_refused(table):
    with pytest.raises(ValueError, match="one of float32, float16, int8, got 'int4'"):
        Embedder("en_small", dtype="int4")
    with pytest.raises(ValueError, match=r"layers must be .*, got 'none'"):
        Embedder("en_small", layers="none")(table)
