"""Less to store: means, chosen tokens, int8, and learned mixes; each against all vectors."""

import json
import warnings

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import spacy
from spacy.language import Language
from spacy.tokens import Doc, DocBin, Span

from spacy_elmo.export import Embedder
from spacy_elmo.export.sharding import embed_corpus
from spacy_elmo.layers.scalar_mix import mixes_of

from helpers.components import concat_both, examples, listener, tagger
from helpers.written_vectors import TEXT, read

WORDS = ["Maria", "lends", "Ann", "money", ".", "It", "helps", ".", "Ann", "agrees"]
ENTS = [(0, 1, "PER"), (2, 4, "LOAN"), (8, 9, "PER")]
SENTENCES = [(0, 5), (5, 8), (8, 10)]


@pytest.fixture
def docs(folder):
    """A Doc with everything, one without a token, one without a noun or entity."""
    nlp = spacy.blank("en")
    pos = ["PROPN", "VERB", "PROPN", "NOUN", "PUNCT", "PRON", "VERB", "PUNCT", "PROPN", "VERB"]
    starts = [i in (0, 5, 8) for i in range(len(WORDS))]
    doc = Doc(nlp.vocab, words=WORDS, pos=pos, sent_starts=starts)
    doc.ents = [Span(doc, *ent[:2], label=ent[2]) for ent in ENTS]
    doc.spans["roles"] = [Span(doc, 1, 3, label="ROLE"), Span(doc, 5, 7, label="ROLE")]
    other = Doc(nlp.vocab, words=["So", "what"], pos=["ADV", "PRON"], sent_starts=[True, False])
    other.ents = []
    DocBin(docs=[doc, Doc(nlp.vocab), other]).to_disk(folder / "x.spacy")
    return folder / "x.spacy"


@pytest.fixture
def rows(folder, docs, tiny_weights):
    """The rows of a Parquet file, after what all tokens have."""

    def run(**settings):
        embed_corpus(str(tiny_weights), docs, folder / "out.parquet", force=True, **settings)
        return pq.read_table("out.parquet").to_pylist()

    return run


@pytest.mark.parametrize(
    ("settings", "expected", "others"),
    [
        ({"pool": "doc"}, [(0, 10, "")], [(0, 2, "")]),
        ({"pool": "sentence"}, [(*at, "") for at in SENTENCES], [(0, 2, "")]),
        ({"pool": "span", "only": "ents"}, ENTS, []),
        ({"only": "ents"}, [(0, 1, "PER"), (2, 3, "LOAN"), (3, 4, "LOAN"), (8, 9, "PER")], []),
        ({"only": "PER"}, [ENTS[0], ENTS[2]], []),
        ({"only": "nouns,LOAN"}, [(0, 1, "PROPN"), (2, 3, ...), (3, 4, ...), (8, 9, "PROPN")], []),
        (
            {"pool": "span", "only": "ROLE,PER"},
            [ENTS[0], (1, 3, "ROLE"), (5, 7, "ROLE"), ENTS[2]],
            [],
        ),
    ],
)
@pytest.mark.parametrize("layers", ["average", "all"])
def test_means_of_all_vectors(rows, settings, layers, expected, others):
    everything = rows(layers=layers)
    names = [name for name in everything[0] if name.startswith(("vectors", "layer_"))]
    assert len(names) == (3 if layers == "all" else 1)
    found = rows(layers=layers, **settings)
    assert [row["index"] for row in found] == [0, 1, 2]
    for row, whole, places in zip(found, everything, [expected, [], others], strict=True):
        spans = list(zip(row["starts"], row["ends"], row["labels"], strict=True))
        assert [span[:2] for span in spans] == [place[:2] for place in places]
        assert all(one[2] == two[2] for one, two in zip(spans, places) if two[2] is not ...)
        assert row["tokens"] == [" ".join(whole["tokens"][a:b]) for a, b, _ in places]
        for name in names:
            wanted = [np.mean(np.array(whole[name])[a:b], axis=0) for a, b, _ in places]
            np.testing.assert_allclose(row[name], wanted, rtol=0, atol=1e-6)


def test_means_of_chosen_tokens(rows):
    """Sentences without any get no vector."""
    [whole, *_] = rows()
    vectors = np.array(whole["vectors"])
    [found, *_] = rows(pool="sentence", only="PER")
    assert list(zip(found["starts"], found["ends"])) == [SENTENCES[0], SENTENCES[2]]
    np.testing.assert_allclose(found["vectors"], vectors[[0, 8]], rtol=0, atol=1e-6)
    [found, _, none] = rows(pool="doc", only="ents")
    np.testing.assert_allclose(
        found["vectors"], [vectors[[0, 2, 3, 8]].mean(axis=0)], rtol=0, atol=1e-6
    )
    assert none["vectors"] == []


