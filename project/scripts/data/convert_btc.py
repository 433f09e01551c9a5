"""Conversion of the Broad Twitter Corpus to two .spacy files, one Doc per post.

The corpus has no dev set. The second half of the last section becomes the dev set, and the rest the
training set. The lines have the format of WNUT17, but a few have no token: they are left out.

The corpus has `@` and the user name after it as two tokens, and two of five entities are one of
them. Here, a mention is one token, as in other corpora and in spaCy's tokenizer, and no entity.
"""

from pathlib import Path

import typer

from .bio import Sentence, make_docs, write_docs
from .convert_wnut17 import read_sentences


def main(
    sections: list[Path] = typer.Argument(..., help="CoNLL files", exists=True, dir_okay=False),
    train: Path = typer.Option(..., help=".spacy file of the training set", dir_okay=False),
    dev: Path = typer.Option(..., help=".spacy file of the dev set", dir_okay=False),
) -> None:
    """Convert the sections of the Broad Twitter Corpus to two .spacy files."""
    docs = []
    for path in sections:
        posts = make_docs(map(join_mentions, read_sentences(path, skip_empty=True)), path)
        docs += posts
    n_train = len(docs) - (len(posts) + 1) // 2
    write_docs(docs[:n_train], train)
    write_docs(docs[n_train:], dev)


def join_mentions(sentence: Sentence) -> Sentence:
    """Return a sentence in which each mention of a user is one token outside of entities."""
    joined: Sentence = []
    is_sign = False  # The token before is the sign of a mention.
    is_cut = False  # The entity of this tag began with a mention.
    for number, token, tag in sentence:
        is_mention = is_sign or token.startswith("@")
        is_cut = is_mention or (is_cut and tag.startswith("I-"))
        if is_sign:
            number, before, _ = joined.pop()
            token = before + token
        joined.append((number, token, "O" if is_cut else tag))
        is_sign = token == "@"
    return joined


if __name__ == "__main__":
    typer.run(main)
