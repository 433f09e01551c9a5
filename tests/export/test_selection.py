"""Smaller outputs: means, chosen tokens, int8, and learned mixes, each against all vectors."""

import json
import warnings

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st
from spacy.language import Language
from spacy.tokens import Doc, DocBin, Span

from spacy_elmo.export import Embedder
from spacy_elmo.export.selection import SpanSelector
from spacy_elmo.layers.scalar_mix import mixes_of

from helpers.components import concat_both, listener, tagger
from helpers.embedded import embed_corpus
from helpers.rounding import check_close
from helpers.trained import trained
from helpers.written_vectors import TEXT, read

WORDS = ["Maria", "lends", "Ann", "money", ".", "It", "helps", ".", "Ann", "agrees"]
ENTS = [(0, 1, "PER"), (2, 4, "LOAN"), (8, 9, "PER")]
SENTENCES = [(0, 5), (5, 8), (8, 10)]


@pytest.fixture
def docs(folder):
    """Save a Doc with all annotations, one without tokens, and one without nouns and entities."""
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
    """Return a function that writes a Parquet file and returns its rows."""

    def run(**settings):
        embed_corpus(str(tiny_weights), docs, folder / "out.parquet", force=True, **settings)
        return pq.read_table("out.parquet").to_pylist()

    return run


# Settings, and the spans with vectors in the first Doc and in the third.
SELECTIONS = [
    ({"pool": "doc"}, [(0, 10, "")], [(0, 2, "")]),
    ({"pool": "sentence"}, [(*at, "") for at in SENTENCES], [(0, 2, "")]),
    ({"pool": "span", "only": "ents"}, ENTS, []),
    ({"only": "ents"}, [(0, 1, "PER"), (2, 3, "LOAN"), (3, 4, "LOAN"), (8, 9, "PER")], []),
    ({"only": "PER"}, [ENTS[0], ENTS[2]], []),
    ({"only": "nouns,LOAN"}, [(0, 1, "PROPN"), (2, 3, ...), (3, 4, ...), (8, 9, "PROPN")], []),
    ({"pool": "span", "only": "PER,ROLE"}, [ENTS[0], (1, 3, "ROLE"), (5, 7, "ROLE"), ENTS[2]], []),
]


@pytest.mark.corpora
@pytest.mark.parametrize("layers", ["average", "all"])
def test_means_equal_the_means_of_all_vectors(rows, layers):
    everything = rows(layers=layers)
    names = [name for name in everything[0] if name.startswith(("vectors", "layer_"))]
    assert len(names) == (3 if layers == "all" else 1)
    for settings, expected, others in SELECTIONS:
        found = rows(layers=layers, **settings)
        assert [row["index"] for row in found] == [0, 1, 2]
        for row, whole, places in zip(found, everything, [expected, [], others], strict=True):
            spans = list(zip(row["starts"], row["ends"], row["labels"], strict=True))
            assert [span[:2] for span in spans] == [place[:2] for place in places]
            assert all(one[2] == two[2] for one, two in zip(spans, places) if two[2] is not ...)
            assert row["tokens"] == [" ".join(whole["tokens"][a:b]) for a, b, _ in places]
            for name in names:
                wanted = [np.mean(np.array(whole[name])[a:b], axis=0) for a, b, _ in places]
                check_close(row[name], wanted)


@pytest.mark.corpora
def test_means_of_chosen_tokens_leave_out_other_sentences(rows):
    vectors = np.array(rows()[0]["vectors"])
    [found, *_] = rows(pool="sentence", only="PER")
    assert list(zip(found["starts"], found["ends"])) == [SENTENCES[0], SENTENCES[2]]
    check_close(found["vectors"], vectors[[0, 8]])
    [found, _, none] = rows(pool="doc", only="ents")
    mean = vectors[[0, 2, 3, 8]].mean(axis=0)
    check_close(found["vectors"], [mean])
    assert none["vectors"] == []


@pytest.mark.corpora
def test_lines_are_pooled_as_sentences(folder, tiny_weights):
    for pool in (None, "sentence"):
        embed_corpus(str(tiny_weights), "text.txt", folder / f"{pool}.parquet", pool=pool)
    wholes, found = (pq.read_table(f"{pool}.parquet").to_pylist() for pool in (None, "sentence"))
    for row, whole in zip(found, wholes, strict=True):
        assert row["tokens"] == ([whole["text"]] if whole["text"] else [])
        wanted = [np.mean(whole["vectors"], axis=0)] if whole["tokens"] else []
        check_close(row["vectors"], wanted)


