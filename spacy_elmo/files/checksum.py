"""Checksum of a file."""

import hashlib
from pathlib import Path

BLOCK = 1 << 20  # bytes read at a time


def checksum(path: Path, algorithm: str = "sha256") -> str:
    """Compute the digest of a file.

    path (Path): The file.
    algorithm (str): A name of `hashlib`. Insecure ones are for published checksums.
    RETURNS (str): The digest, in hexadecimal.
    """
    digest = hashlib.new(algorithm, usedforsecurity=False)
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()
