"""Misspelled words in the input of a language model."""

from collections.abc import Sequence

import numpy as np

from ..language_model.windows import Window
from ..text.corpus import END_ID

MIN_LENGTH = 3  # a shorter word with one edit is too often another word


class NoisyTypes(Sequence[str]):
    """Types of a corpus, followed by the misspelled words of one window.

    types (Sequence[str]): The types of the corpus.
    misspelled (List[str]): The misspelled words; their ids follow those of the types.
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
    """Misspell a share of the words that a window reads. Its targets stay clean.

    So the model learns to read noisy text as it was meant (Namysl et al. 2021). All occurrences of
    a word that are misspelled in one window have the same misspelling, so that it is encoded once.

    window (Window): The window.
    types (Sequence[str]): Strings of the corpus's token types.
    share (float): Share of the words of three letters or more, 0 to 1.
    rng (numpy.random.Generator): Source of the choices.
    RETURNS (Tuple[Window, Sequence[str]]): The window, and the types with the misspelled words.
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
    """Change a word by one edit.

    A letter is left out, doubled, replaced or added, or two neighbors are swapped.

    word (str): A word of two letters or more.
    letters (str): Letters to choose from, as often as they occur in the text.
    rng (numpy.random.Generator): Source of the choices.
    RETURNS (str): The misspelled word; sometimes the word itself, if letters are equal.
    """
    at = int(rng.integers(len(word)))
    other = letters[int(rng.integers(len(letters)))]
    edit = int(rng.integers(5))
    if edit == 0:
        return word[:at] + word[at + 1 :]
    if edit == 1:
        return word[:at] + word[at] + word[at:]
    if edit == 2:
        return word[:at] + other + word[at + 1 :]
    if edit == 3:
        return word[:at] + other + word[at:]
    at = min(at, len(word) - 2)
    return word[:at] + word[at + 1] + word[at] + word[at + 2 :]
