import numpy as np
import pytest

from spacy_elmo.frozen.characters import character_ids

from helpers import reference
from helpers.models import SENTENCES

TOKENS = [token for sentence in SENTENCES for token in sentence] + ["é" * 40, "a" * 48, "a" * 49]


@pytest.mark.parametrize("max_characters", [3, 4, 9, 50])
def test_spelling(max_characters):
    ids = character_ids(TOKENS, max_characters=max_characters)
    expected = [reference.character_ids(token, max_characters) for token in TOKENS]
    np.testing.assert_array_equal(ids, expected)


def test_spelling_by_hand():
    ids = character_ids(["aé", "<S>", "</S>"], max_characters=6)
    assert ids.tolist() == [
        [259, 98, 0xC3 + 1, 0xA9 + 1, 260, 261],
        [259, 257, 260, 261, 261, 261],
        [259, 258, 260, 261, 261, 261],
    ]


@pytest.mark.parametrize("widest", [1, 3, 7])
@pytest.mark.parametrize("tokens", [["a", "bcd"], ["", "<S>"], ["a" * 30], ["</S>"]])
def test_columns_left_out_hold_no_window_of_their_own(tokens, widest):
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
