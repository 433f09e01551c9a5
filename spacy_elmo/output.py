"""Files that are whole, or as they were."""

import os
from pathlib import Path


def write_whole(path: Path, text: str) -> None:
    """Write a file so that it is whole, or as it was.

    path (Path): The file; its folder is made if need be.
    text (str): The content.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(path.name + ".part")
    try:
        unfinished.write_text(text, "utf8")
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)
