"""Conversion of sentences with BIO tags to .spacy files, for the named-entity converters."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from spacy.tokens import Doc, DocBin, Span
from spacy.vocab import Vocab
from wasabi import msg

from spacy_elmo.tasks.shared.bio import TagError, parse_bio

Sentence = list[tuple[int, str, str]]  # (line number, token, tag) for each token


def make_doc(vocab: Vocab, sentence: Sentence, path: Path) -> Doc:
    """Make a Doc of a sentence, with its entities.

    The corpus does not record where the text had spaces, so a space follows every token. Training
    and evaluation use the tokens of the corpus, not spaCy's tokenizer.

    RAISES (ValueError): The tags are not valid BIO. The message has the path and the line.
    """
    doc = Doc(vocab, words=[token for _, token, _ in sentence])
    try:
        spans = parse_bio([tag for _, _, tag in sentence])
    except TagError as error:
        raise ValueError(f"{path}:{sentence[error.token][0]}: {error}") from None
    doc.ents = [Span(doc, start, end, label) for start, end, label in spans]
    return doc


def make_docs(sentences: Iterable[Sentence], path: Path) -> list[Doc]:
    """Make a Doc of each sentence; exit if a tag is not valid.

    sentences (Iterable[Sentence]): The sentences.
    path (Path): The file that they come from, for error messages.
    RETURNS (List[Doc]): The Docs.
    """
    vocab = Vocab()
    try:
        return [make_doc(vocab, sentence, path) for sentence in sentences]
    except ValueError as error:
        msg.fail("Can't convert the file", str(error), exits=1)


def write_docs(docs: Sequence[Doc], output_path: Path) -> None:
    """Write Docs to a .spacy file, and print their numbers of tokens and entities."""
    output_path.parent.mkdir(parents=True, exist_ok=True)
    DocBin(docs=docs).to_disk(output_path)
    tokens, ents = sum(map(len, docs)), sum(len(doc.ents) for doc in docs)
    msg.good(f"{output_path}: {len(docs):,} sentences, {tokens:,} tokens, {ents:,} entities")
