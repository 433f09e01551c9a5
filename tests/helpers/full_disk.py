"""A disk without room, by the system's own limit."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def room_for(n_bytes: int) -> Iterator[None]:
    """Limit the size of files of this process, so that longer writes fail."""
    resource = pytest.importorskip("resource", reason="there is no such limit")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(n_bytes), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
