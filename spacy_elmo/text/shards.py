"""Long arrays and tables of strings on disk, as memory maps."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Union

import numpy as np

from ..files import atomic_stream

TYPES_AT_A_TIME = 1 << 16
SHARD_SIZE = 1 << 26  # A download that was interrupted continues with the next file.


class Shards:
    """One-dimensional array in pieces, such as the files of `write_shards`.

    arrays (Sequence[numpy.ndarray]): The pieces, in order.
    """

    def __init__(self, arrays: Sequence[np.ndarray]):
        self._arrays = list(arrays)
        self._ends = np.cumsum([len(array) for array in self._arrays])

    def __len__(self) -> int:
        return int(self._ends[-1])

    def __getitem__(self, where: Union[slice, np.ndarray]) -> np.ndarray:
        """Return a slice, or the items at an array of indices."""
        firsts = self._ends - [len(array) for array in self._arrays]
        if isinstance(where, slice):
            start, stop, _ = where.indices(len(self))
            places = np.maximum([start - firsts, stop - firsts], 0).T.tolist()
            slices = [array[first:last] for (first, last), array in zip(places, self._arrays)]
            return np.concatenate(slices)
        if where.size and not (where.min() >= 0 and where.max() < len(self)):
            raise IndexError(f"an index is outside of the {len(self)} items")
        pieces = np.searchsorted(self._ends, where, "right")
        found = np.empty(where.shape, self._arrays[0].dtype)
        for piece in np.flatnonzero(np.bincount(pieces.ravel())):
            here = pieces == piece
            found[here] = self._arrays[piece][where[here] - firsts[piece]]
        return found


class TypeTable(Sequence[str]):
    """List of strings, stored as one array of UTF-8 bytes.

    characters (numpy.ndarray): The bytes of all strings, uint8. A lone surrogate takes three
        bytes, as Python's "surrogatepass" encodes it.
    offsets (numpy.ndarray): Start of each string, and the end of the last string. *Shape:*
        `(n + 1,)`, int64
    """

    def __init__(self, characters: np.ndarray, offsets: np.ndarray):
        self.characters = characters
        self.offsets = offsets

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, i: Any) -> Any:
        place = range(len(self))[i]
        start, end = self.offsets.item(place), self.offsets.item(place + 1)
        return self.characters[start:end].tobytes().decode("utf8", "surrogatepass")

    def __iter__(self) -> Iterator[str]:
        return (spelled.decode("utf8", "surrogatepass") for spelled in self.spelled())

    def spelled(self) -> Iterator[bytes]:
        """Yield each string as UTF-8 bytes."""
        for first in range(0, len(self), TYPES_AT_A_TIME):
            offsets = self.offsets[first : first + TYPES_AT_A_TIME + 1]
            spelled = self.characters[offsets[0] : offsets[-1]].tobytes()
            places = (offsets - offsets[0]).tolist()
            yield from (spelled[start:end] for start, end in zip(places, places[1:]))


def spell(strings: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Convert strings to the arrays of a `TypeTable`."""
    spelled = [string.encode("utf8", "surrogatepass") for string in strings]
    offsets = np.cumsum([0, *map(len, spelled)], dtype="int64")
    return np.frombuffer(b"".join(spelled), "uint8"), offsets


@contextmanager
def array_writer(path: Path, dtype: str, length: int) -> Iterator[Callable[[np.ndarray], object]]:
    """Context manager: write a one-dimensional `.npy` file, piece by piece.

    The file appears when it is complete.

    path (Path): The file.
    dtype (str): Type of the items.
    length (int): Number of items.
    YIELDS (Callable[[numpy.ndarray], object]): A function that appends items.
    """
    kind = np.dtype(dtype).newbyteorder("<")
    # NumPy's own writers do not report a full disk: `save` loses the reason, and a write to a
    # memory map ends the process.
    with atomic_stream(path) as file:
        header = {"descr": kind.str, "fortran_order": False, "shape": (length,)}
        np.lib.format.write_array_header_1_0(file, header)
        yield lambda items: file.write(np.ascontiguousarray(items, kind).data)


def write_shards(
    folder: Path, arrays: Iterator[np.ndarray], length: int, size: int = SHARD_SIZE
) -> None:
    """Write arrays of token ids as one array in several files: `tokens-00000.npy` and so on.

    folder (Path): The folder.
    arrays (Iterator[numpy.ndarray]): The arrays, in order.
    length (int): Number of items in all arrays.
    size (int): Number of items in a file; the last file may have fewer.
    """
    rest = np.empty(0, "int32")
    for number, first in enumerate(range(0, length, size)):
        room = min(size, length - first)
        with array_writer(folder / f"tokens-{number:05}.npy", "int32", room) as write:
            while room:
                items, rest = rest[:room], rest[room:]
                write(items)
                room -= len(items)
                if room:
                    rest = next(arrays)


def read_array(path: Path) -> np.ndarray:
    """Open an `.npy` file as a memory map."""
    return np.load(path, mmap_mode="r", allow_pickle=False).view(np.ndarray)
