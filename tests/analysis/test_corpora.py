import numpy as np
import pytest
import spacy
from spacy.tokens import Doc, DocBin, Span

from spacy_elmo.analysis.corpora import (
    LabeledItem,
    check_inputs,
    parse_task,
    read_sample,
    select_input,
)

TEXTS = ["the cat sat .", "", "a dog", "dogs run far away today", "stop"]


def write(path, texts=TEXTS):
    vocab = spacy.blank("en").vocab
    docs = []
    for text in texts:
        words = text.split()
        doc = Doc(vocab, words=words, tags=[word[:1].upper() for word in words])
        doc.spans["pairs"] = [Span(doc, i, i + 2, "P") for i in range(0, len(words) - 1, 2)]
        doc.cats = {"short": float(len(words) < 3), "long": float(len(words) >= 3)}
        docs.append(doc)
    DocBin(docs=docs).to_disk(path)
    return docs


@pytest.fixture
def nlp(make_nlp):
    return make_nlp()


def test_items_and_their_vectors(tmp_path, nlp):
    docs = [doc for doc in write(tmp_path / "a.spacy") if len(doc)]
    pipe = nlp.get_pipe("elmo")
    layers = {doc.text: pipe.predict([doc])[0] for doc in docs}
    for task, units in {
        "tag": [(doc, i, i + 1) for doc in docs for i in range(len(doc))],
        "spans:pairs": [(doc, span.start, span.end) for doc in docs for span in doc.spans["pairs"]],
        "cats": [(doc, 0, len(doc)) for doc in docs],
    }.items():
        sample = read_sample(nlp, tmp_path / "a.spacy", parse_task(task))
        expected = np.stack([layers[doc.text][:, i:j].mean(axis=1) for doc, i, j in units], 1)
        assert sample.layers.dtype == np.float32
        np.testing.assert_allclose(sample.layers, expected, atol=1e-5)
        assert len(sample) == len(units)
    assert sample.labels == ["long", "short", "long", "short"]
    assert read_sample(nlp, tmp_path, parse_task("tag")).words[:4] == ["the", "cat", "sat", "."]


def test_limit(tmp_path, nlp):
    """Docs are drawn until there are enough; the last one gives its first items."""
    docs = write(tmp_path / "a.spacy", [f"{i}a {i}b {i}c" for i in range(40)])
    seen = set()
    for seed in range(3):
        one, two = (
            read_sample(nlp, tmp_path / "a.spacy", parse_task("tag"), limit=10, seed=seed)
            for _ in range(2)
        )
        assert len(one) == 10
        assert one.layers.tobytes() == two.layers.tobytes()
        assert one.words == two.words
        whole = {doc.text for doc in docs if doc[-1].text in one.words}
        assert len(whole) == 3
        assert sum(word.endswith("a") for word in one.words) == 4
        assert [int(word[:-1]) for word in one.words] == sorted(int(w[:-1]) for w in one.words)
        seen.add(tuple(one.words))
    assert len(seen) == 3
    for limit in (0, 120, 500):
        task = parse_task("tag")
        assert len(read_sample(nlp, tmp_path / "a.spacy", task, limit=limit)) == 120


def test_what_cannot_be_read(tmp_path, nlp):
    write(tmp_path / "a.spacy")
    DocBin().to_disk(tmp_path / "empty.spacy")
    (tmp_path / "broken.spacy").write_bytes(b"no DocBin")
    (tmp_path / "text.txt").write_text("a b")
    for name, task, message in [
        ("a.spacy", "pos", r"a\.spacy: no token has a label for the task 'pos'"),
        ("a.spacy", "spans:x", r"a\.spacy: no span .* 'spans:x'. Its span groups: pairs"),
        ("empty.spacy", "tag", r"empty\.spacy contains no Docs"),
        ("broken.spacy", "tag", r"broken\.spacy is not a \.spacy file, or it is broken"),
        ("text.txt", "tag", r"text\.txt is not a \.spacy file"),
        ("missing.spacy", "tag", r"no corpus at .*missing\.spacy"),
    ]:
        with pytest.raises(ValueError, match=message):
            read_sample(nlp, tmp_path / name, parse_task(task))
    with pytest.raises(ValueError, match="at least 0, got -1"):
        read_sample(nlp, tmp_path / "a.spacy", parse_task("tag"), limit=-1)


