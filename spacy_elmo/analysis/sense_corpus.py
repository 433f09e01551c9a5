"""Running text whose words are labeled with their senses in WordNet."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import srsly

from ..files import user_path
from ..files.errors import named_errors
from ..files.lines import numbered_lines
from .wordnet import word_of

XML, KEYS = ".data.xml", ".gold.key.txt"
JSONL = (".jsonl", ".jsonl.gz")
FAILURES = (
    ElementTree.ParseError,
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
)


class Occurrence(NamedTuple):
    """A word with its senses.

    start (int): Its first token.
    end (int): The token after its last one.
    word (str): Lemma and part of speech, "bank%n".
    senses (Tuple[str, ...]): Sense keys of WordNet; each of them is right.
    """

    start: int
    end: int
    word: str
    senses: tuple[str, ...]


class Sentence(NamedTuple):
    """A sentence.

    tokens (List[str]): Its tokens; "New_York" is two.
    occurrences (List[Occurrence]): The words with senses.
    source (str): What its document is a part of, "senseval2".
    """

    tokens: list[str]
    occurrences: list[Occurrence]
    source: str


def read_sense_corpus(path: Path) -> list[Sentence]:
    """Read the sentences in which a word has a sense.

    path (Path): NAME.data.xml of the unified evaluation framework (Raganato et al. 2017),
        NAME.gold.key.txt beside it; or .jsonl or .jsonl.gz, a sentence a line: "words",
        "keys" (a list of sense keys a word, or null) and "doc", the document's name.
    RETURNS (List[Sentence]): The sentences.
    RAISES (ValueError): It is neither, broken, or no word has a sense.
    """
    path = user_path(path)
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    try:
        if path.name.endswith(XML):
            sentences = list(_read_xml(path))
        elif path.name.endswith(JSONL):
            sentences = list(_read_jsonl(path))
        else:
            raise ValueError(f"its name must end in {XML}, {' or '.join(JSONL)}")
    except FAILURES as error:
        cause = f"no key {error}" if isinstance(error, KeyError) else error
        raise ValueError(f"{path} is no corpus of word senses: {cause}") from None
    sentences = [sentence for sentence in sentences if sentence.occurrences]
    if not sentences:
        raise ValueError(f"{path}: no word has a sense")
    return sentences


def _read_xml(path: Path) -> Iterator[Sentence]:
    keys = path.with_name(path.name.removesuffix(XML) + KEYS)
    if not keys.is_file():
        raise ValueError(f"its senses are missing, {keys.name} beside it")
    lines = (line.split() for line in keys.read_text("utf-8-sig").split("\n"))
    senses = {fields[0]: fields[1:] for fields in lines if fields}
    for _, element in ElementTree.iterparse(path):
        if element.tag == "sentence":
            yield _sentence(
                [(word.text or "").split() for word in element],
                [senses[word.attrib["id"]] if word.tag == "instance" else [] for word in element],
                element.attrib["id"].split(".")[0],
            )
            element.clear()


def _read_jsonl(path: Path) -> Iterator[Sentence]:
    for number, content in numbered_lines(path):
        if not content.strip():
            continue
        with named_errors(f"line {number}"):
            line = srsly.json_loads(content.decode("utf8"))
            if not isinstance(line, dict):
                raise ValueError(f"should be a JSON object, got {json.dumps(line)[:40]}")
        words = [word.replace("_", " ").split() or [word] for word in line["words"]]
        keys = [found or [] for found in line["keys"]]
        yield _sentence(words, keys, line["doc"].split("/")[0])


def _sentence(words: list[list[str]], senses: list[list[str]], source: str) -> Sentence:
    if len(words) != len(senses):
        raise ValueError(f"{len(words)} words and {len(senses)} lists of keys in a sentence")
    tokens: list[str] = []
    occurrences = []
    for parts, keys in zip(words, senses):
        start = len(tokens)
        tokens.extend(parts)
        if keys and parts:
            occurrences.append(Occurrence(start, len(tokens), word_of(keys[0]), tuple(keys)))
    return Sentence(tokens, occurrences, source)
