"""Data compressed with gzip, the same bytes in each run."""

import gzip


def gzipped(data: bytes) -> bytes:
    """Compress data. By default, gzip writes the time, and tests may be named after the bytes."""
    return gzip.compress(data, mtime=0)
