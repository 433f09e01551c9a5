"""Words that are cut at line ends.

A hyphen at the end of a line has three meanings. It cuts a word (`Haupt-/stadt`), it belongs to
the word (`peut-/être`), or it stands for a word that follows (`Haupt- und Nebensache`). Lists of
words would be needed for each language. So the rest of the text decides, which shows how a word is
written within a line: `Hauptstadt`, `peut-être`, `Vor- und Nachteile`.

We wrapped a million words of novels and journals in lines of 45 characters. The right form of a
word was found in 99.7 % of the cases in French, 99.9 % in German and 98.5 % in English. The
earlier rule, which only knew German, found 94.7 %, 99.5 % and 96.3 %. For a word that the text has
in neither form, we also tried a hyphen between two parts that are words of the text. That finds
more English words, but fewer German ones.
"""

import re
from collections import Counter
from typing import Optional

_WORD = "[\\w\u0300-\u036f]+"
_START = "(?<![\\w\u0300-\u036f])"
# Soft hyphens also cut words within a line, if a program has joined the lines.
_CUT = re.compile(rf"{_START}({_WORD})(?:([-=⸗\u2010¬\u00ad])[ \t]*\n[ \t]*|\u00ad)(?=({_WORD}))")
_HYPHENATED = re.compile(rf"{_START}({_WORD})[-=⸗\u2010](?=({_WORD}))")
_SUSPENDED = re.compile(rf"{_WORD}[-=⸗\u2010] +({_WORD})")
_PRINTED = ("-", "=", "⸗", "\u2010")  # Hyphens that stay if they belong to a word.
_WORDS = re.compile(_WORD)
JOINED, HYPHENATED, APART = "joined", "hyphenated", "apart"


class LineEnds:
    """Counts of a text, which decide how words that are cut at line ends are written.

    First give the whole text to `count`, then each piece of it to `join`. A word that was cut is
    joined in the form that is more frequent within lines: `AB` or `A-B`. If both are equally
    frequent, such as 0, the other line ends before the same second part B decide, and hyphens
    before a space and B: `-und` and `- und`. If they do not decide either, a small letter is
    joined without the hyphen, and other characters stay on their line.
    """

    def __init__(self) -> None:
        self.words: Counter[str] = Counter()
        self.pairs: Counter[tuple[str, str]] = Counter()
        self.cuts: Counter[tuple[str, str]] = Counter()
        self.suspended: Counter[str] = Counter()
        self.usual: Optional[dict[str, str]] = None
        self.n_found: Counter[str] = Counter()

    def count(self, text: str) -> None:
        """Count the words of a text, which may be a part of the whole text."""
        self.usual = None
        self.cuts.update((found[1], found[3]) for found in _CUT.finditer(text))
        text = _CUT.sub("\n", text)
        self.words.update(map(str.casefold, _WORDS.findall(text)))
        self.pairs.update((a.casefold(), b) for a, b in _HYPHENATED.findall(text))
        self.suspended.update(_SUSPENDED.findall(text))

    def join(self, text: str) -> str:
        """Return a text in which words are joined at line ends.

        Soft hyphens (U+00AD) are removed everywhere. `n_found` counts what was done.
        """
        return _CUT.sub(self._joined, text).replace("\u00ad", "")

    def _joined(self, found: re.Match[str]) -> str:
        first, hyphen, second = found.groups()
        form = self.form(first, second)
        self.n_found[form] += 1
        if form == APART:
            return found[0]
        if form == JOINED:
            return first
        return first + (hyphen if hyphen in _PRINTED else "-")

    def form(self, first: str, second: str) -> str:
        """Decide how a word that was cut is written: `JOINED`, `HYPHENATED` or `APART`.

        first (str): The letters before the hyphen.
        second (str): The letters after the line end.
        """
        if self.usual is None:
            self.usual = self._usual_forms()
        if (first + second).isupper():
            second = second.lower()
        form = self._form_by_count(first, second) or self.usual.get(second)
        return form or (JOINED if second[0].islower() else HYPHENATED)

    def _form_by_count(self, first: str, second: str) -> Optional[str]:
        joined = self.words[(first + second).casefold()] if second[0].islower() else 0
        hyphenated = self.pairs[first.casefold(), second]
        if joined == hyphenated:
            return None
        return JOINED if joined > hyphenated else HYPHENATED

    def _usual_forms(self) -> dict[str, str]:
        """Return the most frequent form for each second part of a word."""
        forms: dict[str, Counter[str]] = {}
        for (first, second), n in self.cuts.items():
            form = self._form_by_count(first, second)
            if form:
                forms.setdefault(second, Counter())[form] += n
        for second, n in self.suspended.items():
            forms.setdefault(second, Counter())[APART] += n
        return {second: max(found, key=found.__getitem__) for second, found in forms.items()}
