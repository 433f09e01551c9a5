"""The component `elmo_srl`: roles and their predicates, their scores, and errors in gold roles."""

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc, Span
from spacy.training import Example
from spacy.util import registry

from spacy_elmo.tasks.srl.frames import gold_frames, read_frames, score_srl, write_frames

from helpers.tasks import ROLES, SRL, role_examples

NLP = spacy.blank("en")
LABELS = ("ARG0", "ARG1", "ARG2", "ARG4", "ARGM-TMP", "V")
TEXT = ROLES[0][0]


TASK = SRL


@pytest.fixture
def load(tmp_path):
    """Saves a pipeline, and loads it with another setting of the predicates."""

    def load(nlp, predicates):
        nlp.to_disk(tmp_path)
        return spacy.load(tmp_path, config={"components": {"elmo_srl": {"predicates": predicates}}})

    return load


@pytest.mark.training
def test_roles_of_a_sentence_are_found_and_shown(trained):
    assert trained.get_pipe("elmo_srl").labels == LABELS
    scores = trained.evaluate(role_examples(trained))
    assert set(scores["srl_per_type"]) == set(LABELS) - {"V"}
    doc = trained(TEXT)
    roles = {"ARG0": ["Maria"], "V": ["gave"], "ARG2": ["Tom"], "ARG1": ["a book"]}
    assert {label: [*map(str, spans)] for label, spans in doc[1]._.srl.items()} == roles
    assert doc[0]._.srl == {}
    assert doc._.srl == {1: doc[1]._.srl}
    assert next((span.label_, span.id) for span in doc.spans["srl"]) == ("ARG0", 1)


@pytest.mark.training
def test_roles_of_joined_docs_are_not_mixed(trained):
    """spaCy moves the spans of the second Doc, and not their ids."""
    doc = Doc.from_docs([trained(text) for text, _ in ROLES[:2]])
    for read in (read_frames, lambda doc: doc._.srl, lambda doc: doc[1]._.srl):
        with pytest.raises(ValueError, match=r"the span V \(9, 10\).*has the id 3.*from_docs"):
            read(doc)


# Predicates


@pytest.mark.training
def test_predicates_are_verbs_if_the_setting_says_so(trained, load):
    nlp = load(trained, "verbs")
    with pytest.raises(ValueError, match="'Maria gave Tom a book .'.*token.pos"):
        nlp(TEXT)
    pos = ["PROPN", "VERB", "PROPN", "DET", "AUX", "PUNCT"]
    assert list(read_frames(nlp(Doc(nlp.vocab, words=TEXT.split(), pos=pos)))) == [1, 4]
    assert read_frames(nlp("")) == {}


@pytest.mark.training
def test_gold_predicates_come_from_the_doc_or_the_reference(trained, load):
    """Given on the Doc, or those of the reference in an evaluation."""
    nlp = load(trained, "gold")
    doc = nlp.make_doc(TEXT)
    assert "srl" not in nlp(doc).spans
    write_frames(doc, {1: [(1, 2, "V")], 4: [(4, 5, "V")]})
    frames = read_frames(nlp(doc))
    assert list(frames) == [1, 4]
    assert frames[1] == read_frames(role_examples(nlp)[0].reference)[1]
    assert SRL.main_scores(nlp) == [1.0, 1.0]
    given = role_examples(nlp, ROLES[:1])
    write_frames(given[0].predicted, {4: [(4, 5, "V")]})
    assert nlp.evaluate(given)["srl_predicates_f"] == 0.0


@pytest.mark.training
@pytest.mark.pipelines
@pytest.mark.parametrize(
    ("before", "predicates"), [(None, "model"), (None, "gold"), ("model", "gold")]
)
def test_predicates_cost_nothing_in_training_if_they_are_given(make, load, before, predicates):
    """Tags V in sentences without a flag cost nothing, and are unknown afterwards."""
    nlp = make(SRL, predicates=before or predicates)
    data = role_examples(nlp)
    if before:
        nlp.initialize(lambda: data)
        nlp.update(data)
        nlp.get_pipe("elmo_srl").predicates = predicates
    nlp.initialize(lambda: data)
    # Before the first step all 13 tags are equally probable.
    n_tokens = 6 + 7 + 2 * 9 + 4 + (28 if predicates == "model" else 0)
    assert nlp.update(data)["elmo_srl"] == pytest.approx(n_tokens * np.log(13), rel=1e-4)
    load(nlp, predicates)(TEXT)
    if predicates == "gold":
        with pytest.raises(ValueError, match="'elmo_srl' was not trained to find predicates. Set"):
            load(nlp, "model")(TEXT)


