"""Generator of the demo's data: text for a language model, and a small corpus for NER.

All sentences are built from the word lists and sentence frames in grammar.py. In the corpus for
NER, the label of a name depends on its context: PERSON, PLACE or FIRM. The context contains cue
words. The training set contains only some of the cue words. The dev and test sets contain all of
them, and so does the text for the language model, in similar contexts. This text also has words
with several meanings, such as "bank" and "crane".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TypeVar

import typer
from spacy.tokens import Doc, DocBin, Span
from spacy.vocab import Vocab
from wasabi import msg

from . import grammar

LM_TRAIN, LM_DEV = 12_000, 600
SIZES = {
    "ner": {"train": 240, "dev": 200, "test": 400},
}
KNOWN_SHARE = 0.4  # Share of the cue words that occur in the labeled training set.
CLASSES = sorted(grammar.NER)
LABELS = ("CULTURE", "NATURE")
Item = TypeVar("Item")


@dataclass(frozen=True)
class Sentence:
    """Generated sentence.

    words (Tuple[str, ...]): The tokens.
    ents (Tuple[Tuple[int, int, str], ...]): Start, end and label of each entity.
    """

    words: tuple[str, ...]
    ents: tuple[tuple[int, int, str], ...] = ()


def split(words: str) -> list[str]:
    """Split a word list of the grammar."""
    return [" ".join(word.split()) for word in words.split("/")]


def pick(rng: Random, items: Sequence[Item]) -> Item:
    """Choose one item.

    Only `random()` returns the same values in all versions of Python, so `choice` is not used.
    """
    return items[int(rng.random() * len(items))]


def subset(rng: Random, items: list[str], share: float) -> list[str]:
    """Choose a share of the items, at least one, and keep their order."""
    ranks = sorted(range(len(items)), key=[rng.random() for _ in items].__getitem__)
    keep = set(ranks[: max(1, round(share * len(items)))])
    return [item for i, item in enumerate(items) if i in keep]


@dataclass
class Lexicon:
    """Words that can occur in a data set.

    cues (Dict[Tuple[str, str], List[str]]): Cue words, by class and slot.
    names (List[str]): Names. A name that occurs several times is chosen more often.
    shared (Dict[str, List[str]]): Words that are no cues, by slot.
    """

    cues: dict[tuple[str, str], list[str]]
    names: list[str]
    shared: dict[str, list[str]]

    @classmethod
    def full(cls, names: Iterable[str]) -> Lexicon:
        """Return a lexicon with these names and all other words of the grammar."""
        cues = {}
        for table in (grammar.NER, grammar.NER_COMPANY, grammar.GROUPS, grammar.SENSE_COMPANY):
            for name, slots in table.items():
                cues.update({(name, slot): split(words) for slot, words in slots.items()})
        cues.update({(label, "S"): split(words) for label, words in grammar.SITES.items()})
        shared = {slot: split(words) for slot, words in grammar.SHARED.items()}
        shared["D"] = [site for label in LABELS for site in cues[label, "S"]]
        return cls(cues, list(names), shared)

    def known(self, rng: Random, share: float, names: Iterable[str]) -> Lexicon:
        """Return a lexicon with these names and a share of each list of cue words."""
        cues = {key: subset(rng, words, share) for key, words in self.cues.items()}
        shared = dict(self.shared)
        shared["D"] = [site for label in LABELS for site in cues[label, "S"]]
        return Lexicon(cues, list(names), shared)


class Writer:
    """Generator of random sentences with the words of a lexicon."""

    def __init__(self, rng: Random, lexicon: Lexicon):
        self.rng = rng
        self.lexicon = lexicon

    def fill(self, frame: str, cue: Callable[[str], str], classes: dict[str, str]) -> Sentence:
        """Fill the slots of a frame.

        frame (str): The frame (see grammar.py).
        cue (Callable): Returns a word for a slot that is not shared.
        classes (Dict[str, str]): Entity labels of the names, by slot (N, M).
        RETURNS (Sentence): The sentence. No word is used for two slots.
        """
        words: list[str] = []
        ents = []
        used: set[str] = set()
        for token in frame.split():
            if not token.startswith("{"):
                filler = token
            else:
                slot = token.strip("{}")
                filler = self.slot(slot, cue)
                while filler in used:
                    filler = self.slot(slot, cue)
                used.add(filler)
                if slot in classes:
                    ents.append((len(words), len(words) + len(filler.split()), classes[slot]))
            words.extend(filler.split())
        for i, (word, following) in enumerate(zip(words, words[1:])):
            if word == "a" and following[0] in "aeiou" and not following.startswith("uni"):
                words[i] = "an"
        words[0] = words[0][0].upper() + words[0][1:]
        return Sentence(tuple(words), tuple(ents))

    def slot(self, slot: str, cue: Callable[[str], str]) -> str:
        """Choose a word for a slot."""
        if slot in self.lexicon.shared:
            return pick(self.rng, self.lexicon.shared[slot])
        return cue(slot)

    def ner(self, kind: str) -> Sentence:
        """Generate a sentence for NER, about people, places and firms."""
        rng, lexicon = self.rng, self.lexicon
        first, second = pick(rng, CLASSES), pick(rng, CLASSES)
        frames = {
            "one": grammar.NER_ONE,
            "two": grammar.NER_TWO,
            "pair": grammar.NER_PAIR,
            "none": grammar.NER_NONE,
            "anchor": grammar.NER_ANCHORS,
            "familiar": grammar.NER_FAMILIAR,
        }

        def cue(slot: str) -> str:
            if slot in ("N", "M"):
                return pick(rng, lexicon.names)
            return pick(rng, lexicon.cues[second if slot.endswith("2") else first, slot[0]])

        return self.fill(pick(rng, frames[kind]), cue, {"N": first, "M": second})

    def sense(self, kind: str) -> Sentence:
        """Generate a sentence about an ambiguous word ("plain": an unambiguous one)."""
        rng, cues = self.rng, self.lexicon.cues
        label = pick(rng, LABELS)
        groups = sorted(group for group, its in grammar.LABELS.items() if its == label)
        words = {g: sorted(w for w, its in grammar.SENSES.items() if g in its) for g in groups}
        # Every ambiguous word occurs equally often.
        group, word = pick(rng, [(g, w) for g in groups for w in words[g]])
        plain = kind == "plain" or (kind == "familiar" and rng.random() < 0.5)
        targets = cues[group, "C"] if plain else [word]
        flight = group == "flight"
        frames = {
            "one": grammar.FLIGHT if flight else grammar.SENSE_ONE,
            "two": grammar.FLIGHT if flight else grammar.SENSE_TWO,
            "plain": grammar.FLIGHT if flight else grammar.SENSE_ONE + grammar.SENSE_TWO,
            "anchor": grammar.SITE_ANCHORS[label] + ([] if flight else grammar.SENSE_ANCHORS),
            "familiar": grammar.FLIGHT_FAMILIAR if flight else grammar.SENSE_FAMILIAR,
        }

        def cue(slot: str) -> str:
            if slot == "W":
                return pick(rng, targets)
            return pick(rng, cues[label if slot == "S" else group, slot])

        return self.fill(pick(rng, frames[kind]), cue, {})

    def mixture(self, parts: dict[tuple[str, str], int]) -> Sentence:
        """Generate a sentence of a random task and kind. `parts` contains their weights."""
        task, kind = pick(self.rng, [part for part, weight in parts.items() for _ in range(weight)])
        return self.ner(kind) if task == "ner" else self.sense(kind)

    def sentences(
        self, size: int, parts: dict[tuple[str, str], int], banned: set[tuple[str, ...]]
    ) -> list[Sentence]:
        """Generate `size` sentences with random tasks and kinds. No sentence is in `banned`."""
        result = []
        while len(result) < size:
            sentence = self.mixture(parts)
            if sentence.words not in banned:
                result.append(sentence)
        return result


# Percentages of the kinds of sentences, by data set.
PARTS = {
    "ner": {("ner", "one"): 60, ("ner", "two"): 20, ("ner", "pair"): 10, ("ner", "none"): 10},
    "lm": {
        ("ner", "one"): 3,
        ("ner", "two"): 7,
        ("ner", "pair"): 2,
        ("ner", "none"): 1,
        ("ner", "anchor"): 16,
        ("ner", "familiar"): 29,
        ("sense", "one"): 3,
        ("sense", "two"): 6,
        ("sense", "plain"): 4,
        ("sense", "anchor"): 10,
        ("sense", "familiar"): 19,
    },
}


def make_doc(vocab: Vocab, sentence: Sentence) -> Doc:
    """Make a Doc, with spaces such that spaCy's tokenizer returns the same tokens."""
    following = [*sentence.words[1:], "."]
    doc = Doc(vocab, sentence.words, spaces=[word not in (",", ".") for word in following])
    doc.ents = [Span(doc, start, end, label) for start, end, label in sentence.ents]
    return doc


