"""Vocabularies: order, ids, and files that keep every id."""

import copy

import pytest

from spacy_elmo.model.vocabulary import InputVocabulary, Vocabulary
from spacy_elmo.text.corpus import read_corpus

SPECIAL = ["<S>", "</S>", "<UNK>"]
CORPUS = read_corpus(
    [["b", "a", "ü", "d"], ["b", "a", "ü"], ["b", "<UNK>", "<S>", "</S>", "<UNK>", "<UNK>", "c"]]
)


@pytest.mark.parametrize(
    ("min_count", "max_size", "words"),
    [
        (1, 100, ["b", "a", "ü", "c", "d"]),
        (2, 100, ["b", "a", "ü"]),
        (4, 100, []),
        (1, 5, ["b", "a"]),
    ],
)
def test_words_are_ordered_by_count_then_spelling(min_count, max_size, words):
    vocabulary = Vocabulary.from_counts(
        CORPUS.types, CORPUS.counts(), min_count=min_count, max_size=max_size
    )
    assert vocabulary.words == SPECIAL + words


def test_ids_are_positions_and_unknown_words_share_one():
    vocabulary = Vocabulary([*SPECIAL, "b", "ü"])
    types = ["ü", "b", "nothing", "<UNK>", "</S>", "<S>", "", "B"]
    assert vocabulary.ids_of(types).tolist() == [4, 3, 2, 2, 1, 0, 2, 2]
    ours = InputVocabulary(["a", None, "", "漢"])
    assert (len(ours), ours["漢"], ours.ids_of(["漢", "b", ""], 9).tolist()) == (4, 3, [3, 9, 2])
    assert "" in ours and None not in ours
    assert copy.deepcopy(ours) is ours


def test_a_file_keeps_every_word(tmp_path):
    words = [*SPECIAL, "ü", "a b", "", "日本", "\u2028"]
    Vocabulary(words).to_disk(tmp_path / "vocab.txt")
    content = (tmp_path / "vocab.txt").read_bytes()
    assert content == b"<S>\n</S>\n<UNK>\n\xc3\xbc\na b\n\n\xe6\x97\xa5\xe6\x9c\xac\n\xe2\x80\xa8\n"
    assert Vocabulary.from_disk(tmp_path / "vocab.txt").words == words


@pytest.mark.parametrize(
    "strings", [[], ["a", None, None, ""], ['"\n\t\\\0', "\ud800", "😀", "  "]]
)
def test_bytes_keep_every_word(strings):
    data = InputVocabulary(strings).to_bytes()
    assert list(InputVocabulary.from_bytes(data, len(strings)).strings) == strings


@pytest.mark.parametrize("word", ["a\nb", "a\rb", "\ud800"])
def test_odd_words_move_no_other_ids(tmp_path, word):
    corpus = read_corpus([[word, word, "z"]])
    vocabulary = Vocabulary.from_counts(corpus.types, corpus.counts(), min_count=1, max_size=9)
    vocabulary.to_disk(tmp_path / "vocab.txt")
    again = Vocabulary.from_disk(tmp_path / "vocab.txt")
    assert again.ids_of(["z", "<UNK>"]).tolist() == vocabulary.ids_of(["z", "<UNK>"]).tolist()
    assert len(again) == len(vocabulary)


@pytest.mark.parametrize(
    ("kind", "words", "message"),
    [
        (Vocabulary, ["</S>", "<S>", "<UNK>"], "starts with <S>, </S>, <UNK>"),
        (Vocabulary, [*SPECIAL, "<S>"], "appears twice"),
        (InputVocabulary, ["", "a", ""], "appears twice"),
        (Vocabulary, [*SPECIAL, "the", "a\nb"], r"line break: 'a\\nb'"),
    ],
)
def test_impossible_vocabularies_are_refused(kind, words, message):
    with pytest.raises(ValueError, match=message):
        kind(words)
