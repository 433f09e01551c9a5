# ruff: noqa: F401
"""Helpers for files: atomic writes, checksums, locks, full disks, progress bars."""

from .atomic import (
    WHOLE,
    atomic_folder,
    atomic_stream,
    atomic_write,
    lock,
    publish,
    put_on_disk,
    replace_folder,
)
from .errors import by_its_name, full_disk
from .input_files import checksum
from .opened import OpenedFile
from .paths import PathSetting, check_regular, followed, is_stream, user_path
from .terminal import progress_bar
from .unfinished import check_ours, delete_ours, is_ours, make_ours, sweep, temporary_folder
