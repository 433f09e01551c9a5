"""The component `elmo_srl`: roles and their predicates; what is wrong with gold roles is said."""

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc, Span
from spacy.training import Example
from spacy.util import registry

from spacy_elmo.tasks.srl.frames import gold_frames, read_frames, score_srl, write_frames
from spacy_elmo.tasks.srl.model import Instance, InstanceScorer

from helpers.calls import note_calls
from helpers.gradients import check_gradients, randomize
from helpers.tasks import ROLES, SRL, role_examples

LABELS = ("ARG0", "ARG1", "ARG2", "ARG4", "ARGM-TMP", "V")


@pytest.fixture
def trained(know):
    return know(SRL)


def gold(nlp):
    return [read_frames(example.reference) for example in role_examples(nlp)]


def test_roles_of_a_sentence(trained):
    assert trained.get_pipe("elmo_srl").labels == LABELS
    scores = trained.evaluate(role_examples(trained))
    assert set(scores["srl_per_type"]) == set(LABELS) - {"V"}
    doc = trained("Maria gave Tom a book .")
    assert {label: [str(span) for span in spans] for label, spans in doc[1]._.srl.items()} == {
        "ARG0": ["Maria"],
        "V": ["gave"],
        "ARG2": ["Tom"],
        "ARG1": ["a book"],
    }
    assert doc[0]._.srl == {}
    assert doc._.srl == {1: doc[1]._.srl}
    assert next((span.label_, span.id) for span in doc.spans["srl"]) == ("ARG0", 1)


def test_roles_of_joined_docs_are_not_mixed(trained):
    """spaCy moves the spans of the second Doc, and not their ids."""
    doc = Doc.from_docs([trained(text) for text, _ in ROLES[:2]])
    for read in (read_frames, lambda doc: doc._.srl, lambda doc: doc[1]._.srl):
        with pytest.raises(ValueError, match=r"the span V \(9, 10\).*has the id 3.*from_docs"):
            read(doc)


@pytest.mark.parametrize("max_batch_tokens", [1, 10, 4096])
def test_batches_change_nothing(trained, max_batch_tokens, monkeypatch):
    """However many tokens are read at a time, which is no more than the setting says, or one
    sentence."""
    read = note_calls(monkeypatch, InstanceScorer, "__call__", lambda _, instances: instances)
    monkeypatch.setattr(trained.get_pipe("elmo_srl"), "max_batch_tokens", max_batch_tokens)
    assert SRL.found_by(trained) == gold(trained)
    assert all(sum(map(len, one)) <= max_batch_tokens or len(one) == 1 for one in read)


def test_gradients(make):
    """Of all weights by finite differences, whatever the batches."""
    nlp = make(SRL, max_batch_tokens=10)
    data = role_examples(nlp)
    nlp.initialize(lambda: data)
    pipe = nlp.get_pipe("elmo_srl")
    randomize(pipe.model, scale=0.3)
    pipe.update(data)
    pipe.max_batch_tokens = 4096

    def loss():
        return pipe.update(data, losses={})["elmo_srl"]

    check_gradients(pipe.model, loss, step=3e-4, rel=0.05, noise=0.05)


def test_loss_is_the_log_likelihood(trained):
    pipe = trained.get_pipe("elmo_srl")
    (example,) = role_examples(trained, ROLES[:1])
    (segment,) = pipe.segmenter(example.predicted)
    instance = Instance(0, segment, 1)
    rng = np.random.default_rng(0)
    probabilities = rng.dirichlet(np.ones(13), size=6).astype("float32")
    names = ["O", *(f"{prefix}-{label}" for label in LABELS for prefix in "BI")]
    tags = [names.index(tag) for tag in ROLES[0][1][1].split()]
    loss, (d_logits,) = pipe.get_loss([example], ([instance], [probabilities]))
    assert loss == pytest.approx(-np.log(probabilities[range(6), tags]).sum(), rel=1e-5)
    np.testing.assert_allclose(d_logits, probabilities - np.eye(13)[tags], atol=1e-6)


# Predicates


def test_verbs(trained, tmp_path):
    trained.to_disk(tmp_path)
    nlp = spacy.load(tmp_path, config={"components": {"elmo_srl": {"predicates": "verbs"}}})
    with pytest.raises(ValueError, match="'Maria gave Tom a book .'.*token.pos"):
        nlp(ROLES[0][0])
    words = ROLES[0][0].split()
    doc = Doc(nlp.vocab, words=words, pos=["PROPN", "VERB", "PROPN", "DET", "AUX", "PUNCT"])
    assert list(read_frames(nlp(doc))) == [1, 4]
    assert read_frames(nlp("")) == {}


def test_gold_predicates(trained, tmp_path):
    """Given on the Doc, or those of the reference in an evaluation."""
    trained.to_disk(tmp_path)
    nlp = spacy.load(tmp_path, config={"components": {"elmo_srl": {"predicates": "gold"}}})
    doc = nlp.make_doc(ROLES[0][0])
    assert "srl" not in nlp(doc).spans
    write_frames(doc, {1: [(1, 2, "V")], 4: [(4, 5, "V")]})
    frames = read_frames(nlp(doc))
    assert list(frames) == [1, 4]
    assert frames[1] == gold(nlp)[0][1]
    assert SRL.main_scores(nlp) == [1.0, 1.0]
    given = role_examples(nlp, ROLES[:1])
    write_frames(given[0].predicted, {4: [(4, 5, "V")]})
    assert nlp.evaluate(given)["srl_predicates_f"] == 0.0


