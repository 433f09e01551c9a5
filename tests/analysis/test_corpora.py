"""Samples of annotated corpora: each item has its label and the mean of its tokens' vectors."""

from functools import partial

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc, DocBin, Span

from spacy_elmo.analysis.corpora import check_inputs, parse_task, read_sample, select_input

from helpers.models import check_refused

VOCAB = spacy.blank("en").vocab
TEXTS = ["the cat sat .", "", "a dog", "dogs run far away today", "stop"]


def write(path, texts=TEXTS):
    docs = []
    for text in texts:
        words = text.split()
        doc = Doc(VOCAB, words=words, tags=[word[:1].upper() for word in words])
        doc.spans["pairs"] = [Span(doc, i, i + 2, "P") for i in range(0, len(words) - 1, 2)]
        doc.cats = {"short": float(len(words) < 3), "long": float(len(words) >= 3)}
        docs.append(doc)
    DocBin(docs=docs).to_disk(path)
    return docs


@pytest.mark.pipelines
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


@pytest.mark.pipelines
def test_limit_draws_docs_until_there_are_enough_items(tmp_path, nlp):
    """Docs are drawn until there are enough; the last one gives its first items."""
    docs = write(tmp_path / "a.spacy", [f"{i}a {i}b {i}c" for i in range(40)])

    def sample(**how):
        return read_sample(nlp, tmp_path / "a.spacy", parse_task("tag"), **how)

    samples = [sample(limit=10, seed=seed) for seed in range(3)]
    for one in samples:
        assert len(one) == 10
        assert sum(doc[-1].text in one.words for doc in docs) == 3
        assert sum(word.endswith("a") for word in one.words) == 4
        assert [int(word[:-1]) for word in one.words] == sorted(int(w[:-1]) for w in one.words)
    assert len({tuple(one.words) for one in samples}) == 3
    again = sample(limit=10, seed=2)
    assert (again.words, again.layers.tobytes()) == (one.words, one.layers.tobytes())
    assert [len(sample(limit=limit)) for limit in (0, 120, 500)] == [120] * 3


@pytest.mark.pipelines
def test_unreadable_corpora_are_named(tmp_path, nlp):
    write(tmp_path / "a.spacy")
    DocBin().to_disk(tmp_path / "empty.spacy")
    (tmp_path / "broken.spacy").write_bytes(b"no DocBin")
    (tmp_path / "text.txt").write_text("a b")
    for name, task, message in [
        ("a.spacy", "pos", "a.spacy: no token has a label for the task 'pos'"),
        ("a.spacy", "spans:x", "'spans:x'. Its span groups: pairs"),
        ("empty.spacy", "tag", "empty.spacy contains no Docs"),
        ("broken.spacy", "tag", "broken.spacy is not a .spacy file, or it is broken"),
        ("text.txt", "tag", "text.txt is not a .spacy file"),
        ("missing.spacy", "tag", "no corpus at "),
    ]:
        read = partial(read_sample, nlp, tmp_path / name, parse_task(task))
        check_refused(read, name, message)
    check_refused(partial(read, limit=-1), "at least 0, got -1")


def test_inputs_select_layers():
    layers = np.arange(24, dtype="float32").reshape(3, 4, 2)
    assert check_inputs(None, 2) == ["0", "1", "2", "average"]
    np.testing.assert_array_equal(select_input(layers, "1"), layers[1])
    np.testing.assert_allclose(select_input(layers, "average"), layers.mean(axis=0))
    np.testing.assert_array_equal(select_input(layers, "concat"), np.hstack(layers))
    check_inputs(["2", "concat"], 2)
    for names, message in [
        (["3"], "no layer '3'. This model has 0, 1, 2"),
        ([], "no layer ''"),
        (["1", "1"], "'1' is given twice"),
    ]:
        check_refused(partial(check_inputs, names, 2), message)


# Labels


WORDS = ["New", "York", "sleeps", "."]
LABELS = {
    "tag": ["NNP", "NNP", "VBZ", ""],
    "pos": ["PROPN", "PROPN", "VERB", "PUNCT"],
    "dep": ["compound", "nsubj", "ROOT", "punct"],
    "ent": ["B-GPE", "I-GPE", "O", ""],
}


def make_doc(**cats):
    annotations = {f"{kind}s" if kind != "pos" else kind: found for kind, found in LABELS.items()}
    doc = Doc(VOCAB, words=WORDS, heads=[1, 2, 2, 2], **annotations)
    doc.spans["places"] = [Span(doc, 0, 2, "CITY"), Span(doc, 2, 3)]
    doc.cats = cats
    return doc


def test_tokens_without_annotation_are_left_out():
    doc = make_doc(a=0.2, b=1.0)
    expected = {
        "spans:places": [(0, 2, "CITY", "New York")],
        "senses:places": [(0, 2, "CITY", "new york")],
        "spans:other": [],
        "cats": [(0, 4, "b", "")],
    }
    for task, labels in LABELS.items():
        rows = enumerate(zip(labels, WORDS))
        expected[task] = [(i, i + 1, label, word) for i, (label, word) in rows if label]
    blank, empty = Doc(VOCAB, words=["a", "b"]), Doc(VOCAB)
    empty.cats = {"a": 1.0}
    for task, items in expected.items():
        assert parse_task(task).items(doc) == items
        assert parse_task(task).items(blank) == parse_task(task).items(empty) == []
    assert [parse_task(name).is_senses for name in ("spans:x", "senses:x")] == [False, True]
    for value in (0.0, 1.0):
        check_refused(partial(parse_task("cats").items, make_doc(a=value, b=value)), "exactly one")


@pytest.mark.parametrize("name", ["", "lemma", "tag:x", "cats:x", "spans", "spans:", "senses"])
def test_unknown_tasks_are_refused(name):
    check_refused(lambda: parse_task(name), f"no task '{name}'. Give tag, pos")
