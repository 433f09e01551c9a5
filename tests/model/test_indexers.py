"""Ids that a token encoder reads, against worked examples and the tests' own spelling."""

import numpy as np
import pytest

from spacy_elmo.bilm.model import BiLM
from spacy_elmo.model.config import BiLMConfig
from spacy_elmo.model.indexers import character_ids, make_indexer
from spacy_elmo.model.vocabulary import InputVocabulary, Vocabularies

from helpers import reference, reference_manylangs
from helpers.models import SENTENCES

CHARACTERS = InputVocabulary(["<oov>", "<bos>", "<eos>", "<bow>", "<eow>", "<pad>", "a", "é", "漢"])
WORDS = InputVocabulary(["<oov>", "<bos>", "<eos>", "a", "漢é", "aaaa"])
TWO = InputVocabulary(["a", "b"])
TOKENS = [token for sentence in SENTENCES for token in sentence] + ["é" * 40, "a" * 48, "a" * 49]


def manylangs(**changes):
    sizes = {"n_characters": 9, "n_words": 6, "word_embed_dim": 3, "filters": ((1, 4), (2, 3))}
    sizes |= {"max_characters_per_token": 6, **changes}
    return BiLMConfig(token_encoder="manylangs", **sizes)


def test_code_points_of_worked_examples():
    index = make_indexer(manylangs(), Vocabularies(CHARACTERS, WORDS))
    assert index.marks == ("<bos>", "<eos>")
    tokens = ["漢é", "<bos>", "<eos>", "aaaaaa", "x", "", "<pad>", "A"]
    characters, words = index(tokens)
    lines = "487355 413555 423555 466663 403555 435555 400603 403555"
    assert characters.tolist() == [[int(number) for number in line] for line in lines.split()]
    # The fourth is looked up as far as it is read.
    assert words.tolist() == [4, 1, 2, 5, 0, 0, 0, 0]


@pytest.mark.parametrize("most", [3, 5, 9, 40])
def test_code_points_against_another_spelling(most):
    vocabulary = InputVocabulary(reference_manylangs.CHARACTERS)
    sizes = {"n_characters": len(vocabulary), "n_words": 0, "word_embed_dim": 0}
    config = manylangs(**sizes, max_characters_per_token=most, filters=((most, 2),))
    index = make_indexer(config, Vocabularies(vocabulary))
    tokens = ["The", "", "\u3000", "é漢😀", "<eos>", "t" * 50, "\ud800", "<bos>x"]
    expected = [reference_manylangs.character_ids(token, most) for token in tokens]
    characters, words = index(tokens)
    np.testing.assert_array_equal(characters, expected)
    assert words is None
    assert index([])[0].shape[0] == 0


def test_known_words_have_a_vector_of_their_own():
    config = BiLMConfig(n_words=2, word_embed_dim=128)
    index = make_indexer(config, Vocabularies(words=TWO))
    characters, words = index(["b", "c", "<S>"])
    assert words.tolist() == [1, -1, -1]
    assert characters[0, :3].tolist() == [259, ord("b") + 1, 260]
    assert index.marks == ("<S>", "</S>")


@pytest.mark.parametrize(
    ("config", "vocabularies", "named"),
    [
        (manylangs(), Vocabularies(), "9 characters, but .* has 0"),
        (manylangs(n_words=7), Vocabularies(CHARACTERS, WORDS), "7 words, but .* has 6"),
        (manylangs(n_characters=6), Vocabularies(WORDS, WORDS), "characters lacks <pad>, <bow>"),
        (manylangs(n_words=2), Vocabularies(CHARACTERS, TWO), "words lacks <oov>, <bos>, <eos>"),
        (BiLMConfig(), Vocabularies(CHARACTERS), "0 characters, but .* has 9"),
        (BiLMConfig(), Vocabularies(words=WORDS), "0 words, but .* has 6"),
    ],
)
def test_vocabularies_that_contradict_the_sizes_are_refused(config, vocabularies, named):
    with pytest.raises(ValueError, match=named):
        BiLM(config, vocabularies)


@pytest.mark.parametrize("max_characters", [3, 4, 9, 50])
def test_character_ids_equal_those_of_the_reference(max_characters):
    ids = character_ids(TOKENS, max_characters=max_characters)
    expected = [reference.character_ids(token, max_characters) for token in TOKENS]
    np.testing.assert_array_equal(ids, expected)


@pytest.mark.parametrize("widest", [1, 3, 7])
@pytest.mark.parametrize("tokens", [["a", "bcd"], ["", "<S>"], ["a" * 30], ["</S>"]])
def test_padding_that_is_left_out_has_no_window_of_its_own(tokens, widest):
    """Every window of every filter up to the widest is one of those that are kept."""
    full = character_ids(tokens, max_characters=20)
    cut = character_ids(tokens, max_characters=20, widest_filter=widest)
    assert cut.shape[1] <= full.shape[1]
    for width in range(1, widest + 1):
        for long, short in zip(full.tolist(), cut.tolist()):
            windows = [
                {tuple(row[i : i + width]) for i in range(len(row) - width + 1)}
                for row in (long, short)
            ]
            assert windows[0] == windows[1]
    if tokens == ["a", "bcd"] and widest == 3:
        assert cut.shape[1] < full.shape[1]
