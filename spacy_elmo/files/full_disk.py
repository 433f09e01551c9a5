"""What to say where there is no more room."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Union

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def full_disk(
    output: Union[str, Path], advice: str = "run the same again: it goes on from here"
) -> Iterator[None]:
    """Say what to do where there is no more room. PyTorch raises an error of its own in
    place of the system's, which it must get from an open file to be known here.

    output (Union[str, Path]): What is written.
    advice (str): What to do afterwards.
    RAISES (OSError): The disk is full.
    """
    try:
        yield
    except (OSError, RuntimeError) as raised:
        error = raised.__context__ if isinstance(raised, RuntimeError) else raised
        if not isinstance(error, OSError):
            raise
        # Some libraries put it into their message alone.
        reasons = [n for n in FULL if n == error.errno or os.strerror(n) in str(error)]
        if not reasons and error is raised:
            raise
        if not reasons:
            raise error from None
        raise OSError(
            f"{output} cannot be written: {os.strerror(reasons[0])}. Make room and {advice}."
        ) from error