def write_docs(path: Path, sentences: Iterable[Sentence]) -> None:
    """Write sentences to a .spacy file, one Doc per sentence."""
    vocab = Vocab()
    DocBin(docs=[make_doc(vocab, sentence) for sentence in sentences]).to_disk(path)


def write_text(path: Path, sentences: Iterable[Sentence]) -> None:
    """Write a text file with one sentence per line, tokens separated by spaces."""
    lines = "".join(" ".join(sentence.words) + "\n" for sentence in sentences)
    path.write_bytes(lines.encode("utf8"))


def count_row(name: str, data: list[Sentence], train: list[Sentence]) -> tuple[str, ...]:
    """Return a row of the summary: a set's sizes, and how many words its training set lacks."""
    known = {word.lower() for sentence in train for word in sentence.words}
    tokens = [word.lower() for sentence in data for word in sentence.words]
    new = sum(token not in known for token in tokens)
    odd = sum(any(word.lower() not in known for word in sentence.words) for sentence in data)
    counts = (f"{len(data):,}", f"{len(tokens):,}", f"{len(set(tokens)):,}")
    return (name, *counts, f"{100 * new / len(tokens):.1f}", f"{100 * odd / len(data):.1f}")


def make_data(seed: int) -> dict[str, list[Sentence]]:
    """Generate all data sets, by name. No sentence is in two of them."""
    rng = Random(seed)
    names, rare = split(grammar.NAMES), split(grammar.RARE_NAMES)
    unlabeled = Lexicon.full(names * 4 + rare)  # Rare names occur a quarter as often.
    full = Lexicon.full(names * 2 + rare + split(grammar.NEW_NAMES))
    known = full.known(rng, KNOWN_SHARE, names)
    data: dict[str, list[Sentence]] = {}
    banned: set[tuple[str, ...]] = set()
    for task, sizes in SIZES.items():
        for part, size in sizes.items():
            writer = Writer(rng, known if part == "train" else full)
            data[f"{task}-{part}"] = writer.sentences(size, PARTS[task], banned)
            banned.update(sentence.words for sentence in data[f"{task}-{part}"])
    for name, size in (("lm-train", LM_TRAIN), ("lm-dev", LM_DEV)):
        data[name] = Writer(rng, unlabeled).sentences(size, PARTS["lm"], banned)
        banned.update(sentence.words for sentence in data[name])
    return data


def main(
    output_dir: Path = typer.Argument(..., help="Output folder", file_okay=False),
    seed: int = typer.Option(0, help="Random seed of the sentences and the known words"),
) -> None:
    """Write lm-{train,dev}.txt and ner-{train,dev,test}.spacy."""
    data = make_data(seed)
    output_dir.mkdir(parents=True, exist_ok=True)
    rows = []
    for name, sentences in data.items():
        task = name.split("-")[0]
        if task == "lm":
            write_text(output_dir / f"{name}.txt", sentences)
        else:
            write_docs(output_dir / f"{name}.spacy", sentences)
        rows.append(count_row(name, sentences, data[f"{task}-train"]))
        if task != "lm" and not name.endswith("train"):
            rows.append(count_row(f"{name} against lm-train", sentences, data["lm-train"]))
    header = ("data", "sentences", "tokens", "types", "new tokens %", "sentences with one %")
    msg.table(rows, header=header, divider=True, aligns=("l", *"rrrrr"))
    msg.good(f"Wrote the demo data of seed {seed} to {output_dir}")


if __name__ == "__main__":
    typer.run(main)
