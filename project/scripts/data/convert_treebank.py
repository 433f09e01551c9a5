"""Conversion of a treebank in CoNLL-U to a .spacy file, one Doc per part of a document.

A Doc has whole paragraphs, and ends with the paragraph that reaches the number of sentences of
`--sentences`. Between two paragraphs is a token of two line breaks, as spaCy's tokenizer makes it
from text with empty lines. So a pipeline learns to cut such text into sentences. Annotation that
the treebank lacks is missing in the Docs, and spaCy's components do not learn from it.
"""

from bisect import bisect_right
from collections.abc import Iterator
from hashlib import md5
from itertools import accumulate
from pathlib import Path
from typing import Optional, Union

import spacy
import typer
from spacy.language import Language
from spacy.tokens import Doc, DocBin, Span
from spacy.training import Example
from spacy.training.augment import make_whitespace_variant
from spacy.training.converters import conllu_to_docs
from wasabi import msg

from . import bio
from .convert_coref import read_splits
from .convert_uner import SENTENCE_ID, read_sentences
from .gum_entities import named_entities

PARAGRAPH_BREAK = "\n\n"
Sentence = tuple[str, list[str]]  # Id of the sentence, and its lines.
Paragraph = list[Sentence]


def main(
    input_path: Path = typer.Argument(
        ..., help=".conllu file, or a folder of one file per document", exists=True
    ),
    output_path: Path = typer.Argument(..., help=".spacy file to write", dir_okay=False),
    documents: Optional[Path] = typer.Option(
        None, help="Lines of a file's name without its ending, tab, and its part", exists=True
    ),
    part: str = typer.Option("train", help="The part of --documents to convert"),
    checksum: str = typer.Option(
        "", help="MD5 of the contents of these documents, in the order of --documents"
    ),
    entities: Optional[Path] = typer.Option(
        None, help=".iob2 file of Universal NER with entities of the same sentences", exists=True
    ),
    mentions: bool = typer.Option(
        False, "--mentions", help="Take the named entities from the mentions of UD GUM"
    ),
    sentences: int = typer.Option(10, min=1, help="Number of sentences that closes a Doc"),
    single: bool = typer.Option(
        False, "--single", help="Make a Doc of each sentence, without empty lines"
    ),
) -> None:
    """Convert a treebank to a .spacy file."""
    nlp = spacy.blank("en")
    try:
        paths = [input_path] if documents is None else find_documents(input_path, documents, part)
        check_version(paths, checksum)
        named = read_entities(nlp, entities)
        docs = [
            make_doc(nlp, paragraphs, named, mentions)
            for path in paths
            for document in read_documents(path)
            for paragraphs in (
                split_sentences(document) if single else split_document(document, sentences)
            )
        ]
    except ValueError as error:
        msg.fail("Can't convert the treebank", str(error), exits=1)
    output_path.parent.mkdir(parents=True, exist_ok=True)
    DocBin(docs=docs, store_user_data=False).to_disk(output_path)
    n_sentences = sum(len(list(doc.sents)) for doc in docs)
    tokens, ents = sum(map(len, docs)), sum(len(doc.ents) for doc in docs)
    msg.good(
        f"{output_path}: {len(docs):,} Docs, {n_sentences:,} sentences, {tokens:,} tokens, "
        f"{ents:,} entities"
    )


def find_documents(folder: Path, splits: Path, part: str) -> list[Path]:
    """Return the files of the documents of a part.

    RAISES (ValueError): A file is missing, or the part is empty.
    """
    names = [name for name, found in read_splits(splits).items() if found == part]
    paths = [folder / f"{name}.conllu" for name in names]
    missing = [path for path in paths if not path.is_file()]
    if missing or not paths:
        raise ValueError(
            f"{missing[0]} is missing" if missing else f"{splits} has no documents of '{part}'"
        )
    return paths


def check_version(paths: list[Path], checksum: str) -> None:
    """Check that files have a checksum, unless it is empty.

    RAISES (ValueError): They have another one.
    """
    total = md5()
    for path in paths:
        total.update(path.read_bytes())
    if checksum and total.hexdigest() != checksum:
        raise ValueError(
            f"{paths[0].parent}: {len(paths)} documents have the MD5 {total.hexdigest()}, expected "
            f"{checksum}. Check out the version that project.yml names."
        )


