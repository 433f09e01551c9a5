"""Misspelled words and changed letter case in the input of a language model.

A misspelling changes whole characters as readers see them: a letter with its combining marks.
Otherwise words of Hindi, Tamil or Thai, and letters whose accents are separate code points, would
become strings that do not occur in text. Hyphens and apostrophes can be left out, doubled or
swapped, but other words do not get them.
"""

import unicodedata
from collections.abc import Sequence
from copy import copy
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

import numpy as np

from ..language_model.windows import Window, distinct
from ..text.corpus import END_ID

MIN_LENGTH = 3  # Letters. After one edit, a shorter word is too often another word.
# Share of lower case in the streams with changed letter case. Text in lower case is more common
# than text in capitals.
LOWER_SHARE = 0.75
# Apostrophes, hyphens, the middle dot of Catalan, and geresh and gershayim of Hebrew.
SIGNS_IN_WORDS = frozenset("'\u2019-\u2010\u2011\u00b7\u05f3\u05f4")
REMEMBERED = 1 << 17  # Strings and spellings that stay in memory.
N_EDITS = 5  # Kinds of edits of `edited`.
JOINERS = frozenset("\u200c\u200d")  # Invisible: they change the form of the letters beside them.


class WindowTypes(Sequence[str]):
    """Strings of the ids in a window: the distinct tokens of a corpus, then the changed words.

    The strings that were used last stay in memory: a `TypeTable` decodes each one from bytes.

    types (Sequence[str]): The distinct tokens of the corpus.
    """

    def __init__(self, types: Sequence[str]):
        self.n_types = len(types)
        self.type_of = lru_cache(REMEMBERED)(types.__getitem__)
        self.changed: list[str] = []

    def __len__(self) -> int:
        return self.n_types + len(self.changed)

    def __getitem__(self, i):  # type: ignore[no-untyped-def, override]
        return self.type_of(i) if i < self.n_types else self.changed[i - self.n_types]

    def strings(self, ids: np.ndarray) -> list[str]:
        """Return the strings of ids in ascending order."""
        n = int(np.searchsorted(ids, self.n_types))
        known, changed = ids[:n].tolist(), (ids[n:] - self.n_types).tolist()
        return [*map(self.type_of, known), *map(self.changed.__getitem__, changed)]

    def plus(self, changed: list[str]) -> "WindowTypes":
        """Return a copy with more changed words."""
        other = copy(self)
        other.changed = [*self.changed, *changed]
        return other


def change_case_of_inputs(
    window: Window, types: WindowTypes, share: float, rng: np.random.Generator
) -> tuple[Window, WindowTypes]:
    """Write all input words of some streams in lower case or in capitals, but not the targets.

    So the model learns to read posts and headlines. It must predict the case of the next word from
    words whose case says nothing, so it has to know the words.

    window (Window): The window. All its streams have the same length, as in training.
    types (WindowTypes): The string of each id in the window.
    share (float): Probability to change all words of a stream, 0 to 1.
    rng (numpy.random.Generator): Random number generator.
    RETURNS (Tuple[Window, WindowTypes]): The window with ids of changed words, and the strings of
        all ids.
    """
    inputs = window.inputs.copy()
    # Both directions of a stream read the same text, so they get the same case.
    n_streams = window.batch_sizes[0]
    by_stream = inputs.reshape(len(inputs), len(window.batch_sizes), n_streams)
    drawn = rng.random(n_streams)
    for convert, chosen in (
        (str.lower, drawn < share * LOWER_SHARE),
        (str.upper, (drawn >= share * LOWER_SHARE) & (drawn < share)),
    ):
        ids, inverse = distinct(by_stream[:, :, chosen])
        words = types.strings(ids)
        converted = list(map(convert, words))
        differs = np.array([a != b for a, b in zip(words, converted)], bool) & (ids > END_ID)
        new_ids = ids.copy()
        new_ids[differs] = np.arange(len(types), len(types) + int(differs.sum()))
        by_stream[:, :, chosen] = new_ids[inverse]
        types = types.plus([converted[i] for i in np.flatnonzero(differs).tolist()])
    return Window(inputs, window.targets, window.batch_sizes), types


