"""Scores on damaged text: the damage, what stays, and scores that are known in advance."""

import json

import pytest
import spacy
from spacy.tokens import Doc, DocBin, Span
from spacy.training import Example

from spacy_elmo.analysis.robustness import make_damage, measure_robustness, replace_words

from helpers import shown_pages
from helpers.commands import run_elmo, shown_by
from helpers.components import annotated


@pytest.mark.parametrize(
    ("lang", "word", "forms"),
    [
        ("en", "us", "ys is hs js ua uw ue ud ux uz"),
        ("en", "Z", "A S X"),
        ("de", "z", "t u g h"),
        ("de", "ü", "p ö ä"),
        ("xx", "42", ""),
    ],
)
def test_keyboard_damage_takes_neighboring_keys(lang, word, forms):
    assert sorted(make_damage("keyboard", lang)(word)) == sorted(forms.split())


def test_ocr_damage_takes_similar_letters():
    damage = make_damage("ocr", "de")
    assert {"Hans", "Hauf", "Hous"} <= set(damage("Haus"))
    assert {"modem", "rnodern", "modcrn"} <= set(damage("modern"))
    assert "mussen" in damage("mu\u0364ssen")
    assert "daf" in damage("da\u017f")
    assert {"Grosse", "GroBe", "Grofe"} & set(damage("Gro\u00dfe")) == {"GroBe"}
    assert damage("1914") == []


def test_misspellings_keep_the_case():
    damage = make_damage("misspellings", "en")
    lower = damage("between")
    assert lower and "between" not in lower
    assert damage("Between") == [form.capitalize() for form in lower]
    assert damage("BETWEEN") == [form.upper() for form in lower]
    assert damage("bEtween") == damage("Xyzzy") == []


@pytest.mark.parametrize(
    ("kind", "forms"),
    [
        ("lower", ["rome", None, None, "stra\u00dfe"]),
        ("upper", ["ROME", "DON'T", None, "STRASSE"]),
        ("title", [None, "Don't", None, None]),
    ],
)
def test_letter_case(kind, forms):
    damage = make_damage(kind, "en")
    words = ("Rome", "don't", "42", "Stra\u00dfe")
    assert [damage(word) for word in words] == [[form] if form else [] for form in forms]


def annotation(doc):
    attrs = ["TAG", "POS", "LEMMA", "HEAD", "DEP", "MORPH", "SENT_START", "SPACY"]
    tokens = doc.to_array(attrs).tolist()
    ents = [(one.start, one.end, one.label_, one.kb_id_) for one in doc.ents]
    spans = [(one.start, one.end, one.label_, one.id_) for one in doc.spans["sc"]]
    return tokens, ents, spans, doc.spans["sc"].attrs, doc.cats, doc.user_data


def test_damaged_docs_keep_their_annotation():
    doc = annotated(spacy.blank("en").vocab)
    doc.spans["sc"].attrs["from"] = "hand"
    doc.user_data["key"] = 3
    other = replace_words(doc, {0: "Ama", 3: "Yorrk"})
    assert other.text == "Ama saw New Yorrk."
    assert annotation(other) == annotation(doc)
    assert [token.norm_ for token in other] == ["ama", "saw", "new", "yorrk", "."]
    copy = other.copy()  # which copies spans by characters
    (span,) = copy.spans["sc"]
    assert span.text == "saw New Yorrk"
    assert doc.text == "Anna saw New York."
    assert replace_words(doc, {}) is doc
    doc = Doc(doc.vocab, words=["Das", "Haus"])
    assert replace_words(doc, {1: "Hans"}).has_unknown_spaces


@pytest.fixture
def ruler():
    """A pipeline that finds the undamaged word, and gold data in which each word is one."""
    nlp = spacy.blank("en")
    nlp.add_pipe("entity_ruler").add_patterns([{"label": "GPE", "pattern": "Rome"}])
    doc = nlp.make_doc("Rome " * 200)
    doc.ents = [Span(doc, i, i + 1, "GPE") for i in range(200)]
    return nlp, doc