def test_sentences_without_docs(folder, tiny_weights):
    embed_corpus(str(tiny_weights), "text.txt", folder / "all.parquet")
    embed_corpus(str(tiny_weights), "text.txt", folder / "pooled.parquet", pool="sentence")
    found = pq.read_table("pooled.parquet").to_pylist()
    for row, whole in zip(found, pq.read_table("all.parquet").to_pylist(), strict=True):
        assert row["tokens"] == ([whole["text"]] if whole["text"] else [])
        if whole["tokens"]:
            wanted = [np.mean(whole["vectors"], axis=0)]
            np.testing.assert_allclose(row["vectors"], wanted, rtol=0, atol=1e-6)


def test_components_behind_elmo(make_nlp, folder):
    """They are asked for annotations, of Docs, sentences and tables; vectors stay the same."""
    nlp = make_nlp()
    nlp.add_pipe("entity_ruler").add_patterns([{"label": "PER", "pattern": "Maria"}])
    nlp.to_disk("pipeline")
    text = "It rains. Maria lends money."
    (folder / "x.jsonl").write_text(json.dumps({"text": text}) + "\n")
    (folder / "y.txt").write_text("Maria lends\n\nmoney\n")
    everything = nlp(text).tensor
    embed_corpus("pipeline", ["x.jsonl", "y.txt"], folder / "out", shards=2, only="PER")
    embedder = Embedder("pipeline", only="PER")
    tables = [
        pq.read_table(folder / "out"),
        embedder(pa.table({"text": [text, "Maria lends", "", "money"]})),
    ]
    for table in tables:
        rows = table.to_pylist()
        assert [row["tokens"] for row in rows] == [["Maria"], ["Maria"], [], []]
        assert [row["starts"] for row in rows] == [[3], [0], [], []]
        np.testing.assert_allclose(rows[0]["vectors"][0], everything[3], rtol=0, atol=1e-5)
    nothing = embedder(pa.table({"text": pa.array([], pa.string())}))
    assert nothing.schema.equals(tables[1].schema)


@pytest.mark.parametrize("settings", [{"only": "PER"}, {"pool": "sentence"}])
def test_sentences_set_behind_elmo(make_nlp, folder, settings):
    """A selection sets sentences only after the Doc is segmented, so vectors do not change."""
    nlp = make_nlp()
    nlp.add_pipe("entity_ruler").add_patterns([{"label": "PER", "pattern": "Maria"}])
    nlp.add_pipe("sentencizer", config={"punct_chars": ["."]})
    nlp.to_disk("pipeline")
    text = "It rains ! Maria lends money . " * 40  # longer than a window
    doc = nlp(text)
    (row,) = Embedder("pipeline", **settings)(pa.table({"text": [text]})).to_pylist()
    spans = list(zip(row["starts"], row["ends"], strict=True))
    assert len(spans) == 40 if "only" in settings else len(spans) > 1
    wanted = [doc.tensor[start:end].mean(axis=0) for start, end in spans]
    np.testing.assert_allclose(row["vectors"], wanted, rtol=0, atol=1e-5)


def test_labels_that_the_pipeline_does_not_set(make_nlp, folder, docs):
    """Are refused, and nothing is written. A component that does not say what it sets may set
    any, and so may Docs."""
    nlp = make_nlp()
    nlp.add_pipe("entity_ruler").add_patterns([{"label": "PER", "pattern": "Maria"}])
    nlp.to_disk("pipeline")
    message = "`only=VERB`: no component of the pipeline sets this label. "
    message += "Give one of ents, nouns, PER."
    before = sorted(folder.iterdir())
    for embed, how in ((embed_corpus, {}), (embed_corpus, {"shards": 2})):
        with pytest.raises(ValueError, match=f"^{message}$"):
            embed("pipeline", "text.txt", folder / "out.parquet", only="PER,VERB", **how)
    with pytest.raises(ValueError, match=f"^{message}$"):
        Embedder("pipeline", only="VERB")(pa.table({"text": ["Maria"]}))
    assert sorted(folder.iterdir()) == before
    embed_corpus("pipeline", ["text.txt", docs], folder / "docs.parquet", only="ROLE")
    Language.component("of_a_user", func=lambda doc: doc)
    nlp.add_pipe("of_a_user")
    nlp.to_disk("pipeline")
    with pytest.warns(UserWarning, match="^`only=VERB`: no row has a token$"):
        embed_corpus("pipeline", "text.txt", folder / "out.parquet", only="VERB")