@pytest.fixture
def ruled(make_nlp):
    """Save a pipeline that labels Maria as PER."""
    nlp = make_nlp()
    nlp.add_pipe("entity_ruler").add_patterns([{"label": "PER", "pattern": "Maria"}])
    nlp.to_disk("pipeline")
    return nlp


@pytest.mark.pipelines
@pytest.mark.corpora
def test_components_after_elmo_set_annotations_to_select(folder, ruled):
    """Inputs are Docs, sentences and tables. Vectors do not change."""
    text = "It rains. Maria lends money."
    (folder / "x.jsonl").write_text(json.dumps({"text": text}) + "\n")
    (folder / "y.txt").write_text("Maria lends\n\nmoney\n")
    everything = ruled(text).tensor
    embed_corpus("pipeline", ["x.jsonl", "y.txt"], folder / "out", shards=2, only="PER")
    embedder = Embedder("pipeline", only="PER")
    found = embedder(pa.table({"text": [text, "Maria lends", "", "money"]}))
    for table in (pq.read_table("out"), found):
        rows = table.to_pylist()
        assert [row["tokens"] for row in rows] == [["Maria"], ["Maria"], [], []]
        assert [row["starts"] for row in rows] == [[3], [0], [], []]
        np.testing.assert_allclose(rows[0]["vectors"][0], everything[3], rtol=0, atol=1e-5)
    assert embedder(pa.table({"text": pa.array([], pa.string())})).schema.equals(found.schema)


@pytest.mark.pipelines
@pytest.mark.parametrize("settings", [{"only": "PER"}, {"pool": "sentence"}])
def test_sentences_set_after_elmo_do_not_change_vectors(folder, ruled, settings):
    """A selection sets sentences only after the Doc is segmented."""
    ruled.add_pipe("sentencizer", config={"punct_chars": ["."]})
    ruled.to_disk("pipeline")
    doc = ruled(text := "It rains ! Maria lends money . " * 40)  # longer than a window
    (row,) = Embedder("pipeline", **settings)(pa.table({"text": [text]})).to_pylist()
    spans = list(zip(row["starts"], row["ends"], strict=True))
    assert len(spans) == 40 if "only" in settings else len(spans) > 1
    wanted = [doc.tensor[start:end].mean(axis=0) for start, end in spans]
    np.testing.assert_allclose(row["vectors"], wanted, rtol=0, atol=1e-5)


@pytest.mark.pipelines
@pytest.mark.corpora
def test_labels_that_the_pipeline_does_not_set_are_refused(folder, ruled, docs):
    """Nothing is written. A component that does not say which labels it sets may set any, and so
    may Docs."""
    message = "^`only=VERB`: no component .* sets this label. Give one of ents, nouns, PER.$"
    before, path = sorted(folder.iterdir()), folder / "out.parquet"
    for shards in (None, 2):
        with pytest.raises(ValueError, match=message):
            embed_corpus("pipeline", "text.txt", path, only="PER,VERB", shards=shards)
    with pytest.raises(ValueError, match=message):
        Embedder("pipeline", only="VERB")(pa.table({"text": ["Maria"]}))
    assert sorted(folder.iterdir()) == before
    embed_corpus("pipeline", ["text.txt", docs], folder / "docs.parquet", only="ROLE")
    Language.component("of_a_user", func=lambda doc: doc)
    ruled.add_pipe("of_a_user")
    ruled.to_disk("pipeline")
    with pytest.warns(UserWarning, match="^`only=VERB`: no row has a token$"):
        embed_corpus("pipeline", "text.txt", path, only="VERB")


@pytest.mark.corpora
def test_docs_without_the_label_give_empty_rows_and_a_warning(rows, folder, docs, tiny_weights):
    """The labels of Docs are unknown until they are read."""
    nothing = "^`only=VERB`: no row has a token$"
    with pytest.warns(UserWarning, match=nothing):
        assert [row["tokens"] for row in rows(only="VERB")] == [[], [], []]
    with pytest.warns(UserWarning, match=nothing):
        embed_corpus(str(tiny_weights), docs, folder / "out", shards=1, only="VERB")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rows(only="VERB,PER")


