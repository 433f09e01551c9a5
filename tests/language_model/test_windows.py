"""Windows of training and evaluation: each stream reads on where its last window ended, and nothing
is read twice."""

from types import SimpleNamespace

import numpy as np
import pytest

from spacy_elmo.language_model import windows as module
from spacy_elmo.language_model.windows import TrainingStreams, Window, evaluation_windows
from spacy_elmo.text.corpus import read_corpus

S, E = "<S>", "</S>"


def random_sentences(n, seed=0):
    rng = np.random.default_rng(seed)
    return [[f"w{i}" for i in rng.integers(9, size=rng.integers(1, 8))] for _ in range(n)]


@pytest.mark.parametrize(
    "sentences",
    [
        [["a"]],
        [["a", "b", "c"], ["d"], ["a", "a"]],
        random_sentences(30) + [[S, "a", S], [E], [S], ["b", E, S, "a"]],  # marks that are words
    ],
)
def test_both_directions_read_sentence_by_sentence(sentences):
    """Positions can be asked for in any order, and more than once."""
    corpus = read_corpus(sentences)
    items = []
    for sentence in sentences:
        forward, backward = [S, *sentence, E], [E, *sentence[::-1], S]
        items += zip(forward, backward, forward[1:], backward[1:])
    assert len(corpus.tokens) == len(items)
    random = np.random.default_rng(0).integers(len(items), size=100)
    positions = np.append(np.arange(len(items)), random)
    window = module.make_window(corpus, positions, [len(positions)])
    assert {window.inputs.dtype, window.targets.dtype} == {np.dtype("int32")}
    found = zip(*window.inputs.tolist(), *window.targets.tolist())
    assert [tuple(corpus.types[i] for i in ids) for ids in found] == [items[i] for i in positions]
    assert window.batch_sizes == [len(positions)]


@pytest.fixture
def positions(monkeypatch):
    """Return a function that makes a corpus whose windows have positions as inputs, and the next
    positions as targets."""

    def make_window(corpus, positions, batch_sizes):
        inputs = np.stack([positions, positions])
        return Window(inputs, inputs + 1, batch_sizes)

    monkeypatch.setattr(module, "make_window", make_window)
    return lambda starts, n: SimpleNamespace(tokens=range(n), starts=np.array(starts))