@pytest.mark.pipelines
def test_scores_fall_by_the_share_of_damaged_words(ruler):
    nlp, doc = ruler
    examples = [Example(nlp.make_doc(doc.text), doc)]
    rows = list(measure_robustness(nlp, examples, ["ocr", "misspellings"], [0.0, 0.1, 0.3]))
    recalls = [round(row["scores"]["ents_r"], 6) for row in rows]
    assert recalls == [1.0, 0.9, 0.7, 1.0, 1.0, 1.0]  # *Rome* is not in the list of misspellings
    assert [row["damaged"] for row in rows] == [0.0, 0.1, 0.3, 0.0, 0.0, 0.0]


@pytest.mark.pipelines
def test_case_is_all_letter_cases(ruler):
    nlp, doc = ruler
    examples = [Example(nlp.make_doc(doc.text), doc)]
    rows = list(measure_robustness(nlp, examples, ["case"], [1.0]))
    found = [(row["damage"], row["damaged"], row["scores"]["ents_r"]) for row in rows]
    # *Rome* begins with a capital, so title case changes nothing.
    assert found == [("lower", 1.0, 0.0), ("upper", 1.0, 0.0), ("title", 0.0, 1.0)]


@pytest.mark.pipelines
def test_larger_shares_contain_the_smaller_ones_in_each_run(ruler, monkeypatch):
    nlp, doc = ruler
    texts = []
    monkeypatch.setattr(nlp, "evaluate", lambda data: texts.append(data[0].predicted.text) or {})

    def run(seed):
        texts.clear()
        examples = [Example(nlp.make_doc(doc.text), doc)]
        list(measure_robustness(nlp, examples, ["keyboard"], [0.1, 0.3], seed))
        return [text.split() for text in texts[1:]]

    few, many = run(0)
    assert all(one in (other, "Rome") for one, other in zip(few, many))
    assert run(0) == [few, many] != run(1)


@pytest.mark.training
@pytest.mark.pipelines
def test_tokens_that_differ_from_the_gold_data_stay():
    """The tokenizer splits *don't*; the gold data do not."""
    nlp = spacy.blank("en")
    nlp.add_pipe("tagger").add_label("X")
    nlp.initialize()
    reference = Doc(nlp.vocab, words=["Romans", "don't"], spaces=[True, False], tags=["X", "X"])
    example = Example(nlp.make_doc(reference.text), reference)
    (row,) = measure_robustness(nlp, [example], ["keyboard"], [1.0])
    assert row["damaged"] == pytest.approx(1 / 3)


@pytest.mark.pipelines
@pytest.mark.commands
def test_robustness_command(ruler, tmp_path):
    nlp, doc = ruler
    nlp.to_disk(tmp_path / "ruler")
    DocBin(docs=[doc]).to_disk(tmp_path / "test.spacy")
    where = ("robustness", tmp_path / "ruler", tmp_path / "test.spacy", "--damage", "ocr,keyboard")
    page = tmp_path / "curve.html"
    shown = shown_by(*where, "--rates", "0,0.3", "--output", page)
    assert "ocr 30.0% 82.35% keyboard" in shown  # with a recall of 0.7
    data = shown_pages.data_of(page.read_text("utf8"))
    shown_pages.check(data)
    height = pytest.approx((8.235294 - 8) / 2)
    points = [[0.0, 1.0, "100.00%", "0.0%"], [1.0, height, "82.35%", "30.0%"]]
    assert data["sections"][0]["lines"][0]["points"] == points
    rows = json.loads(run_elmo(*where, "--rates", "0.3", "--json").stdout)
    assert [row["damage"] for row in rows] == ["ocr", "keyboard"]
    assert rows[0]["scores"] == {"ents_f": pytest.approx(1.4 / 1.7)}
    assert "curve.html exists already" in shown_by(*where, "--output", page, status=1)
    assert "--rates must be shares" in shown_by(*where, "--rates", "30", status=1)
    assert "--damage must be keyboard" in shown_by(*where[:3], "--damage", "rain", status=1)
