"""Misspelled words in the input of a language model.

An edit changes whole characters as readers see them: a letter with its combining marks. Otherwise
words of Hindi, Tamil or Thai, and letters whose accents are separate code points, would become
strings that people do not write. Hyphens and apostrophes can be left out, doubled or swapped, but other
words do not get them.
"""

import unicodedata
from collections.abc import Sequence

import numpy as np

from ..language_model.windows import Window
from ..text.corpus import END_ID

MIN_LENGTH = 3  # Letters. After one edit, a shorter word is too often another word.
# Apostrophes, hyphens, the middle dot of Catalan, and geresh and gershayim of Hebrew.
SIGNS_IN_WORDS = frozenset("'\u2019-\u2010\u2011\u00b7\u05f3\u05f4")
JOINERS = frozenset("\u200c\u200d")  # Invisible: they change the form of the letters beside them.


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
    share (float): Probability to misspell a word of three or more letters, 0 to 1. The word may
        also have apostrophes and hyphens, but no digits.
    rng (numpy.random.Generator): Random number generator.
    RETURNS (Tuple[Window, Sequence[str]]): The window with ids of misspelled words, and the strings
        of all ids: `types`, followed by the misspelled words.
    """
    chosen = (rng.random(window.inputs.shape) < share) & (window.inputs > END_ID)
    ids, inverse = np.unique(window.inputs[chosen], return_inverse=True)
    words = [characters(types[i]) for i in ids.tolist()]
    letters = [one for word in words for one in word if one[0].isalpha()]
    misspelled: list[str] = []
    new_ids = ids.copy()
    for place, word in enumerate(words):
        if can_be_misspelled(word):
            new_ids[place] = len(types) + len(misspelled)
            misspelled.append(misspell(word, letters, rng))
    inputs = window.inputs.copy()
    inputs[chosen] = new_ids[inverse]
    return Window(inputs, window.targets, window.batch_sizes), NoisyTypes(types, misspelled)


def characters(word: str) -> list[str]:
    """Split a word into characters: each code point with the combining marks that follow it."""
    found: list[str] = []
    for point in word:
        is_mark = point in JOINERS or unicodedata.category(point).startswith("M")
        if is_mark and found:
            found[-1] += point
        else:
            found.append(point)
    return found


def can_be_misspelled(word: Sequence[str]) -> bool:
    """Return whether a word has enough letters, and otherwise only apostrophes and hyphens.

    word (Sequence[str]): The characters of the word.
    """
    n_letters = sum(one[0].isalpha() for one in word)
    n_signs = sum(one[0] in SIGNS_IN_WORDS for one in word)
    return n_letters >= MIN_LENGTH and n_letters + n_signs == len(word)


def misspell(word: Sequence[str], letters: Sequence[str], rng: np.random.Generator) -> str:
    """Misspell a word by one random edit.

    The edit omits, doubles, replaces or adds a character, or swaps two neighboring characters.

    word (Sequence[str]): The characters of a word, two or more.
    letters (Sequence[str]): Letters to choose from. A repeated letter is chosen more often.
    rng (numpy.random.Generator): Random number generator.
    RETURNS (str): The misspelled word. It can equal the word, for example if equal letters are
        swapped.
    """
    at = int(rng.integers(len(word)))
    other = letters[int(rng.integers(len(letters)))]
    left = min(at, len(word) - 2)
    edits = (
        [*word[:at], *word[at + 1 :]],
        [*word[: at + 1], *word[at:]],
        [*word[:at], other, *word[at + 1 :]],
        [*word[:at], other, *word[at:]],
        [*word[:left], word[left + 1], word[left], *word[left + 2 :]],
    )
    return "".join(edits[int(rng.integers(len(edits)))])
