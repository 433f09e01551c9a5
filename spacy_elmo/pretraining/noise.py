"""Misspelled words in the input of a language model."""

from collections.abc import Sequence

import numpy as np

from ..language_model.windows import Window
from ..text.corpus import END_ID

MIN_LENGTH = 3  # After one edit, a shorter word is too often another word.


class NoisyTypes(Sequence[str]):
    """Sequence of all distinct tokens of a corpus, followed by misspelled words.

    The index of a string is its id in a window.

    types (Sequence[str]): The distinct tokens of the corpus.
    misspelled (List[str]): The misspelled words of one window.
    """

    def __init__(self, types: Sequence[str], misspelled: list[str]):
        self.types, self.misspelled = types, misspelled

    def __len__(self) -> int:
        return len(self.types) + len(self.misspelled)

    def __getitem__(self, i):  # type: ignore[no-untyped-def, override]
        n_types = len(self.types)
        return self.types[i] if i < n_types else self.misspelled[i - n_types]


def misspell_inputs(
    window: Window, types: Sequence[str], share: float, rng: np.random.Generator
) -> tuple[Window, Sequence[str]]:
    """Misspell some input words of a window, but not its targets.

    So the model learns to read noisy text as if it was correct (Namysl et al. 2021). In a window,
    all misspelled occurrences of a word have the same misspelling, so that it is encoded only once.

    window (Window): The window.
    types (Sequence[str]): The distinct tokens of the corpus. An id in the window is an index here.
    share (float): Probability to misspell a word of three or more letters, 0 to 1.
    rng (numpy.random.Generator): Random number generator.
    RETURNS (Tuple[Window, Sequence[str]]): The window with ids of misspelled words, and the strings
        of all ids: `types`, followed by the misspelled words.
    """
    chosen = (rng.random(window.inputs.shape) < share) & (window.inputs > END_ID)
    ids, inverse = np.unique(window.inputs[chosen], return_inverse=True)
    letters = "".join(filter(str.isalpha, (types[i] for i in ids.tolist())))
    misspelled: list[str] = []
    new_ids = ids.copy()
    for place, i in enumerate(ids.tolist()):
        word = types[i]
        if len(word) >= MIN_LENGTH and word.isalpha():
            new_ids[place] = len(types) + len(misspelled)
            misspelled.append(misspell(word, letters, rng))
    inputs = window.inputs.copy()
    inputs[chosen] = new_ids[inverse]
    return Window(inputs, window.targets, window.batch_sizes), NoisyTypes(types, misspelled)


def misspell(word: str, letters: str, rng: np.random.Generator) -> str:
    """Misspell a word by one random edit.

    The edit omits, doubles, replaces or adds a letter, or swaps two neighboring letters.

    word (str): A word of two or more letters.
    letters (str): Letters to choose from. A repeated letter is chosen more often.
    rng (numpy.random.Generator): Random number generator.
    RETURNS (str): The misspelled word. It can equal the word, for example if equal letters are
        swapped.
    """
    at = int(rng.integers(len(word)))
    other = letters[int(rng.integers(len(letters)))]
    left = min(at, len(word) - 2)
    edits = (
        word[:at] + word[at + 1 :],
        word[: at + 1] + word[at:],
        word[:at] + other + word[at + 1 :],
        word[:at] + other + word[at:],
        word[:left] + word[left + 1] + word[left] + word[left + 2 :],
    )
    return edits[int(rng.integers(len(edits)))]
