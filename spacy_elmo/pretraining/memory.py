"""What the process does with memory that it no longer needs."""

import ctypes

# glibc's malloc.h
_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4
_MOST = 2**31 - 1


def keep_freed_memory() -> bool:
    """Have the process keep what it frees. glibc gives large pieces back to the
    system, and every training step takes the same ones again, page by page, which
    cost up to a tenth of its time. The process never holds more than at its peak.

    RETURNS (bool): Whether that could be done: elsewhere than with glibc it cannot.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    return bool(mallopt(_M_MMAP_MAX, 0)) and bool(mallopt(_M_TRIM_THRESHOLD, _MOST))
