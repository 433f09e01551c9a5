"""Sentences sampled from a frozen language model: their frequencies, their seeds, and the
command."""

from itertools import islice

import numpy as np
import pytest

from spacy_elmo.language_model.frozen import read_language_model, sample_sentences

from helpers import reference
from helpers.commands import run_elmo
from helpers.softmaxes import WORDS, bytes_model, forward_model, write_model


@pytest.fixture
def model(tmp_path):
    write_model(tmp_path / "model", *bytes_model())
    return read_language_model(tmp_path / "model")


def draw(model, n=4, **settings):
    return list(islice(sample_sentences(model, max_tokens=12, **settings), n))


def test_a_low_temperature_takes_the_likeliest_words(model):
    """numpy computes the words in float64; the state is kept from sentence to sentence."""
    options, datasets = bytes_model()
    cells, expected = None, []
    for _ in range(2):
        sentence, read = [], ["<S>", "the"]
        while len(sentence) < 11:
            found, cells = reference.log_probabilities(options, datasets, read, 0, cells)
            order = [WORDS[i] for i in np.argsort(-found[-1])]
            word = next(word for word in order if word not in ("<S>", "<UNK>"))
            if word == "</S>":
                break
            sentence.append(word)
            read = [word]
        else:  # the last word is read, too, before the next sentence
            _, cells = reference.log_probabilities(options, datasets, read, 0, cells)
        expected.append(["the", *sentence])
    assert draw(model, 2, start=["the"], temperature=1e-4) == expected


def test_a_seed_gives_the_same_sentences(model):
    one, same, other = (draw(model, 8, seed=seed) for seed in (1, 1, 2))
    assert one == same != other
    words = {word for sentence in one for word in sentence}
    assert words <= set(model.vocabulary.words) - {"<S>", "</S>", "<UNK>"}
    assert max(map(len, one)) <= 12


def test_words_are_drawn_with_their_probabilities(model):
    """Each of 400 seeds draws the first word of a sentence, from a state of zeros."""
    options, datasets = bytes_model()
    found, _ = reference.log_probabilities(options, datasets, ["<S>"], 0)
    expected = np.exp(found[0])
    expected[[WORDS.index("<S>"), WORDS.index("<UNK>")]] = 0
    expected /= expected.sum()
    first = [next(sample_sentences(model, max_tokens=1, seed=seed)) for seed in range(400)]
    names = [sentence[0] if sentence else "</S>" for sentence in first]
    shares = np.array([names.count(word) for word in WORDS]) / len(names)
    # Four standard deviations of a share: none of some dozen words is farther off by chance.
    assert (np.abs(shares - expected) <= 4 * np.sqrt(expected * (1 - expected) / 400)).all()


def test_impossible_numbers_are_refused(model):
    for settings in ({"temperature": 0.0}, {"max_tokens": 0}):
        with pytest.raises(ValueError, match="temperature must be above 0"):
            next(sample_sentences(model, **settings))


@pytest.mark.commands
def test_the_command_repeats_its_output(tmp_path):
    write_model(tmp_path / "forward", *forward_model())
    arguments = ("sample", tmp_path / "forward", "--n", 3, "--max-tokens", 9)
    first, second = (run_elmo(*arguments) for _ in range(2))
    assert first.stdout == second.stdout
    assert len(first.stdout.splitlines()) == 3
