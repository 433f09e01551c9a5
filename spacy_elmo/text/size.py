"""About how much text there is, without reading it all."""

import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import srsly

from .manifest import read_manifest
from .reading import Inputs, find_files, is_jsonl

SAMPLE = 1 << 20  # bytes that are read of a file
MAX_FILES = 50
TOKENS_A_WORD = 1.2  # spaCy splits punctuation off


def estimate_tokens(inputs: Inputs, *, format: str = "sentences") -> int:
    """Estimate the number of tokens of files from the beginnings of some; prepared
    corpora know theirs.

    inputs (Union[str, Path, Iterable[Union[str, Path]]]): Files, folders or globs, or
        what `prepare` wrote.
    format (str): 'sentences' or 'text'.
    RETURNS (int): The tokens, about.
    RAISES (ValueError): A path is missing, or a file cannot be read.
    """
    inputs = [inputs] if isinstance(inputs, (str, Path)) else list(inputs)
    prepared = [manifest for path in inputs if (manifest := read_manifest(Path(path)))]
    others = [path for path in inputs if not read_manifest(Path(path))]
    total = float(sum(manifest["counts"]["tokens"] for manifest in prepared))
    files = [file for file in find_files(others) if file.stat().st_size]
    for is_zipped in (False, True):
        for is_json in (False, True):
            total += _estimate(
                [f for f in files if (f.suffix == ".gz", is_jsonl(f)) == (is_zipped, is_json)],
                is_text=format == "text",
            )
    return int(total)


def _estimate(files: Sequence[Path], is_text: bool) -> float:
    """The tokens of files of one kind: they have about as many a byte on disk."""
    chosen = files[:: max(1, -(-len(files) // MAX_FILES))]
    if not chosen:
        return 0.0
    found = [_sample(file, is_text) for file in chosen]
    tokens, n_bytes = (sum(values) for values in zip(*found))
    return tokens * sum(file.stat().st_size for file in files) / n_bytes


def _sample(file: Path, is_text: bool) -> tuple[float, int]:
    """The tokens at the beginning of a file, and its bytes on disk."""
    try:
        with file.open("rb") as stream:
            content, used = _unzipped(stream) if file.suffix == ".gz" else _plain(stream)
    except (OSError, zlib.error) as error:
        raise ValueError(f"{file}: cannot be read: {error}") from error
    lines = content.split(b"\n")
    if is_jsonl(file):
        return sum(_tokens_of_json(line) for line in lines), used
    words = sum(len(line.split()) for line in lines)
    return words * (TOKENS_A_WORD if is_text else 1.0), used


def _plain(stream: BinaryIO) -> tuple[bytes, int]:
    content = stream.read(SAMPLE)
    return content, len(content)


def _unzipped(stream: BinaryIO) -> tuple[bytes, int]:
    """As `_plain`; `gzip` does not say how much of its buffer it has used."""
    unzip, content, rest, used = zlib.decompressobj(wbits=31), b"", b"", 0
    while len(content) < SAMPLE and (block := rest or stream.read(1 << 16)):
        if unzip.eof:
            unzip = zlib.decompressobj(wbits=31)
        content += unzip.decompress(block, SAMPLE - len(content))
        rest = unzip.unconsumed_tail or unzip.unused_data
        used += len(block) - len(rest)
    return content, used


def _tokens_of_json(line: bytes) -> float:
    """The tokens of a line; none where it is cut off, or no record."""
    try:
        record = srsly.json_loads(line.decode("utf8"))
        if isinstance(record.get("tokens"), list):
            return len(record["tokens"])
        return len(record["text"].split()) * TOKENS_A_WORD
    except (ValueError, AttributeError, KeyError):
        return 0.0
