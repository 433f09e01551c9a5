"""Readers of text with WordNet senses, and of the first senses in WordNet's database.

The database consists of the files that wndb(5WN) describes. Princeton, NLTK and Debian's package
wordnet-base distribute them. NLTK's own reader cannot open Debian's files, because `lexnames` is
missing.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Optional
from xml.etree import ElementTree

from ..files import user_path
from ..files.compression import suffix_of
from ..files.errors import named_errors
from ..files.input_files import decode, numbered_lines, read_text
from ..files.schema import Schema, String

XML, KEYS = ".data.xml", ".gold.key.txt"
JSONL = ".jsonl"
LINE = Schema(
    {"words": list[String], "keys": list[Optional[list[String]]], "doc": String},
    '{"words": ["The", "bank"], "keys": [null, ["bank%1:17:01::"]], "doc": "..."}',
)
FAILURES = (ElementTree.ParseError, ValueError, KeyError, TypeError, AttributeError)
PARTS_OF_SPEECH = {"n": "noun", "v": "verb", "a": "adj", "r": "adv"}
# Types of synsets, numbered from 1 in sense keys. "s" is an adjective similar to a head adjective.
SYNSET_TYPES = "nvars"
SIMILAR = "&"  # Pointer from such an adjective to its head.


class LabeledWord(NamedTuple):
    """Occurrence of a word with its gold senses.

    start (int): Index of the word's first token.
    end (int): Index after its last token.
    word (str): Lemma and part of speech, such as "bank%n".
    senses (Tuple[str, ...]): Sense keys of WordNet. If there are several, each one is right.
    """

    start: int
    end: int
    word: str
    senses: tuple[str, ...]


class Sentence(NamedTuple):
    """Sentence with labeled words.

    tokens (List[str]): The tokens. "New_York" is split into two.
    occurrences (List[LabeledWord]): The words that have senses.
    source (str): The part of the corpus, such as "senseval2".
    """

    tokens: list[str]
    occurrences: list[LabeledWord]
    source: str


def read_sense_corpus(path: Path) -> list[Sentence]:
    """Read the sentences that have a word with a sense.

    The file is one of:

    * NAME.data.xml of the unified evaluation framework (Raganato et al. 2017), in a folder with
      NAME.gold.key.txt;
    * .jsonl, perhaps compressed: one sentence per line with "words", "keys" (for each word a
      list of sense keys, or null) and "doc", the name of the document.

    RAISES (ValueError): The file is missing, broken or has another format, or no word has a sense.
    """
    path = user_path(path)
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    try:
        if path.name.endswith(XML):
            sentences = list(_read_xml(path))
        elif suffix_of(path.name) == JSONL:
            sentences = list(_read_jsonl(path))
        else:
            raise ValueError(f"its name must end in {XML} or {JSONL}")
    except FAILURES as error:
        cause = f"no key {error}" if isinstance(error, KeyError) else error
        raise ValueError(f"{path} is not a corpus with word senses: {cause}") from None
    sentences = [sentence for sentence in sentences if sentence.occurrences]
    if not sentences:
        raise ValueError(f"{path}: no word has a sense")
    return sentences


def _read_xml(path: Path) -> Iterator[Sentence]:
    keys = path.with_name(path.name.removesuffix(XML) + KEYS)
    if not keys.is_file():
        raise ValueError(f"the senses are missing. Put {keys.name} into the same folder")
    lines = (line.split() for line in read_text(keys).split("\n"))
    senses = {fields[0]: fields[1:] for fields in lines if fields}
    for _, element in ElementTree.iterparse(path):
        if element.tag == "sentence":
            yield _sentence(
                [(word.text or "").split() for word in element],
                [senses[word.attrib["id"]] if word.tag == "instance" else [] for word in element],
                element.attrib["id"].split(".")[0],
            )
            # Otherwise the words of all sentences stay in memory.
            element.clear()


def _read_jsonl(path: Path) -> Iterator[Sentence]:
    for number, content in numbered_lines(path):
        if not content.strip():
            continue
        with named_errors(f"line {number}"):
            line = LINE.parse(decode(content))
            words = [word.replace("_", " ").split() or [word] for word in line["words"]]
            keys = [keys or [] for keys in line["keys"]]
            sentence = _sentence(words, keys, line["doc"].split("/")[0])
        yield sentence


def _sentence(words: list[list[str]], senses: list[list[str]], source: str) -> Sentence:
    if len(words) != len(senses):
        raise ValueError(f"a sentence has {len(words)} words, but {len(senses)} lists of keys")
    tokens: list[str] = []
    occurrences = []
    for parts, keys in zip(words, senses):
        start = len(tokens)
        tokens.extend(parts)
        if keys and parts:
            occurrences.append(LabeledWord(start, len(tokens), word_of(keys[0]), tuple(keys)))
    return Sentence(tokens, occurrences, source)


def word_of(sense: str) -> str:
    """Return lemma and part of speech of a sense key: "bank%n" for "bank%1:17:01::".

    RAISES (ValueError): The text is not a sense key.
    """
    lemma, percent, rest = sense.rpartition("%")
    number = rest.partition(":")[0]
    if not percent or number not in ("1", "2", "3", "4", "5"):
        raise ValueError(f"'{sense}' is not a sense key of WordNet, such as 'bank%1:17:01::'")
    return f"{lemma}%{SYNSET_TYPES[int(number) - 1].replace('s', 'a')}"


class FirstSenses:
    """Reader of WordNet that finds the first sense of a word. The first sense is the most frequent.

    folder (Path): The folder with index.noun, data.noun and the same files for verbs, adjectives
        and adverbs.
    RAISES (ValueError): A file is missing.
    """

    def __init__(self, folder: Path):
        self._data: dict[str, bytes] = {}
        self._offsets: dict[str, int] = {}
        for pos, name in PARTS_OF_SPEECH.items():
            data, index = folder / f"data.{name}", folder / f"index.{name}"
            for path in (data, index):
                if not path.is_file():
                    raise ValueError(
                        f"there is no {path}. Give the folder of WordNet's database, such as "
                        f"/usr/share/wordnet of Debian's package wordnet-base"
                    )
            self._data[pos] = data.read_bytes()
            with named_errors(data):
                decode(self._data[pos])  # Later errors could not name the file.
            for line in read_text(index).splitlines():
                if not line.startswith(" "):  # Lines of the license start with a space.
                    fields = line.split()
                    # The line ends with offsets of `fields[2]` synsets, the most frequent first.
                    self._offsets[f"{fields[0]}%{pos}"] = int(fields[-int(fields[2])])

    def find(self, word: str) -> Optional[str]:
        """Return the sense key of a word such as "bank%n"; None if the word is unknown."""
        if word not in self._offsets:
            return None
        lemma, _, pos = word.rpartition("%")
        synset = self._synset(pos, self._offsets[word])
        words = _words(synset)
        ids = dict(reversed(words))  # If words only differ in case, the first one wins.
        head = ":"
        if synset[2] == "s":
            offset = int(synset[synset.index(SIMILAR, 4 + 2 * len(words)) + 1])
            head_word, head_id = _words(self._synset(pos, offset))[0]
            head = f"{head_word}:{head_id:02d}"
        number = SYNSET_TYPES.index(synset[2]) + 1
        return f"{lemma}%{number}:{synset[1]}:{ids[lemma]:02d}:{head}"

    def _synset(self, pos: str, offset: int) -> list[str]:
        """Return the fields of the synset at an offset of the data file.

        The fields are: offset, number of the lexicographer file, type, number of words, two per
        word (word, id), number of pointers, four per pointer.
        """
        data = self._data[pos]
        return data[offset : data.index(b"|", offset)].decode("utf8").split()


def _words(synset: list[str]) -> list[tuple[str, int]]:
    """Return the words and ids of a synset: words in lower case, without markers like "(a)"."""
    end = 4 + 2 * int(synset[3], 16)
    pairs = zip(synset[4:end:2], synset[5:end:2])
    return [(word.partition("(")[0].lower(), int(number, 16)) for word, number in pairs]
