"""Nearest tokens in context, against all cosines in numpy."""

import numpy as np
import pytest
from spacy.tokens import Doc
from spacy.vocab import Vocab

from spacy_elmo.analysis import corpora
from spacy_elmo.analysis.corpora import sentence_doc
from spacy_elmo.analysis.neighbors import find_neighbors, find_token

from helpers import reference
from helpers.models import TINY_OPTIONS

DATA = reference.random_datasets(TINY_OPTIONS, seed=1)  # of `tiny_weights`
SENTENCE = ["the", "play", "ends", "."]


def random_corpus(n=30):
    rng = np.random.default_rng(0)
    words = ["the", "Play", "play", "plays", "a", "naïve", "日本", "."]
    corpus = [rng.choice(words, size=rng.integers(1, 7)).tolist() for _ in range(n)]
    return [*corpus[:5], SENTENCE, *corpus[5:], corpus[3], SENTENCE]


CORPUS = random_corpus()


def docs_of(corpus=CORPUS):
    return (sentence_doc(Vocab(), sentence) for sentence in corpus)


def brute_force(position, select, wanted=lambda word: True):
    """All tokens, but for the one that is asked for, the nearest first."""
    _, warm = reference.layers(TINY_OPTIONS, DATA, [[]])

    def vectors(sentence):
        layers = select(reference.layers(TINY_OPTIONS, DATA, [sentence], warm)[0][0])
        return layers / np.linalg.norm(layers, axis=1, keepdims=True)

    asked = vectors(SENTENCE)[position]
    found = [
        (float(vector @ asked), sentence, i)
        for sentence in map(list, dict.fromkeys(map(tuple, CORPUS)))
        for i, vector in enumerate(vectors(sentence))
        if (sentence, i) != (SENTENCE, position) and wanted(sentence[i])
    ]
    return sorted(found, key=lambda row: -row[0])


def check(found, expected):
    assert [(list(one.sentence), one.position) for one in found] == [row[1:] for row in expected]
    np.testing.assert_allclose(
        [one.similarity for one in found], [row[0] for row in expected], atol=1e-5
    )


@pytest.mark.parametrize(
    ("layer", "select"),
    [
        ("top", lambda layers: layers[2]),
        ("0", lambda layers: layers[0]),
        ("1", lambda layers: layers[1]),
        ("average", lambda layers: layers.mean(axis=0)),
    ],
)
@pytest.mark.parametrize("position", [1, 3])
def test_nearest(make_nlp, layer, select, position):
    found = find_neighbors(make_nlp(), SENTENCE, position, docs_of(), layer=layer, n=7)
    expected = brute_force(position, select)
    if layer == "0":  # equal words have equal vectors there, in whatever order
        assert found[0].word == SENTENCE[position]
        expected_cosines = [row[0] for row in expected[:7]]
        np.testing.assert_allclose([one.similarity for one in found], expected_cosines, atol=1e-5)
    else:
        check(found, expected[:7])


@pytest.mark.parametrize("same_word", [True, False, None])
def test_same_word_other_words_and_all(make_nlp, same_word):
    found = find_neighbors(make_nlp(), SENTENCE, 1, docs_of(), n=1000, same_word=same_word)
    wanted = {same_word} if same_word is not None else {True, False}
    check(found, brute_force(1, lambda x: x[2], lambda word: (word.lower() == "play") in wanted))
    assert {one.word.lower() == "play" for one in found} == wanted


def test_one_batch_at_a_time(make_nlp, monkeypatch):
    nlp = make_nlp()
    pipe = nlp.get_pipe("elmo")
    n_read, sizes = [0], []

    def counted():
        for doc in docs_of():
            n_read[0] += 1
            yield doc

    def predict(docs, original=pipe.predict):
        sizes.append(len(docs))
        assert n_read[0] <= sum(sizes) + 1  # the next batch's first has been seen
        return original(docs)

    monkeypatch.setattr(corpora, "DOCS_AT_A_TIME", 3)
    monkeypatch.setattr(pipe, "predict", predict)
    found = find_neighbors(nlp, SENTENCE, 1, counted(), n=5)
    check(found, brute_force(1, lambda x: x[2])[:5])
    assert max(sizes) == 3


def test_sentences_of_annotated_docs(make_nlp):
    """A Doc is cut as the pipe cuts it, and shown by the sentence."""
    whole = CORPUS[0] + CORPUS[1] + CORPUS[2]
    starts = [i == 0 for sentence in CORPUS[:3] for i in range(len(sentence))]
    docs = [Doc(Vocab(), words=whole, sent_starts=starts), Doc(Vocab(), words=[])]
    nlp = make_nlp()
    found = find_neighbors(nlp, SENTENCE, 1, docs, n=1000)
    alone = find_neighbors(nlp, SENTENCE, 1, docs_of(CORPUS[:3]), n=1000)
    check(found, [(one.similarity, list(one.sentence), one.position) for one in alone])
    assert len(found) == len(whole)


def test_the_settings_of_the_pipe_hold(make_nlp):
    zeros = find_neighbors(make_nlp(initial_state="zeros"), SENTENCE, 1, docs_of(), n=3)
    warm = find_neighbors(make_nlp(), SENTENCE, 1, docs_of(), n=3)
    assert [one.similarity for one in zeros] != [one.similarity for one in warm]


@pytest.mark.parametrize("layer", ["3", "-1", "bottom", ""])
def test_no_such_layer(make_nlp, layer):
    with pytest.raises(ValueError, match=f"no layer '{layer}'. This model has 0, 1, 2, top, ave"):
        find_neighbors(make_nlp(), SENTENCE, 1, docs_of(), layer=layer)


def test_empty_corpus(make_nlp):
    with pytest.raises(ValueError, match="contains no tokens"):
        find_neighbors(make_nlp(), SENTENCE, 1, [Doc(Vocab(), words=[])])


# The token that is asked for


TOKENS = ["In", "2", "plays", ",", "3", "plays"]


@pytest.mark.parametrize(("wanted", "position"), [("0", 0), ("5", 5), ("2", 2), (",", 3)])
def test_position_or_word(wanted, position):
    assert find_token(TOKENS, wanted) == position


@pytest.mark.parametrize(
    ("tokens", "wanted", "message"),
    [
        (TOKENS, "6", "no token 6. The sentence has the tokens 0 to 5$"),
        (["In", "2010"], "2010", "0 to 1. The word '2010' is token 1$"),
        (TOKENS, "plays", "occurs 2 times in the sentence. Give the position: 2 or 5"),
        (TOKENS, "in", "no token of the sentence is 'in'. The tokens are 0 In, 1 2, 2 plays"),
        (TOKENS, "-1", "no token of the sentence is '-1'"),
        (TOKENS, "²", "no token of the sentence is '²'"),
        ([], "0", "has no token"),
    ],
)
def test_no_such_token(tokens, wanted, message):
    with pytest.raises(ValueError, match=message):
        find_token(tokens, wanted)
