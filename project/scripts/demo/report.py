"""Report on one ambiguous word: similarity of its vectors in three sentences."""

from pathlib import Path

import spacy
import typer
from wasabi import msg

import spacy_elmo

WORD = "bank"
SENTENCES = {
    "river": "The otters slept on the muddy bank beside the stream .",
    "money": "The accountant opened an account at the bank last week .",
    "river, too": "Two herons nested on the grassy bank of the lake .",
}


def main(
    model: str = typer.Argument(..., help="Path of a pipeline, or name of a published model"),
) -> None:
    """Print the similarity of the word's vectors in each pair of sentences."""
    if Path(model).exists():
        nlp = spacy.load(model)
    else:
        nlp = spacy.blank("en")
        nlp.add_pipe("elmo", config=spacy_elmo.pretrained(model))
    tokens = {}
    for sense, sentence in SENTENCES.items():
        doc = spacy.tokens.Doc(nlp.vocab, sentence.split())
        tokens[sense] = next(token for token in nlp(doc) if token.text == WORD)
    msg.divider(f"'{WORD}' in three sentences: similarity of its vectors, {model}")
    for sense, sentence in SENTENCES.items():
        print(f"  {sense:<12}{sentence}")
    rows = [
        (sense, *(f"{token.similarity(other):.3f}" for other in tokens.values()))
        for sense, token in tokens.items()
    ]
    msg.table(rows, header=("", *tokens), divider=True, aligns=("l", "r", "r", "r"))


if __name__ == "__main__":
    typer.run(main)