def misspell_inputs(
    window: Window, types: WindowTypes, share: float, rng: np.random.Generator
) -> tuple[Window, WindowTypes]:
    """Misspell some input words of a window, but not its targets.

    So the model learns to read noisy text as if it was correct (Namysl et al. 2021). In a window,
    all misspelled occurrences of a word have the same misspelling, so that it is encoded only once.

    window (Window): The window.
    types (WindowTypes): The string of each id in the window.
    share (float): Probability to misspell a word of three or more letters, 0 to 1. The word may
        also have apostrophes and hyphens, but no digits.
    rng (numpy.random.Generator): Random number generator.
    RETURNS (Tuple[Window, WindowTypes]): The window with ids of misspelled words, and the strings
        of all ids.
    """
    chosen = (rng.random(window.inputs.shape) < share) & (window.inputs > END_ID)
    ids, inverse = distinct(window.inputs[chosen])
    spellings = list(map(spelling_of, types.strings(ids)))
    letters = list(chain.from_iterable(spelling.letters for spelling in spellings))
    words = [spelling.characters for spelling in spellings if spelling.can_be_misspelled]
    places = np.array([spelling.can_be_misspelled for spelling in spellings], bool)
    new_ids = ids.copy()
    new_ids[places] = np.arange(len(types), len(types) + len(words))
    inputs = window.inputs.copy()
    inputs[chosen] = new_ids[inverse]
    window = Window(inputs, window.targets, window.batch_sizes)
    if not words:
        return window, types
    # One call for all words draws the same numbers as a call for each, and is 20 times as fast.
    limits = np.empty((len(words), 3), "int64")
    limits[:] = 0, len(letters), N_EDITS
    limits[:, 0] = list(map(len, words))
    drawn = rng.integers(limits).tolist()
    misspelled = [
        edited(word, at, letters[letter], edit) for word, (at, letter, edit) in zip(words, drawn)
    ]
    return window, types.plus(misspelled)


class Spelling(NamedTuple):
    """Characters of a word.

    characters (Tuple[str, ...]): The characters as readers see them.
    letters (List[str]): Those characters that are letters.
    can_be_misspelled (bool): Whether the word has enough letters, and otherwise only apostrophes
        and hyphens.
    """

    characters: tuple[str, ...]
    letters: list[str]
    can_be_misspelled: bool


@lru_cache(REMEMBERED)
def spelling_of(word: str) -> Spelling:
    """Split a word into characters: each code point with the combining marks that follow it."""
    found: list[str] = []
    for point in word:
        is_mark = point in JOINERS or unicodedata.category(point).startswith("M")
        if is_mark and found:
            found[-1] += point
        else:
            found.append(point)
    letters = [one for one in found if one[0].isalpha()]
    n_signs = sum(one[0] in SIGNS_IN_WORDS for one in found)
    is_word = len(letters) >= MIN_LENGTH and len(letters) + n_signs == len(found)
    return Spelling(tuple(found), letters, is_word)


def misspell(word: str, letters: Sequence[str], rng: np.random.Generator) -> str:
    """Misspell a word by one random edit.

    word (str): A word of two characters or more.
    letters (Sequence[str]): Letters to choose from. A repeated letter is chosen more often.
    rng (numpy.random.Generator): Random number generator.
    RETURNS (str): The misspelled word. It can equal the word, for example if equal letters are
        swapped.
    """
    characters = spelling_of(word).characters
    at, letter, edit = rng.integers([len(characters), len(letters), N_EDITS]).tolist()
    return edited(characters, at, letters[letter], edit)


def edited(word: Sequence[str], at: int, letter: str, edit: int) -> str:
    """Omit, double or replace a character, add one, or swap two neighboring characters.

    word (Sequence[str]): The characters of a word, two or more.
    at (int): Index of the character.
    letter (str): The letter that replaces it or is added before it.
    edit (int): The kind of edit, from 0, in the order of the first line.
    RETURNS (str): The edited word.
    """
    before, after = word[:at], word[at + 1 :]
    if edit == 0:
        return "".join((*before, *after))
    if edit == 1:
        return "".join((*before, word[at], word[at], *after))
    if edit == 2:
        return "".join((*before, letter, *after))
    if edit == 3:
        return "".join((*before, letter, word[at], *after))
    left = min(at, len(word) - 2)
    return "".join((*word[:left], word[left + 1], word[left], *word[left + 2 :]))
