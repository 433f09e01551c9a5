"""Occurrences of words: where they are, which are drawn, and their layers."""

import numpy as np
import pytest
from spacy.tokens import Doc, Span
from spacy.vocab import Vocab

from spacy_elmo.analysis.occurrences import draw_occurrences, occurrence_layers
from spacy_elmo.pipeline.load import elmo_pipe

from helpers.models import check_refused
from helpers.rounding import check_close


def docs_of(*texts):
    """Return Docs in a bare vocab, as `read_corpus_docs` does."""
    vocab = Vocab()
    return [Doc(vocab, words=text.split()) for text in texts]


def places(drawn):
    return [(one.start, one.end) for one in drawn.occurrences]


def test_occurrences_have_the_positions_of_their_words():
    docs = docs_of("the bank", "Bank of a bank by a bank", "", "banks")
    bank, of_a = draw_occurrences(docs, ["bank", " of  a ", "bank"])
    assert (bank.word, bank.n_total) == ("bank", 3)
    assert places(bank) == [(1, 2), (3, 4), (6, 7)]
    assert [one.doc for one in bank.occurrences] == [docs[0], docs[1], docs[1]]
    assert (of_a.word, places(of_a)) == ("of a", [(1, 3)])
    (both,) = draw_occurrences(docs, ["BANK"], ignore_case=True)
    assert places(both) == [(1, 2), (0, 1), (3, 4), (6, 7)]
    _, absent = draw_occurrences(docs, ["bank", "river"])
    assert (absent.n_total, absent.occurrences) == (0, [])
    wanted = "the text does not contain 'BANK', 'river'. Check the spelling"
    check_refused(lambda: draw_occurrences(docs, ["BANK", "river"]), wanted, "ignore_case")
    check_refused(lambda: draw_occurrences(docs, ["sea"], ignore_case=True), "not contain 'sea'")


def test_source_and_date_are_copied_from_the_doc():
    """Source and date are data or custom attributes. Nothing else of the Doc is copied."""
    docs = docs_of(*["a bank"] * 4)
    docs[0].user_data.update(source="letters/1.txt", date=1848, more="x")
    docs[1].user_data.update({("._.", "date", None, None): "1849-05-01"})
    docs[2].user_data.update(source="b", date=None)
    (drawn,) = draw_occurrences(docs, ["bank"], vocab=Vocab())
    expected = ["letters/1.txt, 1848", "1849-05-01", "b", ""]
    assert [one.origin for one in drawn.occurrences] == expected
    assert "more" not in drawn.occurrences[0].doc.user_data


def test_copies_keep_tokens_blanks_and_sentences():
    doc = Doc(Vocab(), words=["a", "bank", "!", "No"], spaces=[True, False, True, False])
    doc[3].is_sent_start = True
    vocab = Vocab()
    (drawn,) = draw_occurrences([doc], ["bank"], vocab=vocab)
    copy = drawn.occurrences[0].doc
    assert copy.vocab is vocab
    assert copy.text == doc.text == "a bank! No"
    assert drawn.occurrences[0].sentence.text == "a bank!"
    (drawn,) = draw_occurrences(docs_of("a bank . no"), ["bank"], vocab=vocab)
    assert drawn.occurrences[0].sentence.text == "a bank . no"


@pytest.mark.parametrize("n", [1, 2, 9, 10, 11, 79, 80, 81, 500, 1234])
def test_a_limit_draws_evenly_from_the_corpus(n):
    docs = docs_of(*(f"word {number}" for number in range(n)))
    (drawn,) = draw_occurrences(docs, ["word"], limit=10)
    numbers = [int(one.doc[1].text) for one in drawn.occurrences]
    assert drawn.n_total == n
    assert len(numbers) == min(n, 10)
    gaps = np.diff([*numbers, n])
    assert numbers[0] == 0
    assert gaps.min() >= 1
    assert n < 10 or gaps[:-1].max() <= 2 * max(1, gaps[:-1].min())


def test_gold_senses_come_from_spans_and_wrong_requests_are_refused():
    docs = docs_of("a bank and a bank", "Bank", "river bank")
    docs[0].spans["senses"] = [Span(docs[0], 4, 5, "money"), Span(docs[0], 1, 2)]
    docs[1].spans["senses"] = [Span(docs[1], 0, 1, "money")]
    docs[2].spans["other"] = [Span(docs[2], 0, 2, "shore")]
    (drawn,) = draw_occurrences(docs, ["bank"], gold="spans:senses")
    assert [(one.start, one.sense) for one in drawn.occurrences] == [(4, "money")]
    (drawn,) = draw_occurrences(docs, ["bank"], gold="spans:senses", ignore_case=True)
    assert len(drawn.occurrences) == drawn.n_total == 2
    (drawn,) = draw_occurrences(docs, ["river bank"], gold="spans:other")
    assert places(drawn) == [(0, 2)]
    named = "'spans:missing'. Its span groups: other, senses"
    check_refused(lambda: draw_occurrences(docs, ["bank"], gold="spans:missing"), named)
    check_refused(lambda: draw_occurrences(docs, ["bank"], gold="tag"), "labels of spans")
    check_refused(lambda: draw_occurrences([], [" "]), "empty")
    check_refused(lambda: draw_occurrences([], ["a"], limit=0), "at least 1")


@pytest.mark.pipelines
def test_layers_are_those_of_the_doc(nlp):
    pipe = elmo_pipe(nlp)
    docs = docs_of("we play a play", "no", "they play well")
    drawn = draw_occurrences(docs, ["play", "a play", "never"], vocab=nlp.vocab)
    alone = [pipe.predict([Doc(nlp.vocab, words=[t.text for t in doc])])[0] for doc in docs]
    play, a_play, never = (occurrence_layers(pipe, one.occurrences) for one in drawn)
    expected = np.stack([alone[0][:, 1], alone[0][:, 3], alone[2][:, 1]], axis=1)
    check_close(play, expected)
    check_close(a_play[:, 0], alone[0][:, 2:4].mean(axis=1))
    assert never.shape == (play.shape[0], 0, play.shape[2])
