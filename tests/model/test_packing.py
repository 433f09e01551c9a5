"""Packing of sentences: windows, order in time, and the way back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_elmo.model.packing import lay_out, mirrored, pack, windows, without_ends


@pytest.mark.parametrize("max_items", [1, 2, 4, 6, 7, 100])
@pytest.mark.parametrize("batch_sizes", [[], [1], [3, 3, 2, 1, 1], [5, 1, 1, 1]])
def test_windows_cover_every_token(batch_sizes, max_items):
    found = list(windows(batch_sizes, max_items))
    steps = [list(range(len(batch_sizes)))[s] for s, _ in found]
    items = [list(range(sum(batch_sizes)))[i] for _, i in found]
    assert [i for window in steps for i in window] == list(range(len(batch_sizes)))
    assert [i for window in items for i in window] == list(range(sum(batch_sizes)))
    assert all(steps)  # no window is empty
    for number, (of_window, packed) in enumerate(zip(steps, items)):
        assert len(packed) == sum(batch_sizes[step] for step in of_window)
        assert len(packed) <= max_items or len(of_window) == 1
        if number + 1 < len(found):  # no window is cut too early
            assert len(packed) + batch_sizes[steps[number + 1][0]] > max_items


@given(lengths=st.lists(st.integers(1, 12), max_size=12), skip=st.integers(0, 2))
def test_packed_steps_have_the_longest_sequence_first(lengths, skip):
    """Step by step, each sequence that has not ended, the longest first."""
    lengths = [skip + length for length in lengths]
    packed = pack(lengths, skip)
    starts = [sum(lengths[:i]) for i in range(len(lengths))]
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    forward, backward, sizes = [], [], []
    for step in range(max(lengths, default=skip) - skip):
        running = [i for i in order if lengths[i] - skip > step]
        sizes.append(len(running))
        forward += [starts[i] + skip + step for i in running]
        backward += [starts[i] + lengths[i] - 1 - skip - step for i in running]
    assert packed.order.tolist() == order
    assert packed.batch_sizes == sizes
    assert packed.positions.tolist() == [forward, backward]
    assert packed.n_items == sum(lengths)
    inverse = packed.inverse()
    for direction, positions in enumerate((forward, backward)):
        assert inverse[direction, positions].tolist() == list(range(len(positions)))
        skipped = set(range(sum(lengths))) - set(positions)
        assert not inverse[direction, sorted(skipped)].any()
    if lengths and not skip:  # the same token, read by the other direction
        assert packed.positions[1][mirrored(sizes)].tolist() == forward


WORDS = st.sampled_from(["a", "b", "", "<S>", "naïve", "漢"])


@given(
    sentences=st.lists(st.lists(WORDS, max_size=6), max_size=6),
    marks=st.sampled_from([("<S>", "</S>"), ()]),
)
def test_lay_out_has_each_type_once_and_every_token(sentences, marks):
    sentences = [each for each in sentences if each or marks]
    types, flat, packed = lay_out(sentences, marks)
    marked = [[*marks[:1], *each, *marks[1:]] for each in sentences]
    assert len({*types}) == len(types)
    assert [types[i] for i in flat.tolist()] == [token for each in marked for token in each]
    assert packed.lengths == [len(each) for each in marked]
    if marks:
        kept = without_ends(packed.lengths).tolist()
        assert [types[i] for i in flat[kept].tolist()] == [t for each in sentences for t in each]