@pytest.mark.parametrize("directions", ["same", "different"])
@pytest.mark.parametrize("length", [3, 187])
@pytest.mark.parametrize(("batch_size", "unroll_steps"), [(1, 5), (4, 7), (3, 1), (500, 3)])
def test_rows_continue_where_their_last_window_ended(
    positions, batch_size, unroll_steps, length, directions
):
    settings = {"batch_size": batch_size, "unroll_steps": unroll_steps, "directions": directions}
    batches, same, other = (
        TrainingStreams(positions([0], length), **settings, seed=seed) for seed in (3, 3, 4)
    )
    n_rows, n_steps = batches.batch_size, batches.unroll_steps
    assert n_steps == min(unroll_steps, length)
    assert n_rows == max(1, min(batch_size, length // n_steps))
    firsts = []
    for epoch in range(3):
        steps = range(epoch * batches.steps_per_epoch, (epoch + 1) * batches.steps_per_epoch)
        windows = [batches.at(step) for step in steps]
        for window, step in zip(windows, steps):
            assert window.batch_sizes == [n_rows] * n_steps
            np.testing.assert_array_equal(window.inputs, same.at(step).inputs)
            np.testing.assert_array_equal(window.targets, window.inputs + 1)
            ahead = length // 2 if directions == "different" else 0
            np.testing.assert_array_equal(window.inputs[1], (window.inputs[0] + ahead) % length)
        read = np.concatenate([window.inputs[0].reshape(n_steps, n_rows) for window in windows])
        # Every row reads on without a gap, the rows side by side, almost everything.
        assert (np.diff(read, axis=0) % length == 1 % length).all()
        assert (np.diff(read[0]) % length == length // n_rows).all()
        assert length - n_rows * (n_steps + 1) < read.size <= length
        firsts.append(read[0, 0])
    assert firsts[0] == 0
    if length > 50:  # epochs and seeds start elsewhere
        assert len({*firsts, other.at(batches.steps_per_epoch).inputs[0, 0]}) == 4


@pytest.mark.parametrize("n_parts", [1, 2, 3, 6])
def test_parts_of_a_window_add_up_to_the_whole(positions, n_parts):
    settings = {"batch_size": 6, "unroll_steps": 4, "seed": 0, "directions": "different"}
    window = TrainingStreams(positions([0], 200), **settings, multiple=n_parts).at(0)
    parts = [window.part(part, n_parts) for part in range(n_parts)]
    for part in parts:
        assert part.batch_sizes == [6 // n_parts] * 4
    for name in ("inputs", "targets"):
        rows = [getattr(part, name).reshape(2, 4, 6 // n_parts) for part in parts]
        whole = getattr(window, name).reshape(2, 4, 6)
        np.testing.assert_array_equal(np.concatenate(rows, axis=2), whole)


def test_the_batch_size_is_a_multiple_of_the_parts(positions):
    """A short text has as many streams as the parts can share."""

    def size(batch_size, unroll_steps, multiple):
        settings = {"batch_size": batch_size, "unroll_steps": unroll_steps, "multiple": multiple}
        return TrainingStreams(positions([0], 40), **settings, seed=0).batch_size

    assert [size(24, 3, n) for n in (1, 2, 3, 4, 6, 8, 12)] == [13, 12, 12, 12, 12, 8, 12]
    for batch_size, fitting, multiple in [(6, 6, 4), (64, 20, 21), (5, 5, 2)]:
        wrong = rf"\({batch_size}, {fitting} fit the text\) .* {multiple},"
        with pytest.raises(ValueError, match=wrong):
            size(batch_size, 2, multiple)


def rows_read(corpus, n_parts=1, **settings):
    """Return the positions that each stream of all parts reads, in the order of the text."""
    rows = []
    for part in range(n_parts):
        n_rows, windows = evaluation_windows(corpus, **settings, part=part, n_parts=n_parts)
        of_part = [[] for _ in range(n_rows)]
        for window in windows:
            assert len(window.batch_sizes) <= settings["unroll_steps"]
            assert window.batch_sizes == sorted(window.batch_sizes, reverse=True)
            items = window.inputs[0].tolist()
            for size in window.batch_sizes:
                for row in of_part[:size]:
                    row.append(items.pop(0))
            assert items == []
        rows += of_part
    return sorted(rows)


@pytest.mark.parametrize("n_streams", [1, 3, 8, 100])
@pytest.mark.parametrize("unroll_steps", [1, 4, 1000])
def test_evaluation_reads_every_item_once(positions, n_streams, unroll_steps):
    """All parts together read every item once, too, even if some parts read nothing."""
    lengths = [*np.random.default_rng(2).integers(2, 9, size=17), 41]
    starts = [0, *np.cumsum(lengths)[:-1].tolist()]
    corpus = positions(starts, sum(lengths))
    settings = {"n_streams": n_streams, "unroll_steps": unroll_steps}
    rows = rows_read(corpus, **settings)
    assert 1 <= len(rows) <= min(n_streams, len(starts))
    assert {row[0] for row in rows} <= set(starts)
    assert [position for row in rows for position in row] == [*corpus.tokens]
    for n_parts in (2, 3, 20):
        assert rows_read(corpus, n_parts, **settings) == rows
    for max_items in (1, 20, 37, 10**6):  # some items from the start of every stream
        first = [row[: -(-max_items // len(rows))] for row in rows]
        for n_parts in (1, 3):
            assert rows_read(corpus, n_parts, **settings, max_items=max_items) == first
