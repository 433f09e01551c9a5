"""Noise on the language model's input: misspelled words and changed letter case."""

import numpy as np
import pytest

from spacy_elmo.language_model.windows import TrainingStreams
from spacy_elmo.pretraining.config import check_config
from spacy_elmo.pretraining.noise import (
    WindowTypes,
    change_case_of_inputs,
    misspell,
    misspell_inputs,
    spelling_of,
)
from spacy_elmo.pretraining.run import pretrain
from spacy_elmo.text.corpus import read_corpus

from helpers.runs import RANDOM, arrays, assert_same_arrays, run_config

SENTENCES = [["Misspelled", "words", "of", "42", "texts", ",", "naïve", "<S>"]] * 60
CORPUS = read_corpus(SENTENCES)
TYPES = WindowTypes(CORPUS.types)


def is_one_edit(word, other):
    """Return whether a letter is left out, added or replaced, or two are swapped."""
    rests = [(word[i:], other[i:]) for i in range(len(word) + 1) if word[:i] == other[:i]]
    edited = (
        new in (old[1:], old[1::-1] + old[2:]) or new[1:] in (old, old[1:]) for old, new in rests
    )
    return word != other and any(edited)


def window_of(step, corpus=CORPUS):
    return TrainingStreams(corpus, batch_size=4, unroll_steps=50, seed=0).at(step)


def test_words_are_misspelled_by_one_edit():
    rng = np.random.default_rng(0)
    found = [misspell("words", [*"aé"], rng) for _ in range(300)]
    assert all(is_one_edit("words", word) for word in found)
    # Left out, doubled, replaced, added, changed places.
    assert {"wods", "woords", "wérds", "woérds", "owrds"} < {*found}


# A letter with its marks is one character: in Hindi, Tamil, Thai, Malayalam with a joiner, and
# with a separate accent.
MARKED = {
    "हिन्दी": ["हि", "न्", "दी"],
    "தமிழ்": ["த", "மி", "ழ்"],
    "ที่นี่ดี": ["ที่", "นี่", "ดี"],
    "അവന്\u200d": ["അ", "വ", "ന്\u200d"],
    "cafe\u0301": ["c", "a", "f", "e\u0301"],
    "don't": [*"don't"],
    "rock\u2019n": [*"rock\u2019n"],
    "e-mail": [*"e-mail"],
    "col·lega": [*"col·lega"],
}


@pytest.mark.parametrize("word", MARKED, ids=ascii)
def test_words_of_other_scripts_and_with_signs_are_misspelled(word):
    assert [*spelling_of(word).characters] == MARKED[word]
    corpus = read_corpus([[word, "42"]] * 60)
    window = window_of(0, corpus)
    noisy, types = misspell_inputs(
        window, WindowTypes(corpus.types), 0.99, np.random.default_rng(1)
    )
    found = {types[i] for i in noisy.inputs.ravel().tolist()} - {*corpus.types}
    assert found, "the word is never misspelled"
    letters = [one for one in MARKED[word] if one[0].isalpha()]
    rng = np.random.default_rng(0)
    for other in {*found, *(misspell(word, letters, rng) for _ in range(200))}:
        assert other == word or is_one_edit(MARKED[word], [*spelling_of(other).characters])


@pytest.mark.parametrize(
    "text",
    ["42", "of", "'s", "--", "<UNK>", "U.S.", "covid-19", "\u0301ab", "वह", "a-b", ""],
)
def test_words_with_digits_signs_or_few_letters_stay(text):
    """Words with fewer than three letters cannot be misspelled."""
    assert not spelling_of(text).can_be_misspelled


def test_only_words_of_letters_are_misspelled_and_targets_stay():
    window = window_of(0)
    before = window.inputs.copy()
    noisy, types = misspell_inputs(window, TYPES, 0.99, np.random.default_rng(1))
    assert (window.inputs == before).all()
    assert noisy.targets is window.targets and noisy.batch_sizes == window.batch_sizes
    changed = noisy.inputs != before
    read = {types[i] for i in noisy.inputs[~changed].tolist()}
    assert {"of", "42", ",", "<S>", "</S>"} <= read
    pairs = {(types[a], types[b]) for a, b in zip(before[changed], noisy.inputs[changed])}
    assert {word for word, _ in pairs} == {"Misspelled", "words", "texts", "naïve"}
    assert len(pairs) == 4  # one misspelling of a word in a window
    assert all(is_one_edit(word, other) for word, other in pairs)


