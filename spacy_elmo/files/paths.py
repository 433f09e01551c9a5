"""Paths that users give, and the folder of caches."""

import os
from pathlib import Path
from typing import Union

CACHE_VARIABLE = "SPACY_ELMO_CACHE"


def user_path(path: Union[str, Path]) -> Path:
    """Expand `~`. A shell does that at the start of a word, but not in quotes, configs and Python.

    path (Union[str, Path]): The path, as a user gave it.
    RETURNS (Path): The path.
    """
    return Path(os.path.expanduser(path))


def cache_folder() -> Path:
    """Return the folder for downloaded models and copies of corpora.

    RETURNS (Path): SPACY_ELMO_CACHE, or `spacy-elmo` in the user's cache folder.
    """
    own = os.environ.get(CACHE_VARIABLE)
    if own:
        return Path(own).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "spacy-elmo"
