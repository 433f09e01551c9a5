"""Sense keys of WordNet, and the sense that its database has first.

The files are those of wndb(5WN), as Princeton, NLTK and Debian's package wordnet-base have
them. NLTK's own reader does not open the last, which lacks the file `lexnames`.
"""

from pathlib import Path
from typing import Optional

PARTS_OF_SPEECH = {"n": "noun", "v": "verb", "a": "adj", "r": "adv"}
SYNSET_TYPES = "nvars"  # from 1; "s" is an adjective that is similar to another, its head
SIMILAR = "&"


def word_of(sense: str) -> str:
    """RETURNS (str): Lemma and part of speech of a sense key: of "bank%1:17:01::" "bank%n"
    RAISES (ValueError): It is no sense key."""
    lemma, percent, rest = sense.rpartition("%")
    number = rest.partition(":")[0]
    if not percent or number not in ("1", "2", "3", "4", "5"):
        raise ValueError(f"'{sense}' is no sense key of WordNet, as 'bank%1:17:01::' is")
    return f"{lemma}%{SYNSET_TYPES[int(number) - 1].replace('s', 'a')}"


class FirstSenses:
    """The first sense of each word, which WordNet takes for the most frequent.

    folder (Path): index.noun, data.noun and the same of the other parts of speech.
    RAISES (ValueError): One of them is missing.
    """

    def __init__(self, folder: Path):
        self._data: dict[str, bytes] = {}
        self._offsets: dict[str, int] = {}
        for pos, name in PARTS_OF_SPEECH.items():
            data, index = folder / f"data.{name}", folder / f"index.{name}"
            for path in (data, index):
                if not path.is_file():
                    raise ValueError(
                        f"there is no {path}: give the folder of WordNet's database, "
                        f"/usr/share/wordnet of Debian's package wordnet-base"
                    )
            self._data[pos] = data.read_bytes()
            for line in index.read_text("utf8").splitlines():
                if not line.startswith(" "):  # as lines of the license do
                    fields = line.split()
                    self._offsets[f"{fields[0]}%{pos}"] = int(fields[-int(fields[2])])

    def find(self, word: str) -> Optional[str]:
        """RETURNS (Optional[str]): The sense key of a word, "bank%n"; None of an unknown one."""
        if word not in self._offsets:
            return None
        lemma, _, pos = word.rpartition("%")
        synset = self._synset(pos, self._offsets[word])
        words = _words(synset)
        ids = dict(reversed(words))  # of "Earth" and "earth" the first
        head = ":"
        if synset[2] == "s":
            offset = int(synset[synset.index(SIMILAR, 4 + 2 * len(words)) + 1])
            head_word, head_id = _words(self._synset(pos, offset))[0]
            head = f"{head_word}:{head_id:02d}"
        number = SYNSET_TYPES.index(synset[2]) + 1
        return f"{lemma}%{number}:{synset[1]}:{ids[lemma]:02d}:{head}"

    def _synset(self, pos: str, offset: int) -> list[str]:
        """RETURNS (List[str]): Offset, lexicographer's file, type, number of words, each word
        and its id, number of pointers, and of each pointer symbol, offset and two more."""
        data = self._data[pos]
        return data[offset : data.index(b"|", offset)].decode("utf8").split()


def _words(synset: list[str]) -> list[tuple[str, int]]:
    """Words without the place that adjectives are marked with, "(a)", and their ids."""
    end = 4 + 2 * int(synset[3], 16)
    return [
        (word.partition("(")[0].lower(), int(number, 16))
        for word, number in zip(synset[4:end:2], synset[5:end:2])
    ]
