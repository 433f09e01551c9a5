"""Files and folders that are whole or as they were; checksums, locks, full disks, progress."""

from .atomic import (
    WHOLE,
    atomic_folder,
    atomic_stream,
    atomic_write,
    publish,
    put_on_disk,
    replace_folder,
)
from .checksum import checksum
from .errors import by_its_name
from .full_disk import full_disk
from .lock import lock
from .opened import OpenedFile
from .paths import user_path
from .progress import progress_bar
from .streams import check_regular, followed, is_stream
from .unfinished import check_ours, delete_ours, is_ours, make_ours, sweep, temporary_folder

__all__ = [
    "WHOLE",
    "OpenedFile",
    "atomic_folder",
    "atomic_stream",
    "atomic_write",
    "by_its_name",
    "check_ours",
    "check_regular",
    "checksum",
    "delete_ours",
    "followed",
    "full_disk",
    "is_ours",
    "is_stream",
    "lock",
    "make_ours",
    "progress_bar",
    "publish",
    "put_on_disk",
    "replace_folder",
    "sweep",
    "temporary_folder",
    "user_path",
]
