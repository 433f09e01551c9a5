"""Conversion of Europeana newspapers (lines of token, space, IOB tag) to three .spacy files.

The files have no sentences and no train, dev and test parts. A sentence ends at `.`, `!` or `?`, or
after 60 tokens, but never within an entity. The first 80 % of the tokens become train, the next
10 % dev, the rest test. The parts are blocks in order, because neighboring sentences are about the
same people. A part ends at the end of a sentence.

Some lines are wrong. The script repairs them and prints how many:

* `#` and two or more words (page number, address): left out. A page ends a sentence.
* `Die Böhminger O`, spaces within a token: the pieces are joined.
* No tag, or an unknown tag (`Bür v`): O.
* Misspelled tags (`B-PEr`, `I_ORG`, `B.PER`, `B-LOCer`, `B-ER`, `B-BER`, `B-OLOC`): PER, LOC, ORG.
* `I-MISC`, a type that the corpus does not define: O.
* I after neither B nor I of its type: B. In the French file (IOB1), every entity begins with I.
"""

import re
from collections import Counter
from pathlib import Path

import typer
from wasabi import msg

from spacy_elmo.files import atomic_write

from .bio import Sentence, make_docs, write_docs

PARTS = {"train": 0.8, "dev": 0.9, "test": 1.0}  # End of each part, as a share of the tokens.
MAX_TOKENS = 60
COMMENT = re.compile(r"# ?\S* ?(file|url):")
TAG = re.compile(r"([BI])[-_.]([A-Za-z]+)")
LABELS = {"ER": "PER", "BER": "PER", "OLOC": "LOC", "LOCER": "LOC"}


def parse_line(line: str, repairs: Counter[str]) -> tuple[str, str]:
    """Return the token and the repaired tag of a line, and count the repairs in `repairs`."""
    token, *tags = line.rsplit(maxsplit=1)
    found = TAG.fullmatch(tags[0]) if tags else None
    label = LABELS.get(found[2].upper(), found[2].upper()) if found else ""
    tag = f"{found[1]}-{label}" if found and label in ("PER", "LOC", "ORG") else "O"
    if not tags:
        repairs["tag missing"] += 1
    elif label == "MISC":
        repairs["I-MISC"] += 1
    elif tag != tags[0]:
        repairs["other tag" if tag != "O" else "tag unknown"] += 1
    if " " in token.strip():
        repairs["spaces in a token"] += 1
    return "".join(token.split()), tag


def read_sentences(path: Path, repairs: Counter[str]) -> list[Sentence]:
    """Return the sentences of a file, and count the repairs in `repairs`."""
    sentences: list[Sentence] = [[]]
    previous = "O"
    for number, line in enumerate(path.read_text("utf8").split("\n"), 1):
        if COMMENT.match(line) or not line.strip():
            repairs["comment left out"] += bool(line.strip())
            sentences.append([])
            previous = "O"
            continue
        token, tag = parse_line(line, repairs)
        if tag[0] == "I" and previous[1:] != tag[1:]:
            repairs["I to B"] += 1
            tag = f"B{tag[1:]}"
        ends = sentences[-1] and sentences[-1][-1][1] in (".", "!", "?")
        if tag[0] != "I" and (ends or len(sentences[-1]) >= MAX_TOKENS):
            sentences.append([])
        sentences[-1].append((number, token, tag))
        previous = tag
    return list(filter(None, sentences))


def main(
    input_path: Path = typer.Argument(..., help=".bio file", exists=True, dir_okay=False),
    prefix: Path = typer.Argument(..., help="Beginning of the output: PREFIX-train.spacy ..."),
) -> None:
    """Convert a file of newspapers to train, dev and test: .spacy files and plain texts."""
    repairs: Counter[str] = Counter()
    sentences = read_sentences(input_path, repairs)
    n_tokens, place = sum(map(len, sentences)), 0
    parts: dict[str, list[Sentence]] = {name: [] for name in PARTS}
    for sentence in sentences:
        part = next(name for name, end in PARTS.items() if place < end * n_tokens)
        parts[part].append(sentence)
        place += len(sentence)
    for name, found in parts.items():
        write_docs(make_docs(found, input_path), Path(f"{prefix}-{name}.spacy"))
        lines = [" ".join(token for _, token, _ in sentence) for sentence in found]
        atomic_write(Path(f"{prefix}-{name}.txt"), "\n".join(lines) + "\n")
        labels = Counter(tag[2:] for each in found for _, _, tag in each if tag[0] == "B")
        msg.text(", ".join(f"{label} {n:,}" for label, n in sorted(labels.items())))
    msg.text("Repairs: " + (", ".join(f"{what} {n}" for what, n in repairs.items()) or "none"))


if __name__ == "__main__":
    typer.run(main)
