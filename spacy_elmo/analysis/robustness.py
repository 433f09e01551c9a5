"""Scores of a pipeline on text with damaged words.

Words of the gold data are replaced. Tokenization, spaces and annotation stay unchanged, so that all
scorers work. A word that is damaged at one rate is damaged in the same way at each higher rate.
Otherwise a score could rise with the rate by chance.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from math import hypot
from pathlib import Path
from typing import Any

import numpy as np
from spacy.attrs import NORM, ORTH
from spacy.language import Language
from spacy.tokens import Doc, DocBin, Span, SpanGroup
from spacy.training import Example

QWERTY = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
KEYBOARDS = {"de": ("qwertzuiopü", "asdfghjklöä", "yxcvbnm")}
ROW_OFFSETS = (0.0, 0.25, 0.75)  # Left edge of each row of keys, in key widths.
# Errors of OCR, also in Fraktur: the printed letters, and the letters that are read. The last one
# drops the small e above a vowel, which old prints have in place of the dots of an umlaut.
CONFUSIONS = (
    "a:o b:h c:e e:c f:s f:t g:q h:b i:l j:i k:t l:1 l:i n:u o:0 o:c q:g r:t s:f t:r u:n v:r "
    "y:v z:s rn:m m:rn in:m m:in cl:d d:cl ri:n ii:u u:ii vv:w w:vv B:8 B:V C:E D:O E:C G:C I:l "
    "K:R N:R O:0 R:K S:5 S:E V:B ä:a ö:o ü:u ü:ii Ä:A Ö:O Ü:U ß:B ß:tz ſ:f f:ſ \u0364:"  # noqa: RUF001
)

CASES = {"lower": str.lower, "upper": str.upper, "title": str.capitalize}


def make_damage(kind: str, lang: str) -> Callable[[str], list[str]]:
    """Make a function that returns all damaged forms of a word.

    kind (str): "keyboard" (a neighboring key), "ocr" (confused letters), "misspellings" (frequent
        English misspellings), or a letter case: "lower", "upper" or "title".
    lang (str): Language of the keyboard. Unknown languages use QWERTY.
    RETURNS (Callable[[str], List[str]]): Its result can be empty.
    RAISES (ValueError): There is no such kind.
    """
    if kind == "misspellings":
        text = Path(__file__).with_name("misspellings.txt").read_text("utf8")
        known = {word: forms for word, *forms in map(str.split, text.splitlines()) if word != "#"}

        def misspell(word: str) -> list[str]:
            cases = [case for case in (str.lower, str.title, str.upper) if case(word) == word]
            return [cases[0](form) for form in known.get(word.lower(), ()) if cases]

        return misspell
    if kind in CASES:
        change = CASES[kind]
        return lambda word: [change(word)] if change(word) != word else []
    if kind == "keyboard":
        rows = zip(KEYBOARDS.get(lang, QWERTY), ROW_OFFSETS)
        keys = [(key, x + dx, y) for y, (row, dx) in enumerate(rows) for x, key in enumerate(row)]
        # Centers of keys that touch are at most 1.25 key widths apart, all others at least 1.6.
        pairs = [(a, b) for a, x, y in keys for b, u, v in keys if 0 < hypot(x - u, y - v) < 1.3]
        pairs += [(a.upper(), b.upper()) for a, b in pairs]
    elif kind == "ocr":
        pairs = [(old, new) for old, _, new in (one.partition(":") for one in CONFUSIONS.split())]
    else:
        raise ValueError(
            f"`damage` must be keyboard, ocr, misspellings, case, {', '.join(CASES)}, got '{kind}'"
        )
    return lambda word: [
        word[:at] + new + word[at + len(old) :]
        for old, new in pairs
        for at in range(len(word))
        if word.startswith(old, at)
    ]


def measure_robustness(
    nlp: Language,
    examples: Sequence[Example],
    kinds: Sequence[str],
    rates: Sequence[float],
    seed: int = 0,
) -> Iterator[dict[str, Any]]:
    """Evaluate a pipeline on text with damaged words, at several rates.

    kinds (Sequence[str]): Kinds of damage (see `make_damage`). "case" stands for all letter cases.
    rates (Sequence[float]): Shares of the words to damage, from 0 to 1.
    YIELDS (dict): "damage" (the kind), "rate", "scores", and "damaged": the share of damaged words,
        which is lower than the rate if too few words have a damaged form.
    """
    names = [name for kind in kinds for name in (CASES if kind == "case" else (kind,))]
    damages = {name: make_damage(name, nlp.lang) for name in names}
    n_words = sum(any(map(str.isalpha, t.text)) for each in examples for t in each.predicted)
    clean = nlp.evaluate(examples)
    for kind, damage in damages.items():
        # A new generator: the damage of a kind does not depend on the kinds before it.
        rng = np.random.default_rng(seed)
        changes = []
        for number, example in enumerate(examples):
            for i, j in shared_tokens(example):
                # A Doc cannot contain an empty word.
                forms = list(filter(None, damage(example.predicted[i].text)))
                if forms:
                    changes.append((number, i, j, forms[rng.integers(len(forms))]))
        order = rng.permutation(len(changes))
        for rate in rates:
            words: dict[int, tuple[dict, dict]] = defaultdict(lambda: ({}, {}))
            chosen = order[: round(rate * n_words)]
            for number, i, j, word in (changes[place] for place in chosen):
                words[number][0][i] = words[number][1][j] = word
            pairs = ((one.predicted, one.reference) for one in examples)
            damaged = [Example(*map(replace_words, pair, words[i])) for i, pair in enumerate(pairs)]
            scores = nlp.evaluate(damaged) if len(chosen) else clean
            share = len(chosen) / max(n_words, 1)
            yield {"damage": kind, "rate": rate, "damaged": share, "scores": scores}


def shared_tokens(example: Example) -> Iterator[tuple[int, int]]:
    """Yield the positions in `predicted` and in `reference` of each token that is in both."""
    to_reference, to_predicted = example.alignment.x2y, example.alignment.y2x
    for i in range(len(example.predicted)):
        found = to_reference[i].tolist()
        if len(found) == 1 and len(to_predicted[found[0]]) == 1:
            yield i, found[0]


def replace_words(doc: Doc, words: dict[int, str]) -> Doc:
    """Copy a Doc, and replace some words, by position. Without new words, return the Doc itself.

    Tokenization, spaces and annotation stay unchanged.
    """
    if not words:
        return doc
    spaces = None if doc.has_unknown_spaces else [bool(token.whitespace_) for token in doc]
    new = [words.get(token.i, token.text) for token in doc]
    copy = Doc(doc.vocab, words=new, spaces=spaces, user_data=dict(doc.user_data))
    attributes = [attribute for attribute in DocBin().attrs if attribute != ORTH]
    array = doc.to_array(attributes)
    array[list(words), attributes.index(NORM)] = 0  # With 0, spaCy uses the norm of the new word.
    copy.from_array(attributes, array)
    copy.cats = dict(doc.cats)
    for key, group in doc.spans.items():
        spans = [Span(copy, s.start, s.end, s.label, kb_id=s.kb_id, span_id=s.id) for s in group]
        copy.spans[key] = SpanGroup(copy, name=group.name, attrs=group.attrs, spans=spans)
    return copy
