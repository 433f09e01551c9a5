import numpy as np
import pytest

from spacy_elmo.pretraining.batches import Streams, TrainingBatches, evaluation_windows
from spacy_elmo.pretraining.corpus import read_corpus

S, E = "<S>", "</S>"


def random_sentences(n, seed=0):
    rng = np.random.default_rng(seed)
    return [[f"w{i}" for i in rng.integers(9, size=rng.integers(1, 8))] for _ in range(n)]


def brute_force(sentences):
    """(inputs, targets) of both directions."""
    streams = []
    for forward in (True, False):
        inputs, targets = [], []
        for sentence in sentences:
            whole = [S, *sentence, E] if forward else [E, *sentence[::-1], S]
            inputs += whole[:-1]
            targets += whole[1:]
        streams.append((inputs, targets))
    return streams


def strings(corpus, ids):
    return [[corpus.types[i] for i in row] for row in ids]


@pytest.mark.parametrize(
    "sentences", [[["a"]], [["a", "b", "c"], ["d"], ["a", "a"]], random_sentences(30)]
)
def test_streams(sentences):
    corpus = read_corpus(sentences)
    streams = Streams(corpus)
    expected = brute_force(sentences)
    assert len(streams) == len(expected[0][0])
    assert strings(corpus, streams.inputs) == [inputs for inputs, _ in expected]
    assert strings(corpus, streams.targets) == [targets for _, targets in expected]


@pytest.mark.parametrize("sentences", [random_sentences(40, 1), [["a", "b"]]])
@pytest.mark.parametrize(("batch_size", "unroll_steps"), [(1, 5), (4, 7), (3, 1), (500, 3)])
def test_rows_read_on_and_on(sentences, batch_size, unroll_steps):
    corpus = read_corpus(sentences)
    streams = Streams(corpus)
    batches = TrainingBatches(streams, batch_size=batch_size, unroll_steps=unroll_steps, seed=3)
    length, n_rows, n_steps = len(streams), batches.batch_size, batches.unroll_steps
    assert n_steps == min(unroll_steps, length)
    assert n_rows == max(1, min(batch_size, length // n_steps))
    assert batches.tokens_per_step == n_rows * n_steps
    expected = brute_force(sentences)
    starts = []
    for epoch in range(3):
        windows = [
            batches.at(epoch * batches.steps_per_epoch + i) for i in range(batches.steps_per_epoch)
        ]
        for window in windows:
            assert window.batch_sizes == [n_rows] * n_steps
        for direction in range(2):
            rows = [
                np.concatenate([w[direction].reshape(n_steps, n_rows) for w in found])
                for found in ([w.inputs for w in windows], [w.targets for w in windows])
            ]
            inputs, targets = (strings(corpus, array.T) for array in rows)
            # Somewhere in the text, every row reads on without a gap, the rows side by side.
            offsets = [
                offset
                for offset in range(length)
                if all(
                    row
                    == [expected[direction][kind][(first + i) % length] for i in range(len(row))]
                    for kind, read in ((0, inputs), (1, targets))
                    for number, row in enumerate(read)
                    for first in [offset + number * (length // n_rows)]
                )
            ]
            assert offsets
            starts.append((epoch, offsets))
    assert 0 in dict(starts)[0]
    if length > 50:
        assert dict(starts)[1] != dict(starts)[2] != dict(starts)[0]


def test_an_epoch_leaves_out_less_than_a_window_a_row():
    streams = Streams(read_corpus(random_sentences(50)))
    batches = TrainingBatches(streams, batch_size=4, unroll_steps=6, seed=0)
    read = batches.steps_per_epoch * batches.tokens_per_step
    assert len(streams) - 4 * 6 - 4 < read <= len(streams)


def test_iteration_and_seed():
    streams = Streams(read_corpus(random_sentences(50)))
    one, same, other = (
        TrainingBatches(streams, batch_size=4, unroll_steps=6, seed=seed) for seed in (0, 0, 1)
    )
    step = one.steps_per_epoch
    for number, window in zip(range(step + 2), one):
        np.testing.assert_array_equal(window.inputs, same.at(number).inputs)
    assert (one.at(step).inputs != other.at(step).inputs).any()


@pytest.mark.parametrize("n_streams", [1, 3, 8, 100])
@pytest.mark.parametrize("unroll_steps", [1, 4, 1000])
def test_evaluation_reads_every_item_once(n_streams, unroll_steps):
    sentences = random_sentences(17, 2) + [["long"] * 40]
    corpus = read_corpus(sentences)
    streams = Streams(corpus)
    n_rows, windows = evaluation_windows(streams, n_streams=n_streams, unroll_steps=unroll_steps)
    assert 1 <= n_rows <= min(n_streams, len(sentences))
    rows = [[] for _ in range(n_rows)]
    for window in windows:
        assert len(window.batch_sizes) <= unroll_steps
        assert window.batch_sizes == sorted(window.batch_sizes, reverse=True)
        item = 0
        for size in window.batch_sizes:
            for row in range(size):
                rows[row].append((*window.inputs[:, item], *window.targets[:, item]))
                item += 1
        assert item == window.inputs.shape[1]
    (inputs, targets), (back_inputs, back_targets) = brute_force(sentences)
    everything = list(zip(inputs, back_inputs, targets, back_targets))
    read = [[tuple(corpus.types[i] for i in item) for item in row] for row in rows]
    first = 0  # the rows, put in the order of the text, are the whole text
    while read:
        row = next(row for row in read if row == everything[first : first + len(row)])
        assert row[0][:2] == (S, E)  # starts with a sentence
        first += len(row)
        read.remove(row)
    assert first == len(everything)
