"""From token strings to character ids: UTF-8 bytes between word marks."""

from collections.abc import Sequence
from typing import Optional

import numpy as np

SENTENCE_START = "<S>"
SENTENCE_END = "</S>"

# Ids as in AllenNLP: one more than bilm-tf's, 0 is a masked position.
N_CHARACTERS = 262
BOS, EOS, BOW, EOW, PAD = 257, 258, 259, 260, 261


def character_ids(
    tokens: Sequence[str], *, max_characters: int = 50, widest_filter: Optional[int] = None
) -> np.ndarray:
    """Spell tokens as the public ELMo models were trained to read them: the
    UTF-8 bytes, cut to `max_characters - 2`, between a begin-of-word and an
    end-of-word mark, padded. `<S>` and `</S>` are the sentence marks.

    tokens (Sequence[str]): The tokens; what cannot be encoded is left out.
    max_characters (int): Width of the result, and the most that is read of a token.
    widest_filter (Optional[int]): If given, columns that no convolution up to
        this width can tell from those before them are left out.
    RETURNS (numpy.ndarray): Shape `(n_tokens, n_characters)`, int32, ids from 1 to 261.
    """
    spelled = [token.encode("utf8", "ignore")[: max_characters - 2] for token in tokens]
    lengths = np.array([len(word) for word in spelled], dtype="int64")
    n_columns = max_characters
    if widest_filter is not None:
        # One window of padding alone is kept for every filter: it takes part in the maximum.
        longest = int(lengths.max(initial=1)) + 2
        n_columns = min(max_characters, longest + widest_filter)
    ids = np.full((len(tokens), n_columns), PAD, dtype="int32")
    rows = np.arange(len(tokens))
    flat_rows = np.repeat(rows, lengths)
    starts = np.cumsum(lengths) - lengths
    columns = np.arange(lengths.sum()) - np.repeat(starts, lengths) + 1
    ids[flat_rows, columns] = np.frombuffer(b"".join(spelled), dtype="uint8") + np.int32(1)
    ids[:, 0] = BOW
    ids[rows, lengths + 1] = EOW
    for mark, mark_id in ((SENTENCE_START, BOS), (SENTENCE_END, EOS)):
        for row in (i for i, token in enumerate(tokens) if token == mark):
            ids[row, 1:] = PAD
            ids[row, 1:3] = mark_id, EOW
    return ids
