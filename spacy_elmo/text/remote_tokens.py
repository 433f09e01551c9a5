"""The tokens of a corpus that is elsewhere, of which some blocks are here."""

import hashlib
from collections.abc import Collection, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Optional, Union

import numpy as np

from ..files.remote import RemoteFile

BLOCK_SIZE = 1 << 16  # tokens
AHEAD = 2  # blocks after one that is read
THREADS = 16  # that fetch
ADVICE = "Copy the corpus there again"


@dataclass(frozen=True)
class RemoteShard:
    """A file of tokens that is elsewhere.

    file (RemoteFile): The file, an array of int32 after a header.
    first_byte (int): Where the array begins.
    length (int): Its tokens.
    block_size (int): Tokens of a block; the last one may have fewer.
    checksums (Sequence[str]): SHA-256 of each block, in hexadecimal.
    RAISES (ValueError): It is missing, or of another length, or its blocks are larger than any
        version writes, for which there would have to be memory.
    """

    file: RemoteFile
    first_byte: int
    length: int
    block_size: int
    checksums: Sequence[str]

    def __post_init__(self) -> None:
        if not 0 < self.block_size <= BLOCK_SIZE:
            raise ValueError(
                f"{self.file}: blocks of {self.block_size:,} tokens, there may be {BLOCK_SIZE:,}. "
                f"{ADVICE}"
            )
        size, expected = self.file.size(), self.first_byte + 4 * self.length
        if size != expected:
            raise ValueError(f"{self.file} has {size:,} bytes, not {expected:,}. {ADVICE}")

    def read(self, number: int) -> np.ndarray:
        """Fetch a block.

        number (int): Which, from 0.
        RETURNS (numpy.ndarray): Its tokens, int32.
        RAISES (ValueError): It cannot be read, or is another one than was prepared.
        """
        first = number * self.block_size
        last = min(first + self.block_size, self.length)
        start, stop = (self.first_byte + 4 * place for place in (first, last))
        data = self.file.read(start, stop)
        if hashlib.sha256(data).hexdigest() != self.checksums[number]:
            raise ValueError(
                f"{self.file}: bytes {start:,} to {stop:,} have another checksum than when the "
                f"corpus was prepared. {ADVICE}"
            )
        return np.frombuffer(data, "<i4")


class RemoteTokens:
    """What `Shards` is of files on disk, of files that are elsewhere. Memory holds a fixed number
    of blocks. After a block that is read the next two are fetched in the background, those of the
    beginning after the last; what was not read for the longest time makes room.

    shards (Sequence[RemoteShard]): The files, all of one length but the last.
    max_blocks (int): Most blocks in memory.
    """

    def __init__(self, shards: Sequence[RemoteShard], max_blocks: int):
        self._shards = shards
        self._length = sum(shard.length for shard in shards)
        self._block_size = shards[0].block_size
        self._per_shard = len(shards[0].checksums)
        n_blocks = sum(len(shard.checksums) for shard in shards)
        self._slots = np.empty((min(max_blocks, n_blocks), self._block_size), "int32")
        self._slot_of = np.full(n_blocks, -1)
        self._used: dict[int, None] = {}  # the blocks that have a slot, the last read ones last
        self._coming: dict[int, Future[None]] = {}
        self._threads = ThreadPoolExecutor(THREADS)

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, where: Union[slice, np.ndarray]) -> np.ndarray:
        """where (Union[slice, numpy.ndarray]): A stretch, or any places from 0.
        RAISES (ValueError): A block cannot be fetched, tried twice."""
        if isinstance(where, slice):
            where = np.arange(*where.indices(len(self)))
        if where.size and not (where.min() >= 0 and where.max() < len(self)):
            raise IndexError(f"a place outside of the {len(self)} items")
        shards, places = np.divmod(where, self._shards[0].length)
        blocks = shards * self._per_shard + places // self._block_size
        places %= self._block_size
        found = np.empty(where.shape, "int32")
        needed = np.unique(blocks)
        for first in range(0, len(needed), len(self._slots)):
            some = needed[first : first + len(self._slots)]
            self._keep(some.tolist())
            here = (blocks >= some[0]) & (blocks <= some[-1])
            found[here] = self._slots[self._slot_of[blocks[here]], places[here]]
        return found

    def _keep(self, blocks: list[int]) -> None:
        """Wait for blocks, and begin to fetch those after them while there is room."""
        kept = set(blocks)
        for block in blocks:
            self._begin(block, kept, must=True)
        for block in blocks:
            self._finish(block)
        following = [block + n for n in range(1, AHEAD + 1) for block in blocks]
        ahead = dict.fromkeys(block % len(self._slot_of) for block in following)
        kept.update(ahead)
        for block in ahead:
            if not self._begin(block, kept, must=False):
                break

    def _begin(self, block: int, kept: Collection[int], *, must: bool) -> bool:
        """Begin to fetch a block that is neither here nor on its way.

        kept (Collection[int]): Blocks that make no room for it.
        must (bool): Whether to wait for room.
        RETURNS (bool): Whether there is room.
        """
        if self._slot_of[block] < 0:
            slot = self._make_room(kept, must=must)
            if slot is None:
                return False
            self._slot_of[block] = slot
            self._coming[block] = self._threads.submit(self._fetch, block, slot)
        self._used.pop(block, None)
        self._used[block] = None
        return True

    def _make_room(self, kept: Collection[int], *, must: bool) -> Optional[int]:
        if len(self._used) < len(self._slots):
            return len(self._used)
        others = [block for block in self._used if block not in kept]
        done = (b for b in others if b not in self._coming or self._coming[b].done())
        oldest = next(done, others[0] if must else None)
        if oldest is None:
            return None
        if oldest in self._coming:
            wait([self._coming.pop(oldest)])
        del self._used[oldest]
        slot = int(self._slot_of[oldest])
        self._slot_of[oldest] = -1
        return slot

    def _finish(self, block: int) -> None:
        """Wait for a block; what failed in the background is tried once more."""
        future = self._coming.get(block)
        if future is None:
            return
        wait([future])
        if future.cancelled() or future.exception() is not None:
            try:
                self._fetch(block, int(self._slot_of[block]))
            except ValueError:
                for other in self._coming.values():
                    other.cancel()  # or the end of the program would wait for them
                raise
        del self._coming[block]

    def _fetch(self, block: int, slot: int) -> None:
        shard, number = divmod(block, self._per_shard)
        tokens = self._shards[shard].read(number)
        self._slots[slot, : len(tokens)] = tokens
