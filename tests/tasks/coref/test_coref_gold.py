"""Gold clusters of `elmo_coref`: what is wrong with them is said; what is none is no error."""

import re

import pytest
import spacy
from spacy.tokens import Doc, Span
from spacy.training import Example

from spacy_elmo.tasks.coref.clusters import gold_clusters, predicted_clusters, write_clusters
from spacy_elmo.tasks.coref.corpus import make_doc

from helpers.tasks import COREF, cluster_examples


@pytest.fixture
def initialized():
    """A pipeline without ELMo, before its first step."""
    nlp = COREF.add(spacy.blank("en"))
    nlp.initialize(lambda: cluster_examples(nlp))
    return nlp


TWICE = "doc.spans['coref_clusters_2'] in the Doc 'Tom and Maria ran . They left .'"


@pytest.mark.parametrize(
    ("clusters", "named"),
    [
        (
            [[(0, 1), (5, 6)], [(0, 3), (0, 1)]],
            f"the span 'Tom' (0, 1) of {TWICE} occurs twice, first in doc.",
        ),
        (
            [[], [(0, 3), (5, 6), (0, 3)]],
            f"'Tom and Maria' (0, 3) of {TWICE} occurs twice, first in doc.",
        ),
        ([[(5, 6)], [(2, 2)]], f"the span '' (2, 2) of {TWICE} has no tokens"),
    ],
)
def test_wrong_gold_clusters_are_named(initialized, clusters, named):
    words = ["Tom", "and", "Maria", "ran", ".", "They", "left", "."]
    reference = Doc(initialized.vocab, words=words)
    for number, mentions in enumerate(clusters, 1):
        reference.spans[f"coref_clusters_{number}"] = [Span(reference, *m) for m in mentions]
    example = Example(Doc(initialized.vocab, words=words), reference)
    for use in (
        lambda: initialized.update([example]),
        lambda: initialized.evaluate([example]),
        lambda: initialized.get_pipe("elmo_coref").initialize(lambda: [example]),
    ):
        with pytest.raises(ValueError, match=re.escape(named)) as error:
            use()
        assert "\n" not in str(error.value)


def test_mentions_out_of_reach_are_no_error(initialized):
    """Wider than `max_span_width`, across sentences, or across each other."""
    nlp = initialized
    words = ["a", "b", "c", "d", ".", "e", "f"]
    starts = [i in (0, 5) for i in range(7)]
    reference = Doc(nlp.vocab, words=words, sent_starts=starts)
    write_clusters(reference, [[(0, 4), (3, 6)], [(0, 2), (1, 3)]])
    example = Example(Doc(nlp.vocab, words=words, sent_starts=starts), reference)
    nlp.initialize(lambda: [example])
    assert nlp.update([example])["elmo_coref"] > 0.0


def test_docs_without_annotation_teach_nothing(initialized):
    plain = Example(initialized.make_doc("Tom ran ."), initialized.make_doc("Tom ran ."))
    empty = Example(initialized.make_doc(""), make_doc(initialized.vocab, [], []))
    assert initialized.update([empty, *cluster_examples(initialized)])["elmo_coref"] > 0.0
    with pytest.raises(ValueError, match="finds no clusters in doc.spans"):
        initialized.get_pipe("elmo_coref").initialize(lambda: [plain])


def test_other_tokens_than_the_reference():
    """Mentions go to the predicted Doc's tokens, where those can hold them."""
    nlp = spacy.blank("en")
    reference = Doc(nlp.vocab, words=["He", "can", "not", "see", "it"], spaces=[1, 0, 1, 1, 0])
    write_clusters(reference, [[(0, 1), (4, 5), (1, 2)], [(2, 3)]])
    predicted = Doc(nlp.vocab, words=["He", "cannot", "see", "it"], spaces=[1, 1, 1, 0])
    assert gold_clusters(Example(predicted, reference)) == [[(0, 1), (3, 4)]]


def test_mentions_that_differ_in_whitespace_are_one():
    """A mention has one cluster, and stands there once, in other tokens, too."""
    nlp = spacy.blank("en")
    predicted = Doc(nlp.vocab, words=["Ann", "\n", "saw", "her"], spaces=[0, 0, 1, 0])
    reference = Doc(nlp.vocab, words=["Ann", "saw", "her"], spaces=[1, 1, 0])
    for clusters in ([[(0, 1), (0, 2), (3, 4)]], [[(0, 1), (3, 4)], [(0, 2)]]):
        write_clusters(predicted, clusters)
        assert predicted_clusters(Example(predicted, reference)) == [[(0, 1), (2, 3)]]
        assert gold_clusters(Example(reference, predicted)) == [[(0, 1), (2, 3)]]


def test_loss_of_docs_without_annotation(initialized):
    """It is 0, and so is its gradient, as in `update`."""
    plain = Example(initialized.make_doc("Tom ran ."), initialized.make_doc("Tom ran ."))
    pipe = initialized.get_pipe("elmo_coref")
    (doc,) = docs = [plain.predicted]
    ranking, _ = pipe.model.predict(docs)(0, pipe.segmenter(doc))
    loss, (gradients,) = pipe.get_loss([plain], [ranking])
    assert loss == 0.0
    assert [values.shape for values in gradients] == [
        ranking.mention_scores.shape,
        ranking.pair_scores.shape,
    ]
    assert not any(values.any() for values in gradients)
