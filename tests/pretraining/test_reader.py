"""Reader of a run: its ids are those of the indexer, and threads and tables change nothing."""

import threading

import numpy as np
import pytest
import torch

from spacy_elmo.language_model.windows import TrainingStreams, distinct
from spacy_elmo.model.config import BiLMConfig
from spacy_elmo.model.indexers import CODE_POINT_SPECIAL, make_indexer
from spacy_elmo.model.vocabulary import InputVocabulary, Vocabularies, Vocabulary
from spacy_elmo.pretraining.config import CorpusSettings
from spacy_elmo.pretraining.losses import PendingLosses
from spacy_elmo.pretraining.noise import WindowTypes
from spacy_elmo.pretraining.reader import ReadAhead, TokenIdTable, WindowReader
from spacy_elmo.text.corpus import read_corpus

from helpers.trainers import CORPUS, make

WORDS = ["the", "naïve", "日本語", "don't", "<S>", "</S>", "x" * 30, "हिन्दी", "42", "", "ΣΟΦΟΣ"]
RNG = np.random.default_rng(0)
TEXT = read_corpus([[*RNG.choice([word for word in WORDS if word], 7)] for _ in range(60)])
SIZES = {"filters": ((1, 4), (3, 4)), "max_characters_per_token": 12, "projection_dim": 8}
CHARACTERS = InputVocabulary([*CODE_POINT_SPECIAL, *"thenaiv日本x4"])
READ = InputVocabulary(["<oov>", "<bos>", "<eos>", "the", "42"])
MANYLANGS = {**SIZES, "token_encoder": "manylangs", "n_characters": len(CHARACTERS)}
KINDS = {
    "bytes": (BiLMConfig(**SIZES), Vocabularies()),
    "words": (
        BiLMConfig(
            **{**SIZES, "filters": (), "n_highway": 0, "char_embed_dim": 0, "n_characters": 0},
            n_words=4,
            word_embed_dim=8,
        ),
        Vocabularies(words=InputVocabulary(["<S>", "</S>", "<UNK>", "the"])),
    ),
    "code points and words": (
        BiLMConfig(**MANYLANGS, n_words=len(READ), word_embed_dim=4),
        Vocabularies(CHARACTERS, READ),
    ),
}


def make_reader(kind="bytes", noise=0.3, n_kept=None, **settings):
    config, vocabularies = KINDS[kind]
    indexer = make_indexer(config, vocabularies)
    words = Vocabulary(["<S>", "</S>", "<UNK>", "the", "naïve"]).ids_of(TEXT.types)
    streams = TrainingStreams(TEXT, batch_size=4, unroll_steps=8, seed=0)
    corpus = CorpusSettings(train="a", dev="b", noise=noise, case_noise=noise)
    reader = WindowReader(streams, indexer, words, corpus, seed=3, **settings)
    if n_kept is not None:
        reader.token_ids = TokenIdTable(len(TEXT.types), indexer, n_kept)
    return reader, indexer


def without_padding(row):
    """Return the ids of a token up to the first padding, which is the last id of a short row."""
    ids = row.tolist()
    while len(ids) > 1 and ids[-1] == ids[-2]:
        ids.pop()
    return ids