@pytest.mark.corpora
@pytest.mark.parametrize("layers", ["average", "all"])
def test_int8_is_within_half_a_scale(folder, tiny_weights, layers):
    """Each vector has its own scale."""
    settings = {"model": str(tiny_weights), "inputs": "text.txt", "layers": layers}
    for dtype in ("float32", "int8"):
        for format in ("hdf5", "parquet"):
            embed_corpus(**settings, dtype=dtype, output=folder / f"{dtype}.{format}")
    names = ["vectors"] if layers == "average" else [f"layer_{i}" for i in range(3)]
    with h5py.File("int8.hdf5") as small, h5py.File("float32.hdf5") as large:
        for i, row in enumerate(pq.read_table("int8.parquet").to_pylist()):
            wanted = large[str(i)][()].reshape(len(names), -1, 12)
            numbers = small[str(i)][()].reshape(wanted.shape)
            assert numbers.dtype == "int8"
            for j, name in enumerate(names):
                suffix = name.removeprefix("vectors").removeprefix("layer")
                scales = small[str(i)].attrs[f"scales{suffix}"]
                assert scales.dtype == "float32"
                assert row[f"scales{suffix}"] == scales.tolist()
                assert np.array(row[name]).reshape(-1, 12).tolist() == numbers[j].tolist()
                np.testing.assert_allclose(scales, np.abs(wanted[j]).max(axis=1) / 127, rtol=1e-6)
                error = np.abs(numbers[j] * scales[:, None] - wanted[j])
                assert (error <= 0.501 * scales[:, None]).all()
                assert (np.abs(numbers[j]).max(axis=1) == 127).all()


@pytest.mark.corpora
def test_hdf5_contains_starts_ends_and_labels(folder, docs, tiny_weights):
    path = folder / "out.hdf5"
    embed_corpus(str(tiny_weights), docs, path, only="ents", pool="span", dtype="int8")
    with h5py.File(path) as file:
        assert file["0"].shape == (3, 12)
        assert list(zip(*(file["0"].attrs[name] for name in ("starts", "ends", "labels")))) == ENTS
        assert file["1"].shape == (0, 12)
        assert [len(file["1"].attrs[name]) for name in ("starts", "labels", "scales")] == [0, 0, 0]


@pytest.mark.corpora
def test_the_scales_of_a_long_doc_are_kept(folder, tiny_weights):
    """HDF5 stores more than 64 KB of them in another place."""
    (folder / "long.txt").write_text("a " * 20_000 + "\n")
    settings = {"dtype": "int8", "max_tokens": 20_000}
    embed_corpus(str(tiny_weights), "long.txt", folder / "out.hdf5", **settings)
    with h5py.File("out.hdf5") as file:
        assert file["0"].attrs["scales"].shape == (20_000,)


def mixed(layers, mix):
    """Compute equation 1 of Peters et al. (2018) in float64."""
    layers = layers.astype("float64")
    if mix.attrs["layer_norm"]:
        centred = layers - layers.mean(axis=2, keepdims=True)
        layers = centred / np.sqrt((centred**2).mean(axis=2, keepdims=True) + 1e-12)
    weights = np.exp(mix.get_param("weights").astype("float64"))
    mean = np.einsum("l,lnw->nw", weights, layers) / weights.sum()
    return mix.get_param("gamma")[0] * mean