def test_noise_is_the_share_of_misspelled_words():
    rng = np.random.default_rng(2)
    windows = [window_of(step) for step in range(200)]
    words = [CORPUS.types.index(word) for word in ("Misspelled", "words", "texts", "naïve")]
    noisy = [misspell_inputs(window, TYPES, 0.1, rng)[0] for window in windows]
    changed = sum((a.inputs != b.inputs).sum() for a, b in zip(windows, noisy))
    total = sum(np.isin(window.inputs, words).sum() for window in windows)
    assert changed / total == pytest.approx(0.1, rel=0.05)


def test_case_changes_for_whole_streams_and_targets_stay():
    window = window_of(0)
    before = window.inputs.copy()
    n_streams = window.batch_sizes[0]
    found = set()
    for seed in range(20):
        noisy, types = change_case_of_inputs(window, TYPES, 0.6, np.random.default_rng(seed))
        assert (window.inputs == before).all()
        assert noisy.targets is window.targets and noisy.batch_sizes == window.batch_sizes
        for stream in range(n_streams):
            read, clean = (
                [types[i] for i in inputs[:, stream::n_streams].ravel().tolist()]
                for inputs in (noisy.inputs, before)
            )
            # The marks of sentences have one spelling in any case.
            words = [(new, old) for new, old in zip(read, clean) if old not in ("<S>", "</S>")]
            assert len(read) == len(clean) and len(words) < len(read)
            assert {"<S>", "</S>"} >= {*read} - {new for new, _ in words}
            cases = [
                case
                for case in (str, str.lower, str.upper)
                if all(new == case(old) for new, old in words)
            ]
            assert cases
            found.add(cases[0])
    assert found == {str, str.lower, str.upper}


def test_case_noise_is_the_share_of_streams():
    rng = np.random.default_rng(3)
    windows = [window_of(step) for step in range(300)]
    shares = {}
    for window in windows:
        noisy, types = change_case_of_inputs(window, TYPES, 0.4, rng)
        for word in ("misspelled", "MISSPELLED", "Misspelled"):
            count = sum(types[i] == word for i in noisy.inputs.ravel().tolist())
            shares[word] = shares.get(word, 0) + count
    total = sum(shares.values())
    # 1,200 draws of a stream: the standard deviation of a share is below 0.015.
    assert shares["misspelled"] / total == pytest.approx(0.3, abs=0.06)
    assert shares["MISSPELLED"] / total == pytest.approx(0.1, abs=0.06)


def test_misspelled_words_keep_their_changed_case():
    rng = np.random.default_rng(4)
    window, types = change_case_of_inputs(window_of(0), TYPES, 0.99, rng)
    noisy, types = misspell_inputs(window, types, 0.99, rng)
    read = {types[i] for i in noisy.inputs.ravel().tolist()}
    assert "words" not in read and any(is_one_edit("words", word) for word in read)
    assert any(is_one_edit("TEXTS", word) for word in read)


@pytest.mark.training
@pytest.mark.parametrize("kind", ["noise", "case_noise"])
def test_a_run_with_noise_is_resumed_bit_by_bit(folder, kind):
    def run(steps, output, noise=0.5):
        settings = {**RANDOM, "decay": "none", "max_steps": steps, "checkpoint_minutes": 1e-9}
        config = run_config(folder, **settings)
        config["corpus"][kind] = noise
        assert pretrain(check_config(config), folder / output, resume=True)
        return arrays(folder / output)

    run(4, "parts")
    whole, clean = run(6, "whole"), run(6, "clean", noise=0.0)
    assert_same_arrays(run(6, "parts"), whole)
    assert any((clean[name] != whole[name]).any() for name in whole)
