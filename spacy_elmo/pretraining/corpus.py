"""From text files to token ids."""

import gzip
import sys
import zlib
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from glob import glob
from pathlib import Path
from typing import Union

import numpy as np
import spacy
import srsly
from spacy.language import Language

from ..bilm.characters import SENTENCE_END, SENTENCE_START

READABLE = (".txt", ".txt.gz", ".jsonl")
START_ID, END_ID = 0, 1
MAX_PARAGRAPH = 20_000  # characters after which a paragraph ends with its line


@dataclass(frozen=True)
class Corpus:
    """Sentences as ids of token types.

    types (List[str]): The token types; `<S>` is 0 and `</S>` is 1.
    tokens (numpy.ndarray): Every sentence as `<S> w1 .. wn`. *Shape:* `(n,)`, int32
    starts (numpy.ndarray): Where each sentence starts in it. *Shape:* `(n_sentences,)`
    """

    types: list[str]
    tokens: np.ndarray
    starts: np.ndarray

    @property
    def n_words(self) -> int:
        """RETURNS (int): Tokens, sentence marks not counted."""
        return len(self.tokens) - len(self.starts)

    def counts(self) -> np.ndarray:
        """RETURNS (numpy.ndarray): How often each type occurs."""
        return np.bincount(self.tokens, minlength=len(self.types))


def read_corpus(sentences: Iterable[list[str]], source: str = "the corpus") -> Corpus:
    """Number the tokens of sentences.

    sentences (Iterable[List[str]]): The sentences; empty ones are left out.
    source (str): Its name in the error message.
    RETURNS (Corpus): The ids.
    RAISES (ValueError): There is no sentence.
    """
    types = {SENTENCE_START: START_ID, SENTENCE_END: END_ID}
    tokens, starts = array("i"), array("q")
    for sentence in sentences:
        if not sentence:
            continue
        starts.append(len(tokens))
        tokens.append(START_ID)
        tokens.extend([types.setdefault(token, len(types)) for token in sentence])
    if not starts:
        raise ValueError(f"{source} holds no sentence")
    return Corpus(list(types), np.array(tokens, "int32"), np.array(starts, "int64"))


def find_files(inputs: Union[str, Path, Iterable[Union[str, Path]]]) -> list[Path]:
    """Find the readable files of paths, folders and globs.

    inputs (Union[str, Path, Iterable[Union[str, Path]]]): One of them, or several.
    RETURNS (List[Path]): The files, those of a folder or glob sorted.
    RAISES (ValueError): A path is missing, or its format unknown.
    """
    if isinstance(inputs, (str, Path)):
        inputs = [inputs]
    files: list[Path] = []
    for given in inputs:
        path = Path(given)
        if path.is_dir():
            found = sorted(file for file in path.rglob("*") if file.name.endswith(READABLE))
        elif path.exists():
            found = [path]
        else:
            found = sorted(Path(name) for name in glob(str(given), recursive=True))
        found = [file for file in found if file.is_file()]
        if not found:
            raise ValueError(f"no {', '.join(READABLE)} file at '{given}'")
        files.extend(found)
    for file in files:
        if not file.name.endswith(READABLE):
            raise ValueError(f"{file}: unknown format; readable are {', '.join(READABLE)}")
    return files


def read_sentences(
    files: Iterable[Path], *, running_text: bool = False, lang: str = "en"
) -> Iterator[list[str]]:
    """Read the sentences of files: `.txt` and `.txt.gz` by line, `.jsonl` by
    line with a key `tokens` (a sentence) or `text` (running text).

    files (Iterable[Path]): What `find_files` found.
    running_text (bool): Whether text files hold running text, for spaCy to split,
        rather than a sentence a line, its tokens separated by spaces.
    lang (str): Language of spaCy's tokenizer for running text.
    YIELDS (List[str]): The tokens of a sentence.
    RAISES (ValueError): A file cannot be read; the message names file and line.
    """
    splitter = _splitter(lang)
    for file in files:
        lines = _lines(file)
        if file.name.endswith(".jsonl"):
            yield from _jsonl_sentences(lines, file, splitter)
        elif running_text:
            yield from _split(_paragraphs(line for _, line in lines), splitter)
        else:
            yield from (line.split() for _, line in lines)


def _lines(file: Path) -> Iterator[tuple[int, str]]:
    opener = gzip.open if file.suffix == ".gz" else open
    number = 0
    try:
        with opener(file, "rb") as stream:
            for number, line in enumerate(stream, 1):
                yield number, line.decode("utf-8-sig" if number == 1 else "utf8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{file}, line {number}: not UTF-8: {error}") from error
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"{file}, after line {number}: not a whole gzip file: {error}") from error


def _jsonl_sentences(
    lines: Iterable[tuple[int, str]], file: Path, splitter: Language
) -> Iterator[list[str]]:
    for number, line in lines:
        if not line.strip():
            continue
        try:
            record = srsly.json_loads(line)
            tokens, text = record.get("tokens"), record.get("text")
        except (ValueError, AttributeError) as error:
            raise ValueError(f"{file}, line {number}: not a JSON object: {error}") from error
        if isinstance(tokens, list) and all(isinstance(token, str) for token in tokens):
            yield tokens
        elif isinstance(text, str):
            yield from _split([text], splitter)
        else:
            raise ValueError(
                f"{file}, line {number}: needs 'tokens' (a list of strings) or 'text' (a string)"
            )


def _splitter(lang: str) -> Language:
    nlp = spacy.blank(lang)
    nlp.add_pipe("sentencizer")
    nlp.max_length = sys.maxsize  # its reason, the memory of parsers, is none here
    return nlp


def _paragraphs(lines: Iterable[str]) -> Iterator[str]:
    """Lines up to an empty one belong together: running text is often wrapped."""
    paragraph: list[str] = []
    n_characters = 0
    for line in map(str.strip, lines):
        if not line or n_characters >= MAX_PARAGRAPH:
            yield " ".join(paragraph)
            paragraph, n_characters = [], 0
        if line:
            paragraph.append(line)
            n_characters += len(line)
    yield " ".join(paragraph)


def _split(texts: Iterable[str], splitter: Language) -> Iterator[list[str]]:
    for doc in splitter.pipe(text for text in texts if text):
        for sentence in doc.sents:
            yield [token.text for token in sentence if not token.is_space]
