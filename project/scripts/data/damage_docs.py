"""Copies of gold Docs with the spellings and the typesetting that texts from archives have.

The Europeana newspapers are transcribed with round s and modern umlauts, and have neither line
breaks nor marks of cut words. Texts from archives have them all. So the training data get damaged
copies: some sentences that follow each other, as one Doc, with some of the changes in `DAMAGES`.
Their tokens are those of spaCy's tokenizer for German. A mark at the end of a line cuts a token in
two, with the line break as a token between them. Entities are kept by token, so both pieces of a
cut token belong to its entity.

Dev and test sets get no copies. The evaluation makes a copy with one change for each of its rows.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import spacy
import typer
from spacy.language import Language
from spacy.tokens import Doc, DocBin
from spacy.vocab import Vocab

from .bio import write_docs

Words = list[tuple[str, str]]  # (token, BIO tag)
LONG_S = "\u017f"
SMALL_E = "\u0364"  # It stands above the letter before it.
UMLAUTS = {"ä": "a", "ö": "o", "ü": "u", "Ä": "A", "Ö": "O", "Ü": "U"}
# Inside a word. A round s at the end of a part of a compound would need a dictionary.
ROUND_S = re.compile(r"s(?=[^\W\d_])")
SENTENCE_MARKS = (".", "!", "?")
CUT_MARKS = ("-", "=", "¬", "⸗")
LINE_WIDTHS = (25, 60)  # Smallest and largest number of characters of a line.
# A syllable begins with the last consonant before a vowel. Some pairs of letters stay together.
CONSONANTS = rf"[s{LONG_S}]ch|ch|ck|ph|th|[s{LONG_S}]t|qu|[bcdfghjklmnpqrs{LONG_S}tvwxzß]"
SYLLABLE = re.compile(f"(?:{CONSONANTS})(?=[aeiouyäöü])")
MIN_PIECE = 3  # Smallest number of letters of both pieces of a cut word.
MAX_SENTENCES = 6


def drop_marks(words: Words, rng: np.random.Generator) -> Words:
    """Remove the marks at the ends of sentences, but not those in entities."""
    return [(text, tag) for text, tag in words if tag != "O" or text not in SENTENCE_MARKS]


def write_long_s(words: Words, rng: np.random.Generator) -> Words:
    """Write a long s in place of each s that another letter follows."""
    return [(ROUND_S.sub(LONG_S, text), tag) for text, tag in words]


def set_lines(words: Words, rng: np.random.Generator) -> Words:
    """Break the text into lines, and cut long words at the ends of lines with a mark."""
    width, mark = rng.integers(*LINE_WIDTHS, endpoint=True), rng.choice(CUT_MARKS)
    found: Words = []
    column = 0
    for text, tag in words:
        inside = tag if tag == "O" else f"I{tag[1:]}"
        room = int(width) - column
        if len(text) > room:
            largest = min(room - 1, len(text) - MIN_PIECE)  # The mark needs a place, too.
            starts = [match.start() for match in SYLLABLE.finditer(text)]
            cuts = [cut for cut in starts if MIN_PIECE <= cut <= largest]
            if cuts and text.isalpha():
                found += [(f"{text[: cuts[-1]]}{mark}", tag), ("\n", inside)]
                text, tag = text[cuts[-1] :], inside
            elif found:
                # A line break before an entity is not a part of it.
                found.append(("\n", tag if tag[0] == "I" else "O"))
            column = 0
        found.append((text, tag))
        column += len(text) + 1
    return found


def write_ae(words: Words, rng: np.random.Generator) -> Words:
    """Write umlauts as two letters: `ae`, `oe`, `ue`."""
    return replace(words, {umlaut: f"{letter}e" for umlaut, letter in UMLAUTS.items()})


def write_small_e(words: Words, rng: np.random.Generator) -> Words:
    """Write umlauts as a letter with a small e above it."""
    return replace(words, {umlaut: f"{letter}{SMALL_E}" for umlaut, letter in UMLAUTS.items()})


def replace(words: Words, letters: dict[str, str]) -> Words:
    """Replace letters in all words."""
    table = str.maketrans(letters)
    return [(text.translate(table), tag) for text, tag in words]


def write_capitals(words: Words, rng: np.random.Generator) -> Words:
    """Write all words in capitals, as in headlines."""
    return [(text.upper(), tag) for text, tag in words]


# The order matters: only a complete word shows which s is long, and a cut must not separate a
# letter from its small e.
DAMAGES: dict[str, Callable[[Words, np.random.Generator], Words]] = {
    "no sentence marks": drop_marks,
    "long s": write_long_s,
    "lines": set_lines,
    "ae, oe, ue": write_ae,
    "small e": write_small_e,
    "capitals": write_capitals,
}
# Shares of the copies with each change.
SHARES = {
    "no sentence marks": 0.3,
    "long s": 0.5,
    "lines": 0.5,
    "ae, oe, ue": 0.25,
    "small e": 0.25,
    "capitals": 0.1,
}


@cache
def german() -> Language:
    """Return a pipeline that has only spaCy's tokenizer for German."""
    return spacy.blank("de")


