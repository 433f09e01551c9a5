"""Checksums of files."""

import hashlib
from pathlib import Path

BLOCK = 1 << 20  # Bytes that are read at a time.


def checksum(path: Path, algorithm: str = "sha256") -> str:
    """Compute the checksum of a file.

    path (Path): The file.
    algorithm (str): Name of an algorithm in `hashlib`. Use insecure ones such as MD5 only to check
        published checksums.
    RETURNS (str): The checksum, in hexadecimal.
    """
    digest = hashlib.new(algorithm, usedforsecurity=False)
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()
