"""Prepared corpora that are elsewhere."""

import hashlib
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from ..files import full_disk
from ..files.checksum import BLOCK
from ..files.remote import RemoteFile, reading
from .corpus import Corpus
from .manifest import MANIFEST
from .merge import CHARACTERS, COUNTS, DOCUMENTS, OFFSETS, STARTS
from .remote_tokens import ADVICE, AHEAD, RemoteShard, RemoteTokens
from .shards import TypeTable

# Of a stream: the block that it reads, one that a sentence goes on in, and those ahead.
BLOCKS_PER_STREAM = 2 + AHEAD


def open_remote_corpus(url: str, manifest: dict[str, Any], *, n_streams: int) -> Corpus:
    """Open a corpus that stands at a URL. Its types and the starts of its sentences are copied
    to the folder of temporary files, its tokens are fetched block by block as they are read; all
    is compared with its checksums.

    url (str): The corpus.
    manifest (dict): Its manifest.
    n_streams (int): At how many places it is read side by side; memory holds at most four blocks
        for each, a mebibyte.
    RETURNS (Corpus): The corpus.
    RAISES (ValueError): It cannot be read, is damaged, or was prepared by an earlier version.
    RAISES (OSError): The disk is full.
    """
    files, arrays = manifest["files"], (CHARACTERS, OFFSETS, STARTS, DOCUMENTS, COUNTS)
    if not {"blocks", "digest"} <= manifest.keys():
        raise ValueError(
            f"{url} has no checksums of blocks in its {MANIFEST}: it was prepared by an earlier "
            f"version, and can be read from a disk alone. Copy it to one, or prepare it again"
        )
    blocks = manifest["blocks"]
    if missing := sorted({*arrays, *blocks["sha256"]} - files.keys()):
        raise ValueError(f"{url}/{MANIFEST} has no checksum of {missing[0]}. {ADVICE}")
    shards = [
        RemoteShard(
            RemoteFile.join(url, name),
            blocks["first_byte"],
            (files[name]["size"] - blocks["first_byte"]) // 4,
            blocks["size"],
            checksums,
        )
        for name, checksums in blocks["sha256"].items()
    ]
    array = {name: _fetch(RemoteFile.join(url, name), files[name]) for name in arrays}
    return Corpus(
        types=TypeTable(array[CHARACTERS], array[OFFSETS]),
        tokens=RemoteTokens(shards, BLOCKS_PER_STREAM * n_streams),
        starts=array[STARTS],
        documents=array[DOCUMENTS],
        type_counts=array[COUNTS],
        digest=manifest["digest"],
    )


def _fetch(file: RemoteFile, about: dict[str, Any]) -> np.ndarray:
    """An `.npy` file, mapped into memory from a copy without a name, which goes with the array."""
    digest, n_bytes = hashlib.sha256(), 0
    advice = "give a folder with more as TMPDIR"
    with tempfile.TemporaryFile() as copy, full_disk(Path(tempfile.gettempdir()), advice):
        with file.open() as stream:
            while n_bytes <= about["size"] and (block := _read_block(file, stream)):
                n_bytes += len(block)
                digest.update(block)
                copy.write(block)
        copy.flush()
        if digest.hexdigest() != about["sha256"]:
            raise ValueError(
                f"{file} has another checksum than in {MANIFEST}: it is damaged. {ADVICE}"
            )
        copy.seek(0)
        np.lib.format.read_magic(copy)
        shape, _, dtype = np.lib.format.read_array_header_1_0(copy)
        return np.memmap(copy, dtype, "r", copy.tell(), shape).view(np.ndarray)


def _read_block(file: RemoteFile, stream: Any) -> bytes:
    with reading(file.url):
        return bytes(stream.read(BLOCK))
