"""Merging of parts into one corpus. Each part has its own ids for its types (distinct tokens)."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from ..files import progress_bar
from ..frozen.vocabulary import SENTENCE_END, SENTENCE_START
from .corpus import Corpus
from .manifest import TOKENS
from .parts import Part, Summary, read_part
from .shards import TYPES_AT_A_TIME, ArrayWriter, Shards, ShardWriter, TypeTable, read_array

STARTS, DOCUMENTS = "starts.npy", "documents.npy"
CHARACTERS, OFFSETS, COUNTS = "characters.npy", "character_offsets.npy", "counts.npy"
ARRAYS = (STARTS, DOCUMENTS, CHARACTERS, OFFSETS, COUNTS)
MARKS = (SENTENCE_START.encode(), SENTENCE_END.encode())  # These types have the ids 0 and 1.


def merge_parts(
    parts_folder: Path, parts: Sequence[tuple[int, Summary]], folder: Path, *, shard_size: int
) -> None:
    """Merge parts into the arrays of a corpus.

    The types (distinct tokens) of all parts are in memory, but only one part at a time.

    parts_folder (Path): Folder of the parts.
    parts (Sequence[Tuple[int, Summary]]): For each part, in order: the index of its input file, and
        its summary. Each input file starts a document.
    folder (Path): The output folder. Existing arrays are replaced.
    shard_size (int): Number of tokens in an output file.
    """
    for leftover in folder.glob(TOKENS):
        leftover.unlink()
    ids = _count_types(parts_folder, parts)
    # Reuse the dict of the counts, because it takes most of the memory.
    ids.update((spelled, i) for i, spelled in enumerate(_write_types(folder, ids)))
    with (
        progress_bar(sum(part.n_items for _, part in parts), "Writing", "tokens") as bar,
        ShardWriter(folder, shard_size) as tokens,
        ArrayWriter(folder / STARTS, "int64") as starts,
        ArrayWriter(folder / DOCUMENTS, "int64") as documents,
    ):
        n_items = n_sentences = 0
        previous, waiting = -1, np.empty(0, "int64")
        for file, part in _read_parts(parts_folder, parts):
            of_part = np.array([ids[spelled] for spelled in part.types.spelled()], "int32")
            tokens.append(of_part[part.ids])
            starts.append(n_items + np.cumsum(part.sizes, dtype="int64") - part.sizes)
            # A document starts at the start of a file. A document also starts where another one
            # ends, if a sentence follows.
            ends = n_sentences + part.document_ends.astype("int64")
            start = [n_sentences] if file != previous else []
            firsts = np.unique(np.concatenate([waiting, start, ends])).astype("int64")
            n_sentences += len(part.sizes)
            documents.append(firsts[firsts < n_sentences])
            previous, waiting = file, firsts[firsts == n_sentences]
            n_items += len(part.ids)
            bar.update(len(part.ids))


def read_arrays(folder: Path) -> Corpus:
    """Open the arrays that `merge_parts` wrote, as memory maps."""
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


def _count_types(folder: Path, parts: Sequence[tuple[int, Summary]]) -> dict[bytes, int]:
    """Return the number of occurrences of each type in all parts together."""
    counts = dict.fromkeys(MARKS, 0)
    for _, part in _read_parts(folder, parts):
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
    with (
        ArrayWriter(folder / CHARACTERS, "uint8") as characters,
        ArrayWriter(folder / OFFSETS, "int64") as offsets,
        ArrayWriter(folder / COUNTS, "int64") as ordered_counts,
    ):
        ordered_counts.append(np.array([counts[spelled] for spelled in types], "int64"))
        offsets.append(np.zeros(1, "int64"))
        for first in range(0, len(types), TYPES_AT_A_TIME):
            some = types[first : first + TYPES_AT_A_TIME]
            offsets.append(characters.length + np.cumsum([len(spelled) for spelled in some]))
            characters.append(np.frombuffer(b"".join(some), "uint8"))
    return types