def read_documents(path: Path) -> Iterator[list[Paragraph]]:
    """Yield the documents of a .conllu file, as lists of paragraphs."""
    document: list[Paragraph] = []
    for block in path.read_text("utf8").strip().split("\n\n"):
        lines = block.splitlines()
        words = [line.split(" ") for line in lines if line.startswith("#")]
        marks = {word[1] for word in words if len(word) > 1}
        name = next((line for line in lines if line.startswith(SENTENCE_ID)), "")
        if "newdoc" in marks and document:
            yield document
            document = []
        if marks & {"newdoc", "newpar"} or not document:
            document.append([])
        document[-1].append((name.removeprefix(SENTENCE_ID), lines))
    if document:
        yield document


def split_document(document: list[Paragraph], n_sentences: int) -> Iterator[list[Paragraph]]:
    """Yield parts of a document: whole paragraphs, until they have `n_sentences` sentences."""
    part: list[Paragraph] = []
    for paragraph in document:
        part.append(paragraph)
        if sum(map(len, part)) >= n_sentences:
            yield part
            part = []
    if part:
        yield part


def split_sentences(document: list[Paragraph]) -> Iterator[list[Paragraph]]:
    """Yield the sentences of a document, each as a list of one paragraph."""
    return ([[sentence]] for paragraph in document for sentence in paragraph)


def read_entities(nlp: Language, path: Optional[Path]) -> dict[str, Doc]:
    """Return a Doc with entities for each id of a sentence; an empty dict without a file.

    RAISES (ValueError): A line or a tag is not valid.
    """
    if path is None:
        return {}
    return {name: bio.make_doc(nlp.vocab, rows, path) for name, rows in read_sentences(path)}


def make_doc(
    nlp: Language, paragraphs: list[Paragraph], named: dict[str, Doc], mentions: bool = False
) -> Doc:
    """Make the Doc of some paragraphs.

    nlp (Language): A blank pipeline, for its vocab and tokenizer.
    paragraphs (List[Paragraph]): The paragraphs.
    named (Dict[str, Doc]): Docs with the entities of sentences, by the id of the sentence.
    mentions (bool): Whether to take the entities from the mentions of UD GUM.
    RETURNS (Doc): The Doc.
    """
    sentences = [sentence for paragraph in paragraphs for sentence in paragraph]
    text = "\n\n".join("\n".join(lines) for _, lines in sentences)
    doc = next(conllu_to_docs(text, n_sents=len(sentences), no_print=True))
    edges = [0, *accumulate(map(n_words, sentences))]
    breaks = list(accumulate(sum(map(n_words, paragraph)) for paragraph in paragraphs[:-1]))
    spans = []
    missing = []
    for (name, lines), start, end in zip(sentences, edges, edges[1:]):
        found = named.get(name)
        shift = start + bisect_right(breaks, start)
        if mentions:
            spans += [(shift + i, shift + j, label) for i, j, label in named_entities(lines)]
        elif found is None or letters(found) != letters(doc[start:end]):
            missing.append((shift, end + bisect_right(breaks, end)))
        else:
            spans += [(shift + i, shift + j, label) for i, j, label in align(found, doc[start:end])]
    example = Example(nlp.make_doc(doc.text), doc)
    for position in reversed(breaks):  # The earlier positions stay valid.
        example = make_whitespace_variant(nlp, example, PARAGRAPH_BREAK, position)
    doc = example.reference
    # Set the entities last: spaCy's function drops the annotation of a Doc without entities.
    doc.set_ents(
        [Span(doc, start, end, label) for start, end, label in spans],
        missing=[doc[start:end] for start, end in missing],
    )
    return doc


def align(named: Doc, sentence: Span) -> Iterator[tuple[int, int, str]]:
    """Yield start, end and label of the entities of a Doc, as positions in a sentence.

    In UNER, some sentences have the tokens of an earlier version of the treebank.
    """
    doc = sentence.as_doc()
    for ent in named.ents:
        doc.vocab.strings.add(ent.label_)
    for span in Example(doc, named).get_aligned_spans_y2x(named.ents):
        yield span.start, span.end, span.label_


def letters(text: Union[Doc, Span]) -> str:
    """Return the text without white space."""
    return "".join(text.text.split())


def n_words(sentence: Sentence) -> int:
    """Return the number of words of a sentence."""
    return sum(line.split("\t", 1)[0].isdigit() for line in sentence[1])


if __name__ == "__main__":
    typer.run(main)
