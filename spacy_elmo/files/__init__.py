"""Files and folders that are whole or as they were; checksums, locks, full disks, progress."""

from .atomic import (
    atomic_folder,
    atomic_stream,
    atomic_write,
    by_its_name,
    process_name,
    put_on_disk,
)
from .checksum import checksum
from .full_disk import full_disk
from .lock import lock
from .opened import OpenedFile
from .paths import user_path
from .progress import progress_bar

__all__ = [
    "OpenedFile",
    "atomic_folder",
    "atomic_stream",
    "atomic_write",
    "by_its_name",
    "checksum",
    "full_disk",
    "lock",
    "process_name",
    "progress_bar",
    "put_on_disk",
    "user_path",
]
