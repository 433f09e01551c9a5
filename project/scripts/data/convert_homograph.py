"""Conversion of the Wikipedia Homograph Data to a .spacy file, one Doc per sentence.

The data have one TSV file per homograph (columns: homograph, wordid, sentence, start, end). The
span group "senses" of a Doc contains the homograph; its label is the wordid. Sentences are left out
if the offsets are wrong or if the homograph is only a part of a token.
"""

import csv
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import spacy
import typer
from spacy.language import Language
from spacy.tokens import Doc, DocBin, Span
from wasabi import msg

GROUP = "senses"
COLUMNS = ("homograph", "wordid", "sentence", "start", "end")
USED, WRONG, PART = "used", "wrong offsets", "homograph is a part of a token"


def read_rows(folder: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the place (file and line) and the columns of each row of a folder's TSV files.

    RAISES (ValueError): There is no TSV file, or a file has other columns.
    """
    files = sorted(folder.glob("*.tsv"))
    if not files:
        raise ValueError(f"{folder} contains no .tsv file")
    for path in files:
        with path.open(encoding="utf-8-sig", newline="") as file:  # There is a byte-order mark.
            rows = csv.DictReader(file, delimiter="\t")
            if tuple(rows.fieldnames or ()) != COLUMNS:
                raise ValueError(f"{path}: expected the columns {COLUMNS}, got {rows.fieldnames}")
            for row in rows:
                place = f"{path}:{rows.line_num}"
                if None in row or None in row.values():
                    raise ValueError(f"{place}: expected {len(COLUMNS)} columns")
                yield place, row


def make_doc(nlp: Language, place: str, row: dict[str, str]) -> tuple[Doc, str]:
    """Return the Doc of a row, and `USED` or the reason why it must be left out."""
    try:
        start, end = int(row["start"]), int(row["end"])
    except ValueError:
        raise ValueError(f"{place}: start and end must be numbers") from None
    doc = nlp.make_doc(row["sentence"])
    if doc.text[start:end].lower() != row["homograph"].lower():
        return doc, WRONG
    span = doc.char_span(start, end)
    if span is None:
        return doc, PART
    doc.spans[GROUP] = [Span(doc, span.start, span.end, row["wordid"])]
    return doc, USED


def main(
    input_dir: Path = typer.Argument(..., help="Folder of .tsv files", exists=True),
    output_path: Path = typer.Argument(..., help=".spacy file to write", dir_okay=False),
) -> None:
    """Convert the TSV files of a folder to a .spacy file."""
    nlp = spacy.blank("en")
    counts = {USED: 0, WRONG: 0, PART: 0}
    senses: Counter[str] = Counter()
    docs = DocBin()
    try:
        for place, row in read_rows(input_dir):
            doc, outcome = make_doc(nlp, place, row)
            counts[outcome] += 1
            if outcome == USED:
                docs.add(doc)
                senses[row["wordid"]] += 1
    except (ValueError, csv.Error) as error:
        msg.fail("Can't convert the files", str(error), exits=1)
    output_path.parent.mkdir(parents=True, exist_ok=True)
    docs.to_disk(output_path)
    msg.good(f"{output_path}: {counts[USED]:,} sentences, {len(senses):,} senses")
    for reason in (WRONG, PART):
        msg.text(f"left out, {reason}: {counts[reason]:,}")


if __name__ == "__main__":
    typer.run(main)
