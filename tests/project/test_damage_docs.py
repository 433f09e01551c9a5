"""Damaged copies of gold Docs have the spellings of archives, and keep their entities."""

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc, DocBin

from helpers.project_scripts import call, docs
from scripts.data import damage_docs

SENTENCES = (
    "Viele O|Deutsche O|sahen O|Schloß B-LOC|Königsberg I-LOC|. O",
    "Dr B-PER|. I-PER|Außerhausen I-PER|sprach O|! O",
    "Die O|Änderungen O|der O|österreichischen O|Landesregierung B-ORG|waren O|groß O",
)


@pytest.fixture(scope="module")
def golds():
    vocab = spacy.blank("de").vocab
    rows = [[pair.split() for pair in sentence.split("|")] for sentence in SENTENCES]
    return [Doc(vocab, words=[w for w, _ in row], ents=[t for _, t in row]) for row in rows]


def change(golds, *names, seed=0):
    return damage_docs.damage(golds, names, np.random.default_rng(seed))


def entities(doc):
    return [(ent.text, ent.label_) for ent in doc.ents]


def test_nothing_is_changed_without_a_name(golds):
    doc = change(golds)
    assert doc.text == "".join(gold.text for gold in golds)
    assert entities(doc) == [pair for gold in golds for pair in entities(gold)]


def test_punctuation_at_the_ends_of_an_entity_is_not_in_it(golds):
    """Punctuation is a token of its own in running text, but initials keep their marks."""
    words = ["(Wien,", "sagt", "Anna", "M.", "-", "Graf.", ";", "?"]
    tags = ["B-LOC", "O", "B-PER", "I-PER", "I-PER", "I-PER", "I-PER", "B-ORG"]
    doc = change([Doc(golds[0].vocab, words=words, ents=tags)])
    assert doc.text == "( Wien , sagt Anna M. - Graf . ; ? "
    assert entities(doc) == [("Wien", "LOC"), ("Anna M. - Graf", "PER")]


@pytest.mark.parametrize(
    ("name", "number", "expected"),
    [
        ("no sentence marks", 0, "Viele Deutsche sahen Schloß Königsberg"),
        ("no sentence marks", 1, "Dr . Außerhausen sprach"),  # A mark in an entity stays.
        ("long s", 0, "Viele Deut\u017fche \u017fahen Schloß König\u017fberg ."),
        ("ae, oe, ue", 2, "Die Aenderungen der oesterreichischen Landesregierung waren groß"),
        (
            "small e",
            2,
            "Die A\u0364nderungen der o\u0364sterreichischen Landesregierung waren groß",
        ),
        ("capitals", 1, "DR . AUSSERHAUSEN SPRACH !"),
    ],
)
def test_a_change_of_words(golds, name, number, expected):
    doc = change([golds[number]], name)
    assert doc.text.strip() == expected
    assert [label for _, label in entities(doc)] == [label for _, label in entities(golds[number])]


def test_lines_have_a_width_and_cut_words_between_syllables(golds):
    n_cuts = 0
    for seed in range(20):
        doc = change(golds, "lines", seed=seed)
        lines = doc.text.split("\n")
        assert len(lines) > 1
        assert max(len(line.rstrip()) for line in lines) <= damage_docs.LINE_WIDTHS[1]
        marks = "".join(damage_docs.CUT_MARKS)
        cuts = [line[-1] for line in lines[:-1] if line[-1] in marks]
        assert len(set(cuts)) <= 1  # A text has one kind of mark.
        n_cuts += len(cuts)
        whole = doc.text
        for mark in set(cuts):
            whole = whole.replace(f"{mark}\n", "")
        assert whole.replace("\n", " ").split() == [t.text for gold in golds for t in gold]
    assert n_cuts > 10


def test_both_pieces_of_a_cut_word_belong_to_its_entity(golds, monkeypatch):
    monkeypatch.setattr(damage_docs, "LINE_WIDTHS", (43, 43))
    monkeypatch.setattr(damage_docs, "CUT_MARKS", ("=",))
    doc = change(golds[2:], "lines", "capitals")
    assert entities(doc) == [("LANDES=\nREGIERUNG", "ORG")]
    assert [token.text for token in doc.ents[0]] == ["LANDES=", "\n", "REGIERUNG"]
    # spaCy's tokenizer makes the same tokens of the text.
    assert [t.text for t in spacy.blank("de")(doc.text)] == [t.text for t in doc]


def test_a_line_break_before_an_entity_is_not_in_it(golds, monkeypatch):
    monkeypatch.setattr(damage_docs, "LINE_WIDTHS", (23, 23))
    doc = change(golds[:1], "lines")
    assert doc.text == "Viele Deutsche sahen\nSchloß Königsberg . "
    assert entities(doc) == entities(golds[0])


def test_copies_follow_the_docs_and_depend_only_on_the_seed(golds, here):
    many = golds * 60
    DocBin(docs=many).to_disk("gold.spacy")
    for name, seed in (("one", 0), ("same", 0), ("other", 1)):
        call("data.damage_docs", f"{name}.spacy", "gold.spacy", "--seed", seed)
    one, same, other = (docs(f"{name}.spacy") for name in ("one", "same", "other"))
    texts = [[doc.text for doc in found] for found in (one, same, other)]
    assert texts[0] == texts[1] != texts[2]
    assert texts[0][: len(many)] == [gold.text for gold in many]
    copies = one[len(many) :]
    assert sum(len(doc.ents) for doc in copies) == sum(len(gold.ents) for gold in many)
    text = " ".join(doc.text for doc in copies)
    for sign in (damage_docs.LONG_S, damage_docs.SMALL_E, "oester", "\n", "LANDES"):
        assert sign in text
    call("data.damage_docs", "plain.spacy", "gold.spacy", "--copies", 0)
    assert len(docs("plain.spacy")) == len(many)


def test_a_doc_of_marks_leaves_no_copy(golds):
    marks = Doc(golds[0].vocab, words=["."])
    rng = np.random.default_rng(0)
    assert all(len(doc) for _ in range(20) for doc in damage_docs.damaged_copies([marks], rng))
