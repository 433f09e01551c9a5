"""Conversion of sentences with semantic roles to a .spacy file, one Doc per sentence.

A sentence is a line of JSON with the words, and with BIO tags for each predicate.
"""

from pathlib import Path

import spacy
import typer
from spacy.tokens import DocBin
from wasabi import msg

from spacy_elmo.tasks.srl.corpus import make_srl_corpus
from spacy_elmo.tasks.srl.frames import PREDICATE, read_frames


def main(
    input_path: Path = typer.Argument(..., help=".jsonl or .jsonl.gz", exists=True, dir_okay=False),
    output_path: Path = typer.Argument(..., help=".spacy file to write", dir_okay=False),
) -> None:
    """Convert a file of semantic roles to a .spacy file."""
    try:
        examples = make_srl_corpus(input_path)(spacy.blank("xx"))
        docs = [example.reference for example in examples]
    except ValueError as error:
        msg.fail("Can't convert the file", str(error), exits=1)
    output_path.parent.mkdir(parents=True, exist_ok=True)
    DocBin(docs=docs).to_disk(output_path)
    frames = [roles for doc in docs for roles in (read_frames(doc) or {}).values()]
    n_roles = sum(label != PREDICATE for roles in frames for _, _, label in roles)
    msg.good(
        f"{output_path}: {len(docs):,} sentences, {sum(map(len, docs)):,} tokens, "
        f"{len(frames):,} predicates, {n_roles:,} roles"
    )


if __name__ == "__main__":
    typer.run(main)