def test_gold_predicates_are_not_asked_for_in_training(make, tmp_path):
    """The tags V of sentences without a flag cost nothing, and are not known afterwards."""

    def first_loss(predicates, before=None, after=None):
        nlp = make(SRL, predicates=before or predicates)
        data = role_examples(nlp)
        if before:
            nlp.initialize(lambda: data)
            nlp.update(data)
            nlp.get_pipe("elmo_srl").predicates = predicates
            nlp.config["components"]["elmo_srl"]["predicates"] = predicates
        nlp.initialize(lambda: data)
        loss = nlp.update(data)["elmo_srl"]
        if after:
            nlp.to_disk(tmp_path)
            changed = {"components": {"elmo_srl": {"predicates": after}}}
            spacy.load(tmp_path, config=changed)(ROLES[0][0])
        return loss

    # Before the first step all 13 tags are equally probable.
    once = sum(len(text.split()) for text, _ in ROLES)
    per_predicate = sum(len(text.split()) * len(frames) for text, frames in ROLES)
    with pytest.raises(ValueError, match="'elmo_srl' was not trained to find predicates. Set"):
        first_loss("gold", after="model")
    first_loss("gold", after="gold")
    first_loss("model", after="model")
    first_loss("gold", before="model", after="gold")
    with pytest.raises(ValueError, match="was not trained"):  # initialized anew in between
        first_loss("gold", before="model", after="model")
    assert first_loss("gold") == pytest.approx(per_predicate * np.log(13), rel=1e-4)
    assert first_loss("model") == pytest.approx((per_predicate + once) * np.log(13), rel=1e-4)


def test_windows_share_predicates(trained, monkeypatch):
    """Each token is asked for in one window, and roles are found in the window around it."""
    windows = registry.get("segmenters", "spacy-elmo.windows.v1")(size=6, overlap=2)
    monkeypatch.setattr(trained.get_pipe("elmo_srl"), "segmenter", windows)
    doc = trained(" ".join([ROLES[0][0]] * 4))
    frames = read_frames(doc)
    spans = [(start, end) for roles in frames.values() for start, end, _ in roles]
    assert all(0 <= start < end <= len(doc) for start, end in spans)
    assert 1 in frames
    assert all((token, "V") in [(s, label) for s, _, label in frames[token]] for token in frames)


# Gold roles


def spans(doc, *roles):
    doc.spans["srl"] = [
        Span(doc, start, end, label=label, span_id=pred) for start, end, label, pred in roles
    ]
    return doc


@pytest.mark.parametrize(
    ("roles", "named"),
    [
        ([(0, 2, "ARG0", 3), (1, 3, "ARG1", 3)], r"ARG0 \(0, 2\).*'ran'.*token 3.*ARG1 \(1, 3\)"),
        (
            [(0, 1, "ARG0", 5), (5, 6, "V", 5)],
            r"ARG0 \(0, 1\).* is not within the sentence \(4, 7\)",
        ),
        ([(0, 1, "ARG9", 1)], r"ARG9 \(0, 1\).* has a label"),
        ([(0, 1, "V", 1)], r"V \(0, 1\).* begin at its predicate.*span_id=0"),
        ([(0, 3, "ARG0", 1)], "overlap"),  # the predicate itself is V
        ([(0, 1, "ARG0", 99)], "id 99.*7 tokens"),
    ],
)
def test_wrong_gold_roles_are_named(trained, roles, named):
    words = ["Tom", "and", "Maria", "ran", ".", "They", "left"]
    starts = (
        [i in (0, 5) for i in range(7)] if roles[0][3] != 5 else [i in (0, 4) for i in range(7)]
    )
    reference = spans(Doc(trained.vocab, words=words, sent_starts=starts), *roles)
    example = Example(Doc(trained.vocab, words=words, sent_starts=starts), reference)
    with pytest.raises(ValueError, match=named) as error:
        trained.update([example])
    assert "'Tom and Maria ran . They left" in str(error.value)
    assert "\n" not in str(error.value)


def test_other_tokens_than_the_reference():
    """Roles go to the predicted Doc's tokens, where those can hold them."""
    nlp = spacy.blank("en")
    reference = Doc(nlp.vocab, words=["He", "can", "not", "swim", "."], spaces=[1, 0, 1, 0, 0])
    spans(reference, (0, 1, "ARG0", 3), (2, 3, "ARGM-NEG", 3), (1, 3, "ARGM-MOD", 3))
    predicted = Doc(nlp.vocab, words=["He", "cannot", "swim", "."], spaces=[1, 1, 0, 0])
    assert gold_frames(Example(predicted, reference)) == {2: [(0, 1, "ARG0"), (1, 2, "ARGM-MOD")]}


def test_two_predicates_of_one_token():
    """The first is kept."""
    nlp = spacy.blank("en")
    reference = Doc(nlp.vocab, words=["I", "wan", "na", "go"], spaces=[1, 0, 1, 0])
    spans(reference, (0, 1, "ARG0", 1), (1, 2, "V", 1), (3, 4, "ARG1", 2), (2, 3, "V", 2))
    predicted = Doc(nlp.vocab, words=["I", "wanna", "go"])
    assert gold_frames(Example(predicted, reference)) == {1: [(0, 1, "ARG0")]}


# The scores


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
