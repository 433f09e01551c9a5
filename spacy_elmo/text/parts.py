"""Parts: files with the token ids of one chunk of text, and their merge into one corpus.

Each part has its own list of types (distinct tokens), to which its ids refer.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from importlib.metadata import version
from pathlib import Path
from typing import Any, Optional
from zipfile import BadZipFile

import numpy as np

from ..files import atomic_stream, progress_bar
from ..model.vocabulary import SENTENCE_END, SENTENCE_START
from .corpus import Corpus, number_tokens
from .manifest import TOKENS
from .reading import sentences_of_lines, splitter_of
from .shards import Shards, TypeTable, array_writer, read_array, spell, write_shards

PART_VERSION = 1  # Increase it if the content of a part changes.
MAX_NAMED = 20  # Maximum number of skipped lines that are named per file.
STARTS = "starts.npy"
CHARACTERS, OFFSETS, COUNTS = "characters.npy", "character_offsets.npy", "counts.npy"
ARRAYS = (STARTS, CHARACTERS, OFFSETS, COUNTS)
MARKS = (SENTENCE_START.encode(), SENTENCE_END.encode())  # These types have the ids 0 and 1.


@dataclass(frozen=True)
class Reading:
    """Settings for reading sentences from the lines of a file.

    jsonl (bool): Whether each line is a JSON object.
    running_text (bool): Whether lines that are not JSON are running text. Otherwise each of them is
        a sentence.
    lang (Optional[str]): Language of spaCy's tokenizer. Only running text needs it.
    max_sentence (int): Maximum number of tokens in a sentence.
    """

    jsonl: bool
    running_text: bool
    lang: Optional[str]
    max_sentence: int

    def digest(self, data: bytes) -> str:
        """Return the SHA-256 of lines and of all settings that change their tokens."""
        settings: dict[str, Any] = {**asdict(self), "version": PART_VERSION}
        if self.jsonl or self.running_text:
            settings["spacy"] = version("spacy")
        else:
            del settings["lang"]  # It does not change sentences.
        digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
        digest.update(data)
        return digest.hexdigest()


@dataclass(frozen=True)
class Summary:
    """Summary of a part.

    name (str): File name of the part; "" if the chunk was empty.
    n_items (int): Number of tokens, including `<S>`.
    n_sentences (int): Number of sentences.
    n_skipped (int): Number of lines that could not be read.
    skipped (List[Tuple[int, str]]): The first skipped lines: line number in the chunk, from 0, and
        reason.
    """

    name: str = ""
    n_items: int = 0
    n_sentences: int = 0
    n_skipped: int = 0
    skipped: list[tuple[int, str]] = field(default_factory=list)


@dataclass(frozen=True)
class Part:
    """Text of a chunk as token ids.

    ids (numpy.ndarray): Ids of every sentence as `<S> w1 .. wn`. They refer to the types of this
        part.
    sizes (numpy.ndarray): Number of ids of each sentence, with `<S>`.
    characters (numpy.ndarray): Bytes of the types of this part, see `TypeTable`.
    offsets (numpy.ndarray): Offsets of the types, see `TypeTable`.
    """

    ids: np.ndarray
    sizes: np.ndarray
    characters: np.ndarray
    offsets: np.ndarray

    @property
    def types(self) -> TypeTable:
        """Types of this part. `<S>` has the id 0 and `</S>` the id 1."""
        return TypeTable(self.characters, self.offsets)


def make_part(data: bytes, reading: Reading, folder: str) -> Summary:
    """Convert a chunk to a part, and write it. If an earlier run wrote the part, keep it.

    data (bytes): The lines of the chunk.
    reading (Reading): Settings for reading the lines.
    folder (str): Folder of the parts.
    RETURNS (Summary): Summary of the part.
    """
    if not data:
        return Summary()
    path = Path(folder) / f"{reading.digest(data)}.npz"
    # If the existing part cannot be read or has a wrong name, write it again.
    unreadable = OSError, EOFError, KeyError, TypeError, ValueError, RecursionError, BadZipFile
    with suppress(*unreadable), np.load(path) as file:
        summary = Summary(**json.loads(file["summary"].tobytes()))
        if summary.name == path.name:
            return summary
    part, skipped = _read(data, reading)
    summary = Summary(path.name, len(part.ids), len(part.sizes), len(skipped), skipped[:MAX_NAMED])
    encoded = np.frombuffer(json.dumps(asdict(summary)).encode(), "uint8")
    with atomic_stream(path) as file:
        np.savez(file, **vars(part), summary=encoded)
    return summary


def read_part(folder: Path, summary: Summary) -> Part:
    """Read a part that `make_part` wrote.

    folder (Path): Folder of the parts.
    summary (Summary): Summary of the part.
    RETURNS (Part): The part.
    RAISES (OSError): The file is damaged. It is deleted, so that the next run writes it again.
    """
    path = folder / summary.name
    try:
        with np.load(path) as file:
            return Part(*(file[field.name] for field in fields(Part)))
    except (BadZipFile, EOFError, ValueError) as error:
        path.unlink()  # The next run writes it again.
        raise OSError(f"{path} was damaged ({error}). Run again.") from error


def _read(data: bytes, reading: Reading) -> tuple[Part, list[tuple[int, str]]]:
    skipped: list[tuple[int, str]] = []
    sentences = sentences_of_lines(
        enumerate(data.removesuffix(b"\n").split(b"\n")),
        reading.jsonl,
        reading.running_text,
        splitter_of(reading.lang),
        lambda line, reason: skipped.append((line, reason)),
    )

    def short_ones() -> Iterator[list[str]]:
        for line, sentence in sentences:
            if (n := len(sentence)) <= reading.max_sentence:
                yield sentence
            else:
                reason = f"a sentence of {n:,} tokens, more than {reading.max_sentence:,}"
                skipped.append((line, reason))

    types, ids, sizes = number_tokens(short_ones())
    return Part(ids, sizes, *spell(types)), skipped


def merge_parts(parts_folder: Path, parts: Sequence[Summary], folder: Path) -> None:
    """Merge parts into the arrays of a corpus.

    All types (distinct tokens) are in memory at the same time, but only one part at a time.

    parts_folder (Path): Folder of the parts.
    parts (Sequence[Summary]): The summary of each part, in order.
    folder (Path): The output folder. Existing arrays are replaced.
    """
    for leftover in folder.glob(TOKENS):
        leftover.unlink(missing_ok=True)
    ids = _count_types(parts_folder, parts)
    # Reuse the dict of the counts, because it takes most of the memory.
    ids.update((spelled, i) for i, spelled in enumerate(_write_types(folder, ids)))
    n_items = sum(part.n_items for part in parts)
    n_sentences = sum(part.n_sentences for part in parts)
    with (
        progress_bar(n_items, "Writing", "tokens") as bar,
        array_writer(folder / STARTS, "int64", n_sentences) as write_starts,
    ):

        def tokens() -> Iterator[np.ndarray]:
            start = 0
            for part in _read_parts(parts_folder, parts):
                write_starts(start + np.cumsum(part.sizes, dtype="int64") - part.sizes)
                start += len(part.ids)
                bar.update(len(part.ids))
                of_part = np.array([ids[spelled] for spelled in part.types.spelled()], "int32")
                yield of_part[part.ids]

        write_shards(folder, tokens(), n_items)


def read_arrays(folder: Path) -> Corpus:
    """Open the arrays that `merge_parts` wrote, as memory maps."""
    types = TypeTable(read_array(folder / CHARACTERS), read_array(folder / OFFSETS))
    tokens = Shards([read_array(path) for path in sorted(folder.glob(TOKENS))])
    return Corpus(types, tokens, read_array(folder / STARTS), read_array(folder / COUNTS))


def _read_parts(folder: Path, parts: Sequence[Summary]) -> Iterator[Part]:
    return (read_part(folder, summary) for summary in parts if summary.name)


def _count_types(folder: Path, parts: Sequence[Summary]) -> dict[bytes, int]:
    """Return the number of occurrences of each type in all parts together."""
    counts = dict.fromkeys(MARKS, 0)
    for part in _read_parts(folder, parts):
        found = np.bincount(part.ids, minlength=len(part.types)).tolist()
        for spelled, n in zip(part.types.spelled(), found):
            counts[spelled] = counts.get(spelled, 0) + n
    return counts


def _write_types(folder: Path, counts: dict[bytes, int]) -> list[bytes]:
    """Write the types and their counts. Return the types in the order of their ids.

    `<S>` and `</S>` come first, then words in descending order of count. Words with equal counts
    are sorted by their UTF-8 bytes, which is the order of Python strings.
    """
    words = sorted(counts.keys() - MARKS)
    types = [*MARKS, *sorted(words, key=counts.__getitem__, reverse=True)]
    offsets = np.cumsum([0, *map(len, types)], dtype="int64")
    for name, array in (
        (CHARACTERS, np.frombuffer(b"".join(types), "uint8")),
        (OFFSETS, offsets),
        (COUNTS, np.array([counts[spelled] for spelled in types], "int64")),
    ):
        with array_writer(folder / name, array.dtype.str, len(array)) as write:
            write(array)
    return types
