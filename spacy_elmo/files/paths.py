"""Paths that users give."""

import os
from pathlib import Path
from typing import Union


def user_path(path: Union[str, Path]) -> Path:
    """Expand `~`. A shell does that for a word of its own, but not in quotes, configs and Python.

    path (Union[str, Path]): The path, as a user gave it.
    RETURNS (Path): The path.
    """
    return Path(os.path.expanduser(path))
