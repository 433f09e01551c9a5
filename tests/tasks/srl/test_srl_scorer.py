"""The scores on a worked example."""

import pytest
import spacy
from spacy.tokens import Doc
from spacy.training import Example

from spacy_elmo.tasks.srl.frames import score_srl, write_frames

NLP = spacy.blank("en")


def doc(frames=None):
    found = Doc(NLP.vocab, words=["He", "ran", "home", "and", "she", "saw", "him"])
    if frames is not None:
        write_frames(found, frames)
    return found


GOLD = {
    1: [(0, 1, "ARG0"), (1, 2, "V"), (2, 3, "ARG4")],
    5: [(4, 5, "ARG0"), (5, 6, "V"), (6, 7, "ARG1")],
}


def test_a_worked_example():
    """Of four gold roles one is found; three are predicted: one has another end, one another
    predicate. Of two predicates one is found, and one is none. V and C-V do not count."""
    predicted = {
        1: [(0, 1, "ARG0"), (1, 2, "V"), (2, 4, "ARG4"), (4, 5, "C-V")],
        6: [(4, 5, "ARG0"), (6, 7, "V")],
    }
    scores = score_srl([Example(doc(predicted), doc(GOLD))])
    assert scores["srl_p"] == pytest.approx(1 / 3)
    assert scores["srl_r"] == pytest.approx(1 / 4)
    assert scores["srl_f"] == pytest.approx(2 / 7)
    assert scores["srl_predicates_p"] == scores["srl_predicates_r"] == pytest.approx(1 / 2)
    assert scores["srl_per_type"] == {
        "ARG0": {"p": 0.5, "r": 0.5, "f": 0.5},
        "ARG1": {"p": 0.0, "r": 0.0, "f": 0.0},
        "ARG4": {"p": 0.0, "r": 0.0, "f": 0.0},
    }


def test_only_annotated_docs_count():
    alone = score_srl([Example(doc(GOLD), doc(GOLD))])
    assert alone["srl_f"] == alone["srl_predicates_f"] == 1.0
    assert score_srl([Example(doc(GOLD), doc(GOLD)), Example(doc(GOLD), doc())]) == alone
    missed = score_srl([Example(doc(), doc(GOLD))])
    assert missed["srl_f"] == missed["srl_r"] == 0.0
    invented = score_srl([Example(doc(GOLD), doc({}))])
    assert invented["srl_p"] == 0.0
    assert set(score_srl([]).values()) == {None}