def split_tokens(doc: Doc) -> Words:
    """Return the tokens of a gold Doc as spaCy's tokenizer splits them, with their tags.

    Some tokens of the newspapers have punctuation at their ends, such as `Wien,`. In running text,
    this punctuation is a token of its own, and must not become a part of the entity.
    """
    entities = {ent.start: ent for ent in doc.ents}
    found: Words = []
    start = 0
    while start < len(doc):
        ent = entities.get(start)
        span = doc[start : start + 1] if ent is None else ent
        texts = [piece.text for token in span for piece in german().make_doc(token.text)]
        named = [] if ent is None else [i for i, text in enumerate(texts) if has_letters(text)]
        for i, text in enumerate(texts):
            inside = bool(named) and named[0] <= i <= named[-1]
            tag = f"{'B' if i == named[0] else 'I'}-{span.label_}" if inside else "O"
            found.append((text, tag))
        start = span.end
    return found


def has_letters(text: str) -> bool:
    """Return whether a token has letters or digits."""
    return any(map(str.isalnum, text))


def damage(docs: Sequence[Doc], names: Sequence[str], rng: np.random.Generator) -> Doc:
    """Make one Doc of some gold Docs, with changes.

    docs (Sequence[Doc]): Gold Docs, with entities.
    names (Sequence[str]): Names of changes, keys of `DAMAGES`.
    rng (numpy.random.Generator): Generator for the lines.
    RETURNS (Doc): The Doc. A space follows each token, except beside a line break.
    """
    words = [word for doc in docs for word in split_tokens(doc)]
    for name, change in DAMAGES.items():
        if name in names:
            words = change(words, rng)
    texts = [text for text, _ in words]
    spaces = [not (a.isspace() or b.isspace()) for a, b in zip(texts, [*texts[1:], "."])]
    return Doc(docs[0].vocab, words=texts, spaces=spaces, ents=[tag for _, tag in words])


def damaged_copies(docs: Sequence[Doc], rng: np.random.Generator) -> Iterator[Doc]:
    """Yield damaged copies of Docs: one to six Docs that follow each other become one copy."""
    start = 0
    while start < len(docs):
        end = start + int(rng.integers(1, MAX_SENTENCES, endpoint=True))
        names = [name for name, share in SHARES.items() if rng.random() < share]
        copy = damage(docs[start:end], names, rng)
        if len(copy):  # Without sentence marks, nothing may be left.
            yield copy
        start = end


def main(
    output: Path = typer.Argument(..., help="Output: .spacy file"),
    inputs: list[Path] = typer.Argument(..., help=".spacy files of sentences", exists=True),
    copies: int = typer.Option(1, min=0, help="Number of damaged copies of each sentence"),
    seed: int = typer.Option(0, min=0, help="Random seed of the copies"),
) -> None:
    """Write the Docs of some files, and damaged copies of them, to one file."""
    vocab, rng = Vocab(), np.random.default_rng(seed)
    files = [list(DocBin().from_disk(path).get_docs(vocab)) for path in inputs]
    found = [doc for docs in files for doc in docs]
    for _ in range(copies):
        for docs in files:  # A copy never joins sentences of two newspapers.
            found += damaged_copies(docs, rng)
    write_docs(found, output)


if __name__ == "__main__":
    typer.run(main)
