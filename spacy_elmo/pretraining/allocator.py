"""Memory allocator of the C library."""

import ctypes

# Numbers of the options in glibc's malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4


def keep_freed_memory() -> bool:
    """Set glibc to keep freed memory in the process, so that training steps can use it again.

    By default, glibc returns large blocks to the system. Every training step then requests them
    again, page by page, which took up to 10 % of the time. Peak memory stays the same.

    RETURNS (bool): Whether it worked; False without glibc.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    return bool(mallopt(_M_MMAP_MAX, 0)) and bool(mallopt(_M_TRIM_THRESHOLD, 2**31 - 1))
