"""Words that a text format cannot hold, and what `convert` does about them."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from spacy_elmo.bilm.model import BiLM
from spacy_elmo.bilm.softmax import freeze
from spacy_elmo.frozen.config import NO_CHARACTERS
from spacy_elmo.frozen.vocabulary import InputVocabulary, Vocabularies
from spacy_elmo.language_model.frozen import read_language_model
from spacy_elmo.weights import read_weights
from spacy_elmo.weights.bundle import ModelBundle
from spacy_elmo.weights.convert import convert
from spacy_elmo.weights.safetensors_file import SafetensorsFile

from helpers.conversions import assert_same_vectors, make_model
from helpers.models import check_refused, tiny_bilm

MARKS = ["<S>", "</S>", "<UNK>"]
WORDS = [*MARKS, "the", " ", "  ", "\u00a0", "!!!MAXTERMID", "a\rb", "in\u2028", " cat", "dog"]
WRONG = WORDS[4:-1]


def read_as_bilm_tf(path):
    """Words by line, as `Vocabulary` of bilm-tf's data.py reads them."""
    words = []
    with open(path, encoding="utf8") as lines:
        for line in lines:
            word = line.strip()
            if word != "!!!MAXTERMID":
                words.append(word)
    return words


def reads_words(words, **sizes):
    """A model that reads these words, with random weights."""
    sizes = {"n_words": len(words), "word_embed_dim": 5, **sizes}
    bilm = BiLM(replace(tiny_bilm().config, **sizes), Vocabularies(words=InputVocabulary(words)))
    torch.manual_seed(0)
    for parameter in bilm.parameters():
        torch.nn.init.normal_(parameter)
    return bilm.freeze()


def words_alone(words):
    return reads_words(words, **NO_CHARACTERS)


def write_model(folder, words, kind):
    """RETURNS (Path): A model that reads, predicts, or reads and predicts these words."""
    bilm = tiny_bilm() if kind == "predicted" else words_alone(words)
    model = make_model(words=words)
    prediction = None if kind == "read" else (freeze(model.softmax), model.vocabulary)
    folder.mkdir()
    SafetensorsFile.write(ModelBundle(bilm, prediction, "en"), folder / "x.safetensors")
    return folder / "x.safetensors"


@pytest.mark.parametrize("kind", ["read", "predicted", "both"])
def test_words_that_no_line_holds(tmp_path, kind):
    source, target = write_model(tmp_path / "a", WORDS, kind), tmp_path / "out" / "weights.hdf5"
    message = check_refused(
        lambda: convert(source, target, allow_loss=True),
        "vocab.txt cannot store",
        *map(repr, WRONG[:5]),
        ", 2 others",
        "NAME.safetensors or a pipeline",
    )
    assert ("keep_softmax=False" in message) == (kind == "predicted")
    assert not target.parent.exists()
    convert(source, tmp_path / "pipeline", lang="en")
    assert_same_vectors(tmp_path / "pipeline", source)
    if kind != "read":
        assert read_language_model(tmp_path / "pipeline").vocabulary.words == WORDS
    if kind == "predicted":
        convert(source, target, keep_softmax=False)
        assert_same_vectors(target, source)


@pytest.mark.parametrize("word", WRONG)
def test_each_of_them(tmp_path, word):
    source = write_model(tmp_path / "a", [*MARKS, word, "end"], "read")
    check_refused(lambda: convert(source, tmp_path / "weights.hdf5"), repr(word))


@pytest.mark.parametrize("kind", ["read", "predicted", "both"])
def test_words_that_lines_hold(tmp_path, kind):
    words = [*MARKS, "a b", "\ufeffx", "日本", "!!!", "in\u2028side", "x\x1cy", "end"]
    source = write_model(tmp_path / "a", words, kind)
    convert(source, tmp_path / "weights.hdf5")
    assert read_as_bilm_tf(tmp_path / "vocab.txt") == words
    assert_same_vectors(tmp_path / "weights.hdf5", source)
    vectors = read_weights(tmp_path / "weights.hdf5").token_vectors(words)
    np.testing.assert_array_equal(vectors, read_weights(source).token_vectors(words))


def test_ids_whose_word_has_a_later_one(tmp_path):
    """The last of equal lines counts: their ids are written so that no word changes its row."""
    bilm = words_alone([*MARKS, None, "cat", None, "the"])
    source = tmp_path / "x.safetensors"
    SafetensorsFile.write(ModelBundle(bilm, lang="en"), source)
    convert(source, tmp_path / "weights.hdf5")
    rows = {word: row for row, word in enumerate(read_as_bilm_tf(tmp_path / "vocab.txt"))}
    assert rows == {"<S>": 0, "</S>": 1, "<UNK>": 2, "cat": 4, "the": 6}
    again = read_weights(tmp_path / "weights.hdf5")
    tokens = ["", "cat", "the", "dog", "<S>"]
    np.testing.assert_array_equal(again.token_vectors(tokens), bilm.token_vectors(tokens))


def test_ready_made_vectors_beside_characters(tmp_path):
    """No program reads them from the HDF5 file of a model that has characters."""
    source = tmp_path / "x.safetensors"
    SafetensorsFile.write(ModelBundle(reads_words([*MARKS, "the"]), lang="en"), source)
    check_refused(
        lambda: convert(source, tmp_path / "weights.hdf5"), "word vectors in addition to characters"
    )
    assert not (tmp_path / "weights.hdf5").exists()
    convert(source, tmp_path / "b.safetensors")
    assert_same_vectors(tmp_path / "b.safetensors", source)