@pytest.mark.training
@pytest.mark.pipelines
@pytest.mark.corpora
def test_learned_mixes_and_single_layers_equal_the_formula(folder, make_nlp):
    nlp = make_nlp(store_layers=True, segmenter={"@segmenters": "spacy-elmo.doc.v1"})
    trained(nlp, 9, tagger=tagger(listener(layer_norm=True)), tagger2=tagger(concat_both()))
    nlp.to_disk("pipeline")
    (folder / "text.txt").write_text(TEXT + "\n", "utf8")
    everything = nlp(TEXT)._.elmo
    expected = {"0": everything[0], "2": everything[2]}
    for name, number in (("tagger", 0), ("tagger2:0", 0), ("tagger2:1", 1)):
        mix = mixes_of(nlp.get_pipe(name.partition(":")[0]).model)[number]
        assert np.ptp(mix.get_param("weights")) > 1e-3  # it has learned something
        expected[f"mix:{name}"] = mixed(everything, mix)
    for layers, wanted in expected.items():
        embed_corpus("pipeline", "text.txt", folder / "out.npz", layers=layers, force=True)
        np.testing.assert_allclose(read("npz", folder / "out.npz")[0], wanted, rtol=0, atol=1e-5)
    for name in ("tagger2", "tagger2:2", "elmo"):
        message = f"'{name}'. Give one of mix:tagger:0, mix:tagger, mix:tagger2:0, mix:tagger2:1"
        with pytest.raises(ValueError, match=message):
            embed_corpus("pipeline", "text.txt", folder / "out.npz", layers=f"mix:{name}")


@pytest.mark.pipelines
@pytest.mark.corpora
@pytest.mark.parametrize(
    ("mix", "weights"),
    [("top", [0, 0, 1]), ("average", [1 / 3] * 3), (1, [0, 1, 0]), ([0.5, 0, 2], [0.5, 0, 2])],
)
def test_the_pipes_own_mix_is_the_default(folder, make_nlp, mix, weights):
    """A run that names the same mix is the same run."""
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


# Any Doc

VOCAB = spacy.blank("en").vocab
LABELS = ["PER", "LOAN", "ROLE"]


@st.composite
def annotated(draw):
    """Draw Docs with parts of speech, entities, sentences, and spans that overlap."""
    pos = draw(st.lists(st.sampled_from(["NOUN", "VERB", "PROPN"]), min_size=1, max_size=12))
    n = len(pos)
    starts = [True, *draw(st.lists(st.booleans(), min_size=n - 1, max_size=n - 1))]
    doc = Doc(VOCAB, words=[f"w{i}" for i in range(n)], pos=pos, sent_starts=starts)
    places = st.tuples(st.integers(0, n - 1), st.integers(1, 4), st.sampled_from(LABELS))
    spans = [
        Span(doc, start, min(n, start + length), label=label)
        for start, length, label in draw(st.lists(places, max_size=4))
    ]
    doc.ents = spacy.util.filter_spans(spans)
    doc.spans["roles"] = [
        Span(doc, start, min(n, start + length), label=label)
        for start, length, label in draw(st.lists(places, max_size=4))
    ]
    return doc


@given(
    doc=annotated(),
    pool=st.sampled_from([None, "sentence", "doc", "span"]),
    names=st.none() | st.sets(st.sampled_from(["ents", "nouns", *LABELS]), min_size=1).map(sorted),
)
def test_selected_tokens_are_those_in_the_spans(doc, pool, names):
    """Each token is compared: whether a span of `only` contains it, and its position."""
    if pool == "span" and names is None:
        return
    found = SpanSelector(pool, names and ",".join(names))(doc) if pool or names else None
    spans = {(s.start, s.end, s.label_) for s in doc.ents if {"ents", s.label_} & {*(names or ())}}
    spans |= {(s.start, s.end, s.label_) for s in doc.spans["roles"] if s.label_ in (names or ())}
    if "nouns" in (names or ()):
        spans |= {(t.i, t.i + 1, t.pos_) for t in doc if t.pos_ != "VERB"}
    chosen = [i for i in range(len(doc)) if any(start <= i < end for start, end, _ in spans)]
    if names is None:
        chosen = list(range(len(doc)))
    if pool == "span":
        assert {(one.start, one.end, one.label) for one in found} == spans
        assert all([*one.tokens] == [*range(one.start, one.end)] for one in found)
        assert len(found) == len(spans)
    elif pool is None and names:
        assert [[*one.tokens] for one in found] == [[i] for i in chosen]
        for one in found:
            assert any(
                start <= one.start < end and label == one.label for start, end, label in spans
            )
    elif pool:
        wholes = [doc[:]] if pool == "doc" else list(doc.sents)
        parts = [(w, [i for i in chosen if w.start <= i < w.end]) for w in wholes]
        wanted = [(w.start, w.end, w.text, tokens) for w, tokens in parts if tokens]
        assert [(one.start, one.end, one.text, [*one.tokens]) for one in found] == wanted
