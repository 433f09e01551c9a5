"""Misspelled words and changed letter case in the input of a language model.

A misspelling changes whole characters as readers see them: a letter with its combining marks.
Otherwise words of Hindi, Tamil or Thai, and letters whose accents are separate code points, would
become strings that do not occur in text. Hyphens and apostrophes can be left out, doubled or
swapped, but other words do not get them.
"""

import unicodedata
from collections.abc import Sequence

import numpy as np

from ..language_model.windows import Window
from ..text.corpus import END_ID

MIN_LENGTH = 3  # Letters. After one edit, a shorter word is too often another word.
# Share of lower case in the streams with changed letter case. Text in lower case is more common
# than text in capitals.
LOWER_SHARE = 0.75
# Apostrophes, hyphens, the middle dot of Catalan, and geresh and gershayim of Hebrew.
SIGNS_IN_WORDS = frozenset("'\u2019-\u2010\u2011\u00b7\u05f3\u05f4")
JOINERS = frozenset("\u200c\u200d")  # Invisible: they change the form of the letters beside them.


class NoisyTypes(Sequence[str]):
    """Sequence of all distinct tokens of a corpus, followed by the changed words of one window.

    The index of a string is its id in the window.

    types (Sequence[str]): The distinct tokens of the corpus.
    changed (List[str]): The misspelled words, or the words in another letter case.
    """

    def __init__(self, types: Sequence[str], changed: list[str]):
        self.types, self.changed = types, changed

    def __len__(self) -> int:
        return len(self.types) + len(self.changed)

    def __getitem__(self, i):  # type: ignore[no-untyped-def, override]
        n_types = len(self.types)
        return self.types[i] if i < n_types else self.changed[i - n_types]


def change_case_of_inputs(
    window: Window, types: Sequence[str], share: float, rng: np.random.Generator
) -> tuple[Window, Sequence[str]]:
    """Write all input words of some streams in lower case or in capitals, but not the targets.

    So the model learns to read posts and headlines. It must predict the case of the next word from
    words whose case says nothing, so it has to know the words.

    window (Window): The window. All its streams have the same length, as in training.
    types (Sequence[str]): The distinct tokens of the corpus. An id in the window is an index here.
    share (float): Probability to change all words of a stream, 0 to 1.
    rng (numpy.random.Generator): Random number generator.
    RETURNS (Tuple[Window, Sequence[str]]): The window with ids of changed words, and the strings
        of all ids: `types`, followed by the changed words.
    """
    inputs = window.inputs.copy()
    # Both directions of a stream read the same text, so they get the same case.
    n_streams = window.batch_sizes[0]
    by_stream = inputs.reshape(len(inputs), len(window.batch_sizes), n_streams)
    drawn = rng.random(n_streams)
    changed: list[str] = []
    for convert, chosen in (
        (str.lower, drawn < share * LOWER_SHARE),
        (str.upper, (drawn >= share * LOWER_SHARE) & (drawn < share)),
    ):
        mine = by_stream[:, :, chosen]
        ids, inverse = np.unique(mine, return_inverse=True)
        new_ids = ids.copy()
        for place, i in enumerate(ids.tolist()):
            word = types[i] if i > END_ID else ""
            if convert(word) != word:
                new_ids[place] = len(types) + len(changed)
                changed.append(convert(word))
        by_stream[:, :, chosen] = new_ids[inverse].reshape(mine.shape)
    return Window(inputs, window.targets, window.batch_sizes), NoisyTypes(types, changed)


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