def test_docs_without_a_label(rows, folder, docs, tiny_weights):
    """Of Docs nobody knows before: they are read, and what is empty is said to be."""
    with pytest.warns(UserWarning, match="^`only=VERB`: no row has a token$"):
        assert [row["tokens"] for row in rows(only="VERB")] == [[], [], []]
    with pytest.warns(UserWarning, match="^`only=VERB`: no row has a token$"):
        embed_corpus(str(tiny_weights), docs, folder / "out", shards=1, only="VERB")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rows(only="VERB,PER")


@pytest.mark.parametrize("layers", ["average", "all"])
def test_int8(folder, tiny_weights, layers):
    """Within half a scale of each vector's own."""
    settings = {"model": str(tiny_weights), "inputs": "text.txt", "layers": layers}
    for dtype in ("float32", "int8"):
        for format in ("hdf5", "parquet"):
            embed_corpus(**settings, dtype=dtype, output=folder / f"{dtype}.{format}")
    names = ["vectors"] if layers == "average" else [f"layer_{i}" for i in range(3)]
    found = pq.read_table("int8.parquet").to_pylist()
    with h5py.File("int8.hdf5") as small, h5py.File("float32.hdf5") as large:
        for i, row in enumerate(found):
            wanted = large[str(i)][()].reshape(len(names), -1, 12)
            numbers = small[str(i)][()].reshape(wanted.shape)
            assert numbers.dtype == "int8"
            for j, name in enumerate(names):
                suffix = name.removeprefix("vectors").removeprefix("layer")
                scales = small[str(i)].attrs[f"scales{suffix}"]
                assert scales.dtype == "float32"
                assert row[f"scales{suffix}"] == scales.tolist()
                np.testing.assert_array_equal(
                    np.array(row[name]).reshape(numbers[j].shape), numbers[j]
                )
                np.testing.assert_allclose(scales, np.abs(wanted[j]).max(axis=1) / 127, rtol=1e-6)
                error = np.abs(numbers[j] * scales[:, None] - wanted[j])
                assert (error <= 0.501 * scales[:, None]).all()
                assert (np.abs(numbers[j]).max(axis=1) == 127).all()


def test_hdf5_holds_what_stands_beside(folder, docs, tiny_weights):
    path = folder / "out.hdf5"
    embed_corpus(str(tiny_weights), docs, path, only="ents", pool="span", dtype="int8")
    with h5py.File(path) as file:
        assert file["0"].shape == (3, 12)
        found = [file["0"].attrs[name].tolist() for name in ("starts", "ends", "labels")]
        assert list(zip(*found)) == ENTS
        assert file["1"].shape == (0, 12)
        assert [len(file["1"].attrs[name]) for name in ("starts", "labels", "scales")] == [0, 0, 0]


def test_scales_of_a_long_doc(folder, tiny_weights):
    """More than 64 KB of them, which HDF5 keeps elsewhere."""
    (folder / "long.txt").write_text(" ".join(["a"] * 20_000) + "\n")
    path = folder / "out.hdf5"
    embed_corpus(str(tiny_weights), "long.txt", path, dtype="int8", max_tokens=20_000)
    with h5py.File(path) as file:
        assert file["0"].attrs["scales"].shape == (20_000,)


def test_interrupted_runs_keep_what_stands_beside(folder, docs, tiny_weights, monkeypatch):
    """Chunks hold it, too; other choices are other runs."""
    settings = {"only": "ents", "dtype": "int8", "layers": "all"}
    embed_corpus(str(tiny_weights), docs, folder / "out.parquet", **settings)
    embed_corpus(str(tiny_weights), docs, folder / "out", shards=1, **settings)
    assert pq.read_table("out.parquet").equals(pq.read_table("out"))
    again = {"resume": True, **settings}
    assert embed_corpus(str(tiny_weights), docs, folder / "out.parquet", **again).entries == 3
    with pytest.raises(ValueError, match="exists already"):
        embed_corpus(str(tiny_weights), docs, folder / "out.parquet", **{**again, "only": "PER"})
    with pytest.raises(ValueError, match="only is 'PER', but was 'ents'"):
        embed_corpus(
            str(tiny_weights), docs, folder / "out", shards=1, **{**settings, "only": "PER"}
        )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"pool": "token"}, "`pool` must be one of sentence, doc, span, got 'token'"),
        ({"pool": "span"}, "`pool=span` needs spans"),
        ({"only": "PER,"}, "`only` must be ents, nouns or LABEL,LABEL..., got 'PER,'"),
        ({"pool": "doc", "sentence_marks": True}, "marks are not tokens"),
        ({"pool": "doc", "format": "npz"}, "need Parquet, or HDF5 without"),
        ({"dtype": "int8", "format": "spacy"}, "need Parquet, or HDF5 without"),
        ({"only": "ents", "format": "hdf5", "sentence_keys": True}, "HDF5 without"),
        ({"only": "ents"}, r"`only=ents`: the text has no entities .*ner|component that sets"),
        ({"only": "nouns"}, "`only=nouns`: the text has no parts of speech. Use a pipeline"),
        ({"only": "PER"}, "`only=PER`: the text has no entities or spans"),
    ],
)
def test_refused(folder, tiny_weights, settings, message):
    with pytest.raises(ValueError, match=message):
        embed_corpus(str(tiny_weights), "text.txt", folder / "out.parquet", **settings)
    assert sorted(path.name for path in folder.iterdir()) == ["text.txt"]


