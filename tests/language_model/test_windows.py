import numpy as np
import pytest

from spacy_elmo.language_model.windows import Streams, TrainingBatches, evaluation_windows
from spacy_elmo.text.corpus import read_corpus

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
    "sentences",
    [
        [["a"]],
        [["a", "b", "c"], ["d"], ["a", "a"]],
        random_sentences(30) + [[S, "a", S], [E], [S], ["b", E, S, "a"]],  # marks that are words
    ],
)
def test_streams(sentences):
    """In any order, more than once."""
    corpus = read_corpus(sentences)
    streams = Streams(corpus)
    expected = brute_force(sentences)
    n_items = len(expected[0][0])
    assert len(streams) == n_items
    positions = np.append(np.arange(n_items), np.random.default_rng(0).integers(n_items, size=100))
    window = streams.window(positions, [len(positions)])
    for kind, found in enumerate((window.inputs, window.targets)):
        assert found.dtype == np.int32
        wanted = [[direction[kind][i] for i in positions] for direction in expected]
        assert strings(corpus, found) == wanted
    assert window.batch_sizes == [len(positions)]


@pytest.mark.parametrize("sentences", [random_sentences(40, 1), [["a", "b"]]])
@pytest.mark.parametrize(("batch_size", "unroll_steps"), [(1, 5), (4, 7), (3, 1), (500, 3)])
def test_rows_read_on_and_on(sentences, batch_size, unroll_steps):
    corpus = read_corpus(sentences)
    streams = Streams(corpus)
    batches = TrainingBatches(streams, batch_size=batch_size, unroll_steps=unroll_steps, seed=3)
    length, n_rows, n_steps = len(streams), batches.batch_size, batches.unroll_steps
    assert n_steps == min(unroll_steps, length)
    assert n_rows == max(1, min(batch_size, length // n_steps))
    assert (batches.batch_size, batches.unroll_steps) == (n_rows, n_steps)
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
    read = batches.steps_per_epoch * batches.batch_size * batches.unroll_steps
    assert len(streams) - 4 * 6 - 4 < read <= len(streams)


def test_seed():
    streams = Streams(read_corpus(random_sentences(50)))
    one, same, other = (
        TrainingBatches(streams, batch_size=4, unroll_steps=6, seed=seed) for seed in (0, 0, 1)
    )
    step = one.steps_per_epoch
    for number in range(step + 2):
        np.testing.assert_array_equal(one.at(number).inputs, same.at(number).inputs)
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


@pytest.mark.parametrize("directions", ["same", "different"])
@pytest.mark.parametrize("n_parts", [1, 2, 3, 6])
def test_parts_of_a_window_are_the_whole(n_parts, directions):
    streams = Streams(read_corpus(random_sentences(60)))
    batches = TrainingBatches(
        streams, batch_size=6, unroll_steps=4, seed=0, directions=directions, multiple=n_parts
    )
    window = batches.at(batches.steps_per_epoch + 1)
    parts = [window.part(part, n_parts) for part in range(n_parts)]
    for part in parts:
        assert part.batch_sizes == [6 // n_parts] * 4
    for name in ("inputs", "targets"):
        rows = [getattr(part, name).reshape(2, 4, 6 // n_parts) for part in parts]
        whole = getattr(window, name).reshape(2, 4, 6)
        np.testing.assert_array_equal(np.concatenate(rows, axis=2), whole)


def test_different_directions_read_different_text():
    """Forwards as ever, backwards half the text ahead; both read all of it."""
    streams = Streams(read_corpus(random_sentences(60)))
    settings = {"batch_size": 4, "unroll_steps": 5, "seed": 0}
    same = TrainingBatches(streams, **settings)
    different = TrainingBatches(streams, **settings, directions="different")
    everything = streams.window(np.arange(len(streams)), [1] * len(streams))
    half = len(streams) // 2
    for step in (0, 1, same.steps_per_epoch - 1, same.steps_per_epoch + 2):
        one, other = same.at(step), different.at(step)
        assert one.batch_sizes == other.batch_sizes
        offset = 0
        if step >= same.steps_per_epoch:
            offset = int(np.random.default_rng([0, 1]).integers(len(streams)))
        rows = np.arange(4) * (len(streams) // 4)
        steps = np.arange(5) + step % same.steps_per_epoch * 5
        positions = (offset + steps[:, None] + rows).ravel()
        for name in ("inputs", "targets"):
            ours, text = getattr(other, name), getattr(everything, name)
            np.testing.assert_array_equal(ours[0], getattr(one, name)[0])
            np.testing.assert_array_equal(ours[1], text[1, (positions + half) % len(streams)])


@pytest.mark.parametrize(
    ("batch_size", "fitting", "multiple"), [(6, 6, 4), (64, 20, 21), (5, 5, 2)]
)
def test_batch_that_cannot_be_shared_out(batch_size, fitting, multiple):
    streams = Streams(read_corpus([["a", "b", "c"]] * 10))  # 40 items
    with pytest.raises(
        ValueError, match=rf"\({batch_size}, {fitting} fit the text\) .* {multiple},"
    ):
        TrainingBatches(streams, batch_size=batch_size, unroll_steps=2, seed=0, multiple=multiple)


def test_short_text_has_as_many_streams_as_can_be_shared_out():
    streams = Streams(read_corpus([["a", "b", "c"]] * 10))  # 40 items
    sizes = [
        TrainingBatches(streams, batch_size=24, unroll_steps=3, seed=0, multiple=n).batch_size
        for n in (1, 2, 3, 4, 6, 8, 12)
    ]
    assert sizes == [13, 12, 12, 12, 12, 8, 12]


def items(windows):
    found = []
    for window in windows:
        assert window.batch_sizes == sorted(window.batch_sizes, reverse=True)
        assert sum(window.batch_sizes) == window.inputs.shape[1]
        found += zip(*window.inputs.tolist(), *window.targets.tolist())
    return sorted(found)


@pytest.mark.parametrize("max_items", [0, 1, 37, 10**6])
@pytest.mark.parametrize("n_parts", [1, 2, 3, 20])
def test_parts_of_an_evaluation_are_the_whole(n_parts, max_items):
    """More parts than streams: some have nothing to read."""
    streams = Streams(read_corpus(random_sentences(23, 5)))
    settings = {"n_streams": 7, "unroll_steps": 6, "max_items": max_items}
    n_streams, whole = evaluation_windows(streams, **settings)
    parts = [
        evaluation_windows(streams, **settings, part=part, n_parts=n_parts)
        for part in range(n_parts)
    ]
    assert sum(n for n, _ in parts) == n_streams
    whole = items(whole)
    assert sorted(item for _, windows in parts for item in items(windows)) == whole
    if max_items in (0, 10**6):
        everything = streams.window(np.arange(len(streams)), [])
        read = zip(*everything.inputs.tolist(), *everything.targets.tolist())
        assert whole == sorted(read)


@pytest.mark.parametrize("max_items", [5, 20, 50])
def test_some_items_from_the_start_of_every_stream(max_items):
    sentences = random_sentences(40, 3)
    streams = Streams(read_corpus(sentences))
    n_streams, windows = evaluation_windows(streams, n_streams=5, unroll_steps=4)
    lengths = np.zeros(n_streams, int)
    firsts = None
    for window in windows:
        firsts = window.inputs[:, :n_streams] if firsts is None else firsts
        for size in window.batch_sizes:
            lengths[:size] += 1
    each = -(-max_items // n_streams)
    assert each <= lengths.min()
    n_found, windows = evaluation_windows(streams, n_streams=5, unroll_steps=4, max_items=max_items)
    windows = list(windows)
    assert n_found == n_streams
    assert [size for window in windows for size in window.batch_sizes] == [n_streams] * each
    # The streams start where they start without a bound, whatever their order.
    assert sorted(windows[0].inputs[:, :n_streams].T.tolist()) == sorted(firsts.T.tolist())
