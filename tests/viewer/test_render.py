"""`render` in Python: its pages have the places, cosines and mixes of the vectors."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
import spacy

pytest.importorskip("sklearn")

from spacy_elmo.viewer import render

from helpers import shown_pages
from helpers.components import listener, tagger

pytestmark = pytest.mark.pipelines

TEXTS = [
    "the river bank is green .",
    "a bank of mud by the river",
    "the bank lends money",
    "my bank has my money",
    "no word of it",
    "a bank and a bank",
]


@pytest.fixture
def nlp(make_nlp):
    return make_nlp(store_layers=True)


@pytest.fixture
def docs(nlp):
    return list(nlp.pipe(TEXTS))


def vectors_of(docs):
    """Return the vectors of *bank*: the layers, and the mix."""
    banks = [(doc, token.i) for doc in docs for token in doc if token.text == "bank"]
    layers = np.stack([doc._.elmo[:, i] for doc, i in banks], axis=1)
    return [*layers, np.stack([doc.tensor[i] for doc, i in banks])]


def section_of(shown, **settings):
    """The only section of a page."""
    data = shown_pages.data_of(render(shown, jupyter=False, **settings))
    shown_pages.check(data)
    (section,) = data["sections"]
    return section


def cosines(one, other):
    return one @ other.T / np.linalg.norm(one, axis=1)[:, None] / np.linalg.norm(other, axis=1)


def test_senses_of_a_word(docs):
    section = section_of(docs, word=["bank", "money", "river", "lends", "sea"])
    assert section["views"] == ["layer 0", "layer 1", "layer 2", "mix"]
    bank, money, river, lends, sea = section["words"]
    assert [word["total"] for word in section["words"]] == [6, 2, 2, 1, 0]
    assert bank["before"][:2] == ["the river", "a"]
    assert bank["after"][:2] == ["is green .", "of mud by the river"]
    assert bank["itself"] == ["bank"] * 6
    for view, vectors in zip(bank["views"], vectors_of(docs), strict=True):
        every = cosines(vectors, vectors)
        near = shown_pages.numbers(view["neighbors"]).reshape(6, 5)
        shown = shown_pages.fractions(view["cosines"]).reshape(6, 5)
        np.testing.assert_allclose(shown, np.take_along_axis(every, near, axis=1), atol=1e-4)
        assert (np.diff(shown, axis=1) <= 1e-4).all()
        assert np.sort(near).tolist() == [[j for j in range(6) if j != i] for i in range(6)]
    assert "does not see the context" in bank["views"][0]["facts"]
    assert not shown_pages.fractions(bank["views"][0]["places"]).any()
    assert [row[0] for row in bank["table"]["rows"]] == section["views"]
    assert lends["notice"] == "“lends” occurs only once here: there is nothing to compare it with."
    assert sea["notice"] == "“sea” does not occur in this text."
    assert money["views"] and river["views"]


def test_places_are_the_components_aligned(docs):
    (word,) = section_of(docs, word="bank")["words"]
    shown = [shown_pages.fractions(view["places"]).reshape(6, 2) for view in word["views"]]
    for layer in (1, 2):
        vectors = vectors_of(docs)[layer].astype("float64")
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        left, lengths, _ = np.linalg.svd(vectors - vectors.mean(0), full_matrices=False)
        # Turned or not, the distances are those of the two components.
        both = shown[layer], (left * lengths)[:, :2]
        distances = [np.linalg.norm(each[:, None] - each[None], axis=2) for each in both]
        np.testing.assert_allclose(*(each / each.max() for each in distances), atol=1e-3)
        share = (lengths[:2] ** 2).sum() / (lengths**2).sum()
        assert f"{share:.1%} of the variance" in word["views"][layer]["facts"]
    # Layer 2 cannot be turned nearer to layer 1.
    turn = shown[2].T @ shown[1]
    np.testing.assert_allclose(turn, turn.T, atol=1e-3)


def test_gold_senses_and_options_are_passed_on(docs):
    for doc, label in zip(docs, ["shore", "shore", "money", "money", "", "row"]):
        banks = [t.i for t in doc if t.text == "bank"]
        doc.spans["senses"] = [spacy.tokens.Span(doc, i, i + 1, label) for i in banks]
    options = {"gold": "spans:senses", "limit": 5, "projection": "tsne", "seed": 3}
    (word,) = section_of(docs, word="bank", options=options)["words"]
    assert (word["total"], len(word["before"])) == (6, 5)
    by_sense, by_group = word["views"][3]["colorings"]
    assert by_sense["labels"] == ["money", "row", "shore"]
    named = [by_sense["labels"][number] for number in shown_pages.numbers(by_sense["of"])]
    assert named[:2] == ["shore", "shore"]
    assert by_group["kind"] == "group"
    assert word["table"]["heads"][-2:] == ["purity", "adjusted Rand index"]
    assert "5 of 6 occurrences, drawn evenly" in word["views"][3]["facts"]


def test_docs_without_layers_or_tensor(nlp, make_nlp):
    """spaCy's `doc_cleaner` removes the tensor; the layers are shown."""
    assert section_of(list(make_nlp().pipe(TEXTS)), word="bank")["views"] == ["vectors"]
    nlp.add_pipe("doc_cleaner", config={"attrs": {"tensor": None}})
    section = section_of(list(nlp.pipe(TEXTS)), word="bank")
    assert section["views"] == ["layer 0", "layer 1", "layer 2"]
    assert section["words"][0]["total"] == 6


