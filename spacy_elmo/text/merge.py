"""From parts with types of their own to one corpus."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from ..bilm.vocabulary import SENTENCE_END, SENTENCE_START
from ..files import progress_bar
from .corpus import END_ID, START_ID, Corpus
from .parts import Part, Summary, read_part
from .shards import ArrayWriter, Shards, ShardWriter, TypeTable, read_array

TOKENS, STARTS, DOCUMENTS = "tokens-*.npy", "starts.npy", "documents.npy"
CHARACTERS, OFFSETS, COUNTS = "characters.npy", "character_offsets.npy", "counts.npy"
TYPES_AT_A_TIME = 1 << 16


def merge_parts(
    parts_folder: Path, parts: Sequence[tuple[int, Summary]], folder: Path, *, shard_size: int
) -> None:
    """Write the arrays of a corpus. Memory holds the types, and one part.

    parts_folder (Path): Where the parts are.
    parts (Sequence[Tuple[int, Summary]]): The parts in their order, each with the
        number of its file: every file is a document, or several.
    folder (Path): Where to. Arrays that stand there are deleted.
    shard_size (int): Tokens of a file.
    """
    for leftover in (*folder.glob("*.npy"), *folder.glob("*.npy.part")):
        leftover.unlink()
    ids, counts = _count_types(parts_folder, parts)
    ranks = _write_types(folder, list(ids), counts)
    with (
        progress_bar(sum(part.n_items for _, part in parts), "Writing", "tokens") as bar,
        ShardWriter(folder, shard_size) as tokens,
        ArrayWriter(folder / STARTS, "int64") as starts,
        ArrayWriter(folder / DOCUMENTS, "int64") as documents,
    ):
        n_items = n_sentences = 0
        previous, waiting = -1, np.empty(0, "int64")
        for file, part in _read_parts(parts_folder, parts):
            tokens.append(ranks[_places(ids, part)][part.ids])
            starts.append(n_items + np.cumsum(part.sizes, dtype="int64") - part.sizes)
            # A document starts with a file, and where one ends, if a sentence follows.
            ends = n_sentences + part.document_ends.astype("int64")
            start = [n_sentences] if file != previous else []
            firsts = np.unique(np.concatenate([waiting, start, ends])).astype("int64")
            n_sentences += len(part.sizes)
            documents.append(firsts[firsts < n_sentences])
            previous, waiting = file, firsts[firsts == n_sentences]
            n_items += len(part.ids)
            bar.update(len(part.ids))


def read_arrays(folder: Path) -> Corpus:
    """RETURNS (Corpus): What `merge_parts` wrote, mapped into memory."""
    return Corpus(
        types=TypeTable(read_array(folder / CHARACTERS), read_array(folder / OFFSETS)),
        tokens=Shards([read_array(path) for path in sorted(folder.glob(TOKENS))]),
        starts=read_array(folder / STARTS),
        documents=read_array(folder / DOCUMENTS),
        type_counts=read_array(folder / COUNTS),
    )


def _read_parts(folder: Path, parts: Sequence[tuple[int, Summary]]) -> Iterator[tuple[int, Part]]:
    for file, summary in parts:
        if summary.name:
            yield file, read_part(folder, summary)


def _places(ids: dict[bytes, int], part: Part) -> np.ndarray:
    return np.array([ids[spelled] for spelled in part.types.spelled()], "int64")


def _count_types(
    folder: Path, parts: Sequence[tuple[int, Summary]]
) -> tuple[dict[bytes, int], np.ndarray]:
    """All types by their first occurrence, and how often each occurs."""
    ids = {SENTENCE_START.encode(): START_ID, SENTENCE_END.encode(): END_ID}
    counts = np.zeros(TYPES_AT_A_TIME, "int64")
    for _, part in _read_parts(folder, parts):
        for spelled in part.types.spelled():
            ids.setdefault(spelled, len(ids))
        if len(ids) > len(counts):
            counts = np.append(counts, np.zeros(len(ids), "int64"))
        counts[_places(ids, part)] += np.bincount(part.ids, minlength=len(part.types))
    return ids, counts[: len(ids)]


def _write_types(folder: Path, spelled: list[bytes], counts: np.ndarray) -> np.ndarray:
    """The types by falling count, equal counts by spelling, after the two marks.
    UTF-8 sorts as the strings do."""
    marks = np.array([START_ID, END_ID])
    by_spelling = np.array(sorted(range(2, len(spelled)), key=spelled.__getitem__), "int64")
    order = np.append(marks, by_spelling[np.argsort(-counts[by_spelling], kind="stable")])
    with (
        ArrayWriter(folder / CHARACTERS, "uint8") as characters,
        ArrayWriter(folder / OFFSETS, "int64") as offsets,
        ArrayWriter(folder / COUNTS, "int64") as ordered_counts,
    ):
        ordered_counts.append(counts[order])
        offsets.append(np.zeros(1, "int64"))
        for first in range(0, len(order), TYPES_AT_A_TIME):
            some = [spelled[i] for i in order[first : first + TYPES_AT_A_TIME]]
            offsets.append(characters.length + np.cumsum([len(string) for string in some]))
            characters.append(np.frombuffer(b"".join(some), "uint8"))
    ranks = np.empty(len(order), "int32")
    ranks[order] = np.arange(len(order))
    return ranks