@pytest.mark.parametrize("n_kept", [None, 0, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_ids_are_those_of_the_indexer(kind, n_kept):
    """Tokens are compared one by one, with a table of all types, of three types, and without a
    table."""
    reader, indexer = make_reader(kind, n_kept=n_kept)
    for step in (0, 1, 2, 1):
        window, types = reader._with_noise(reader.streams.at(step), step)
        (part,) = reader(step, step).parts
        characters, words = part.inputs.ids
        for item, row in zip(window.inputs.ravel().tolist(), part.inputs.rows.ravel().tolist()):
            token = indexer.marks[item] if item < 2 else types[item]
            expected = indexer([token])
            if characters is not None:
                found = without_padding(characters[row])
                assert found == without_padding(expected.characters[0]), token
            if words is not None:
                assert words[row] == expected.words[0], token
        if characters is not None:
            # The widest filter must reach beyond the longest token, as in the indexer's rows.
            longest = max(len(without_padding(row)) for row in characters)
            assert characters.shape[1] >= min(12, longest - 1 + 3)
        assert part.inputs.batch_sizes == window.batch_sizes


def test_targets_are_the_words_of_the_clean_text():
    reader, _ = make_reader()
    window, clean = reader(5, 2), reader.streams.at(2)
    np.testing.assert_array_equal(
        window.parts[0].targets, reader.word_of_type[clean.targets].ravel()
    )
    assert window.target_words.tolist() == sorted(set(window.parts[0].targets.tolist()))
    assert window.n_tokens == 32


def test_processes_and_parts_share_a_window():
    whole = make_reader()[0](1, 1).parts[0]
    parts = [
        part for rank in (0, 1) for part in make_reader(rank=rank, size=2, n_parts=2)[0](1, 1).parts
    ]
    assert [part.inputs.batch_sizes for part in parts] == [[1] * 8] * 4
    targets = np.stack([part.targets.reshape(2, 8, 1) for part in parts], axis=3)
    np.testing.assert_array_equal(targets.ravel(), whole.targets)


def test_distinct_equals_numpys_unique():
    for shape, most in (((2, 500), 40), ((7,), 10**6), ((0,), 3), ((3, 0), 3)):
        ids = np.random.default_rng(0).integers(most, size=shape).astype("int32")
        used, numbers = distinct(ids)
        expected, inverse = np.unique(ids, return_inverse=True)
        np.testing.assert_array_equal(used, expected)
        np.testing.assert_array_equal(numbers, inverse.reshape(shape))


def test_a_window_has_the_strings_of_its_ids():
    types = WindowTypes(CORPUS.types).plus(["one"]).plus(["two"])
    n = len(CORPUS.types)
    ids = np.array([0, 3, n, n + 1])
    assert types.strings(ids) == ["<S>", CORPUS.types[3], "one", "two"] == [types[i] for i in ids]
    assert len(types) == n + 2 and len(WindowTypes(CORPUS.types)) == n


def test_the_next_window_is_read_in_a_thread():
    read, has_read_last = [], threading.Event()

    def reader(step, number):
        read.append((step, number, threading.current_thread() is threading.main_thread()))
        if len(read) == 8:
            has_read_last.set()
        return step, number

    ahead = ReadAhead(reader)
    # The third call repeats a step, and the fourth continues at another place of the text.
    for wanted in ((0, 0), (1, 1), (1, 1), (2, 7), (3, 8)):
        assert ahead(*wanted) == wanted
    has_read_last.wait()
    assert [number for *number, is_main in read if is_main] == [[0, 0], [1, 1], [2, 7]]
    assert read[-1] == (4, 9, False)


def test_an_error_of_the_thread_is_raised_in_the_step_of_its_window():
    def reader(step, number):
        if step == 1:
            raise OSError("the disk is gone")
        return step

    ahead = ReadAhead(reader)
    assert ahead(0, 0) == 0
    with pytest.raises(OSError, match="the disk is gone"):
        ahead(1, 1)


@pytest.mark.training
def test_a_run_that_reads_ahead_has_the_same_weights():
    trainers = [make(is_pipelined=pipelined, max_steps=7, eval_frequency=3) for pipelined in (0, 1)]
    for trainer in trainers:
        trainer.run(on_evaluation=lambda *_: None)
    first, second = trainers
    assert second.progress.step == 7 and isinstance(second.read, ReadAhead)
    assert first.progress.sampled_loss == second.progress.sampled_loss
    assert all(map(torch.equal, first.model.parameters(), second.model.parameters()))


@pytest.mark.training
def test_a_loss_that_is_not_finite_is_found_a_step_later():
    trainer = make(is_pipelined=True)
    original = trainer.model.softmax.loss
    trainer.start_step()
    trainer.model.softmax.loss = lambda *args: original(*args) * torch.nan
    trainer.start_step()
    with pytest.raises(FloatingPointError, match="at step 1: lower"):
        trainer.start_step()
    assert trainer.progress.step == 1  # checkpoints of this step are set aside
    assert len(trainer.progress.losses) == 1


def test_losses_wait_for_the_next_step():
    losses = PendingLosses(n_waiting=1)
    for step in range(3):
        losses.add(step, torch.tensor(float(step)))
    assert losses.take() == [(0, 0.0), (1, 1.0)]
    assert losses.take() == []
    assert losses.take(n_waiting=0) == [(2, 2.0)]