def test_inputs():
    layers = np.arange(24, dtype="float32").reshape(3, 4, 2)
    assert check_inputs(None, 2) == ["0", "1", "2", "average"]
    np.testing.assert_array_equal(select_input(layers, "1"), layers[1])
    np.testing.assert_allclose(select_input(layers, "average"), layers.mean(axis=0))
    side_by_side = select_input(layers, "concat")
    assert side_by_side.shape == (4, 6)
    np.testing.assert_array_equal(side_by_side[2], [*layers[0, 2], *layers[1, 2], *layers[2, 2]])
    check_inputs(["2", "concat"], 2)
    for names, message in [
        (["3"], "no layer '3'. This model has 0, 1, 2"),
        (["top"], "no layer 'top'"),
        ([], "no layer ''"),
        (["1", "1"], "'1' is given twice"),
    ]:
        with pytest.raises(ValueError, match=message):
            check_inputs(names, 2)


# Labels


VOCAB = spacy.blank("en").vocab


def make_doc():
    doc = Doc(
        VOCAB,
        words=["New", "York", "sleeps", "."],
        tags=["NNP", "NNP", "VBZ", ""],
        pos=["PROPN", "PROPN", "VERB", "PUNCT"],
        heads=[1, 2, 2, 2],
        deps=["compound", "nsubj", "ROOT", "punct"],
        ents=["B-GPE", "I-GPE", "O", ""],
    )
    doc.spans["places"] = [Span(doc, 0, 2, "CITY"), Span(doc, 2, 3)]
    doc.cats = {"a": 0.2, "b": 1.0}
    return doc


@pytest.mark.parametrize(
    ("task", "labels"),
    [
        ("tag", ["NNP", "NNP", "VBZ"]),
        ("pos", ["PROPN", "PROPN", "VERB", "PUNCT"]),
        ("dep", ["compound", "nsubj", "ROOT", "punct"]),
        ("ent", ["B-GPE", "I-GPE", "O"]),
    ],
)
def test_labels_of_tokens(task, labels):
    """What is not annotated is left out."""
    words = ["New", "York", "sleeps", "."]
    expected = [LabeledItem(i, i + 1, label, words[i]) for i, label in enumerate(labels)]
    assert parse_task(task).items(make_doc()) == expected


def test_labels_of_spans_and_docs():
    doc = make_doc()
    assert parse_task("spans:places").items(doc) == [LabeledItem(0, 2, "CITY", "New York")]
    assert parse_task("senses:places").items(doc) == [LabeledItem(0, 2, "CITY", "new york")]
    assert parse_task("spans:other").items(doc) == []
    assert parse_task("cats").items(doc) == [LabeledItem(0, 4, "b", "")]
    assert [parse_task(name).is_senses for name in ("spans:x", "senses:x")] == [False, True]


def test_nothing_is_labelled():
    blank = Doc(VOCAB, words=["a", "b"])
    for task in ("tag", "pos", "dep", "ent", "cats", "spans:x"):
        assert parse_task(task).items(blank) == []
    empty = Doc(VOCAB)
    empty.cats = {"a": 1.0}
    assert parse_task("cats").items(empty) == []


@pytest.mark.parametrize("cats", [{"a": 1.0, "b": 1.0}, {"a": 0.0, "b": 0.0}])
def test_several_categories_or_none(cats):
    doc = make_doc()
    doc.cats = cats
    with pytest.raises(ValueError, match="exactly one"):
        parse_task("cats").items(doc)


@pytest.mark.parametrize("name", ["", "lemma", "tag:x", "cats:x", "spans", "spans:", "senses"])
def test_unknown_tasks(name):
    with pytest.raises(ValueError, match=f"no task '{name}'. Give tag, pos"):
        parse_task(name)