@pytest.mark.training
def test_each_token_is_a_predicate_in_one_window(trained, monkeypatch):
    """Roles are found in the window around it."""
    windows = registry.get("segmenters", "spacy-elmo.windows.v1")(size=6, overlap=2)
    monkeypatch.setattr(trained.get_pipe("elmo_srl"), "segmenter", windows)
    doc = trained(" ".join([TEXT] * 4))
    frames = read_frames(doc)
    spans = [(start, end) for roles in frames.values() for start, end, _ in roles]
    assert all(0 <= start < end <= len(doc) for start, end in spans)
    assert 1 in frames
    assert all((token, "V") in [(s, label) for s, _, label in frames[token]] for token in frames)


# Gold roles


@pytest.mark.training
@pytest.mark.parametrize(
    ("roles", "named"),
    [
        ([(0, 2, "ARG0", 3), (1, 3, "ARG1", 3)], r"ARG0 \(0, 2\).*'ran'.*token 3.*ARG1 \(1, 3\)"),
        ([(0, 1, "ARG0", 6)], r"ARG0 \(0, 1\).* is not within the sentence \(5, 7\)"),
        ([(0, 1, "ARG9", 1)], r"ARG9 \(0, 1\).* has a label"),
        ([(0, 1, "V", 1)], r"V \(0, 1\).* begin at its predicate.*span_id=0"),
        ([(0, 3, "ARG0", 1)], "overlap"),  # the predicate itself is V
        ([(0, 1, "ARG0", 99)], "id 99.*7 tokens"),
    ],
)
def test_wrong_gold_roles_are_named(trained, roles, named):
    words = ["Tom", "and", "Maria", "ran", ".", "They", "left"]
    made = {"words": words, "sent_starts": [i in (0, 5) for i in range(7)]}
    reference = Doc(trained.vocab, **made)
    reference.spans["srl"] = [
        Span(reference, start, end, label=label, span_id=pred) for start, end, label, pred in roles
    ]
    with pytest.raises(ValueError, match=named) as error:
        trained.update([Example(Doc(trained.vocab, **made), reference)])
    assert "'Tom and Maria ran . They left" in str(error.value)
    assert "\n" not in str(error.value)


def test_the_first_of_two_predicates_of_a_token_is_kept():
    reference = Doc(NLP.vocab, words=["I", "wan", "na", "go"], spaces=[1, 0, 1, 0])
    write_frames(reference, {1: [(0, 1, "ARG0"), (1, 2, "V")], 2: [(3, 4, "ARG1"), (2, 3, "V")]})
    predicted = Doc(NLP.vocab, words=["I", "wanna", "go"])
    assert gold_frames(Example(predicted, reference)) == {1: [(0, 1, "ARG0")]}


# The scores


def example(found=None, gold=None):
    """An example with these frames. Without annotation where they are None."""
    docs = [Doc(NLP.vocab, words=["He", "ran", "home", "and", "she", "saw", "him"]) for _ in "12"]
    for doc, frames in zip(docs, (found, gold)):
        if frames is not None:
            write_frames(doc, frames)
    return Example(*docs)


GOLD = {
    1: [(0, 1, "ARG0"), (1, 2, "V"), (2, 3, "ARG4")],
    5: [(4, 5, "ARG0"), (5, 6, "V"), (6, 7, "ARG1")],
}


def test_scores_of_a_worked_example():
    """One of four gold roles is found.

    Three are predicted: one is right, one has another end, one another predicate. One of two
    predicates is found, and one is wrong. V and C-V do not count.
    """
    predicted = {
        1: [(0, 1, "ARG0"), (1, 2, "V"), (2, 4, "ARG4"), (4, 5, "C-V")],
        6: [(4, 5, "ARG0"), (6, 7, "V")],
    }
    none = {"p": 0.0, "r": 0.0, "f": 0.0}
    scores = score_srl([example(predicted, GOLD)])
    per_type = {"ARG0": {"p": 0.5, "r": 0.5, "f": 0.5}, "ARG1": none, "ARG4": none}
    assert scores.pop("srl_per_type") == per_type
    expected = {"p": 1 / 3, "r": 1 / 4, "f": 2 / 7, **{f"predicates_{name}": 0.5 for name in "prf"}}
    assert scores == pytest.approx({f"srl_{name}": value for name, value in expected.items()})


def test_only_annotated_docs_count():
    alone = score_srl([example(GOLD, GOLD)])
    assert alone["srl_f"] == alone["srl_predicates_f"] == 1.0
    assert score_srl([example(GOLD, GOLD), example(GOLD)]) == alone
    missed = score_srl([example(None, GOLD)])
    assert missed["srl_f"] == missed["srl_r"] == 0.0
    assert score_srl([example(GOLD, {})])["srl_p"] == 0.0
    assert set(score_srl([]).values()) == {None}