def test_heat_shows_the_cosines_of_two_sentences(docs):
    one, two = docs[0], docs[2]
    section = section_of([one, two], style="heat")
    assert section["rows"] == [token.text for token in one]
    *layers, mix = [shown_pages.fractions(text).reshape(6, 4) for text in section["cosines"]]
    for shown, ours, theirs in zip(layers, one._.elmo, two._.elmo, strict=True):
        np.testing.assert_allclose(shown, cosines(ours, theirs), atol=1e-4)
    assert mix[2, 1] == pytest.approx(one[2].similarity(two[1]), abs=1e-4)


@pytest.mark.training
def test_mix_shows_the_weights_of_each_component(nlp):
    assert "No component mixes" in section_of(nlp, style="mix")["note"]
    nlp.add_pipe("tagger", config=tagger(listener())).add_label("NN")
    nlp.initialize()
    rows = section_of(nlp, style="mix")["rows"]
    name = "tagger (gamma 1.000)"
    assert [row["names"] for row in rows] == [[name, f"layer {number}"] for number in range(3)]
    assert [row["figure"] for row in rows] == ["0.333"] * 3


def test_a_notebook_shows_a_frame(docs, monkeypatch):
    shown = []
    display = SimpleNamespace(HTML=lambda text: text, display=shown.append)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(display=display))
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    assert render(docs, word="bank", jupyter=True) is None
    assert render(docs, word="bank", jupyter=False, page=False) == shown[0]
    assert shown[0].startswith("<iframe srcdoc=")


def test_bad_input_is_refused(nlp, docs):
    for shown, settings, message in (
        (docs, {}, "Give one: word='bank'"),
        (docs, {"style": "sense", "word": "bank"}, "'senses', 'heat' or 'mix'"),
        (docs, {"style": "heat"}, "two Docs, got 6"),
        (docs, {"style": "mix"}, "Give the nlp object"),
        (docs, {"word": "bank", "options": {"projection": "umap"}}, "'pca' or 'tsne'"),
        (spacy.blank("en")("my bank"), {"word": "bank"}, "no contextual vectors"),
        (nlp, {"word": "bank"}, "not a pipeline"),
    ):
        with pytest.raises(ValueError, match=message):
            render(shown, jupyter=False, **settings)