@pytest.fixture
def nlp(folder, make_nlp):
    """A pipeline with two components that have learned."""
    nlp = make_nlp(store_layers=True, segmenter={"@segmenters": "spacy-elmo.doc.v1"})
    nlp.add_pipe("tagger", config=tagger(listener(layer_norm=True)))
    nlp.add_pipe("tagger", name="two", config=tagger(concat_both()))
    batch = examples(nlp)
    optimizer = nlp.initialize(lambda: batch)
    optimizer.learn_rate = 0.1
    for _ in range(5):
        nlp.update(batch, sgd=optimizer)
    nlp.to_disk("pipeline")
    (folder / "text.txt").write_text(TEXT + "\n", "utf8")
    return nlp


def mixed(layers, mix):
    """Equation 1 of Peters et al. (2018), in float64."""
    layers = layers.astype("float64")
    if mix.attrs["layer_norm"]:
        centred = layers - layers.mean(axis=2, keepdims=True)
        layers = centred / np.sqrt((centred**2).mean(axis=2, keepdims=True) + 1e-12)
    exponentials = np.exp(mix.get_param("weights").astype("float64"))
    weights = exponentials / exponentials.sum()
    return mix.get_param("gamma")[0] * np.einsum("l,lnw->nw", weights, layers)


@pytest.mark.parametrize(
    ("name", "component", "number"),
    [("tagger", "tagger", 0), ("two:0", "two", 0), ("two:1", "two", 1)],
)
def test_learned_mix(folder, nlp, name, component, number):
    embed_corpus("pipeline", "text.txt", folder / "out.npz", layers=f"mix:{name}")
    mix = mixes_of(nlp.get_pipe(component).model)[number]
    assert np.ptp(mix.get_param("weights")) > 1e-3  # it has learned something
    expected = mixed(nlp(TEXT)._.elmo, mix)
    np.testing.assert_allclose(read("npz", folder / "out.npz")[0], expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", ["two", "two:2", "elmo"])
def test_no_such_mix(folder, nlp, name):
    message = f"'{name}'. Give one of mix:tagger:0, mix:tagger, mix:two:0, mix:two:1"
    with pytest.raises(ValueError, match=message):
        embed_corpus("pipeline", "text.txt", folder / "out.npz", layers=f"mix:{name}")


def test_one_layer(folder, nlp):
    for layer in (0, 2):
        embed_corpus("pipeline", "text.txt", folder / f"{layer}.npz", layers=str(layer))
        found = read("npz", folder / f"{layer}.npz")[0]
        np.testing.assert_allclose(found, nlp(TEXT)._.elmo[layer], rtol=0, atol=1e-5)
    with pytest.raises(ValueError, match="a number from 0 to 2 or mix:PIPE, got '3'"):
        embed_corpus("pipeline", "text.txt", folder / "3.npz", layers="3")


@pytest.mark.parametrize(
    ("mix", "weights"),
    [("top", [0, 0, 1]), ("average", [1 / 3] * 3), (1, [0, 1, 0]), ([0.5, 0, 2], [0.5, 0, 2])],
)
def test_the_pipe_s_own_mix(folder, make_nlp, mix, weights):
    """By default, and known by what it is: the same as where that is named."""
    make_nlp(mix=mix).to_disk("own")
    (folder / "text.txt").write_text(TEXT + "\n", "utf8")
    embed_corpus("own", "text.txt", folder / "own.npz")
    embed_corpus("own", "text.txt", folder / "all.npz", layers="all")
    found, layers = (read("npz", folder / f"{name}.npz")[0] for name in ("own", "all"))
    expected = np.einsum("l,lnw->nw", weights, layers.astype("float64"))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
    if not isinstance(mix, list):
        settings = [Embedder("own", layers=name).describe() for name in ("vector", str(mix))]
        assert settings[0] == settings[1]
