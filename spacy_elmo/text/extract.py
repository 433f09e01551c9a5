"""Running text of TEI files and of plain text with words cut at line ends."""

import os
import warnings
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Union

from ..files import atomic_folder, user_path
from ..files.compression import compression_of, suffix_of
from ..files.errors import named_errors
from ..files.input_files import decode, numbered_lines
from .line_ends import LineEnds
from .reading import Inputs, find_files
from .tei import LEFT_OUT, read_tei

TEI_SUFFIX = ".xml"
READABLE = (TEI_SUFFIX, ".txt")


def extract(
    inputs: Inputs, output: Union[str, Path], left_out: Iterable[str] = LEFT_OUT
) -> tuple[list[str], Counter[str]]:
    """Write the running text of files, one `.txt` file each.

    All files are one text for `LineEnds`, which joins words that are cut at line ends.

    inputs (Union[str, Path, Iterable[Union[str, Path]]]): TEI files (`.xml`) and text files
        (`.txt`): files, folders or globs.
    output (Union[str, Path]): The folder to write. It must not exist. Missing parents are
        created.
    left_out (Iterable[str]): Names of the TEI elements to skip.
    RETURNS (Tuple[List[str], Counter]): The names of the files that were written, and how often
        `LineEnds` used each form. For a file without text, there is a warning.
    RAISES (ValueError): The output exists, an input cannot be read, two files have the same name,
        or no file has text.
    """
    output = user_path(output)
    if os.path.lexists(output):
        raise ValueError(f"{output} exists. Move it away, or choose another output.")
    files = find_files(inputs, READABLE)
    names = _output_names(files)
    left_out, line_ends = frozenset(left_out), LineEnds()
    output.parent.mkdir(parents=True, exist_ok=True)
    with atomic_folder(output) as folder:
        folder.mkdir()
        for file, name in zip(files, names):
            text = _read(file, left_out)
            if text.strip():
                line_ends.count(text)
                (folder / name).write_bytes(text.encode("utf8"))
            else:
                warnings.warn(f"{file} has no text. Is it a TEI file?", stacklevel=2)
        written = sorted(path.name for path in folder.iterdir())
        if not written:
            raise ValueError(f"no file has text: {files[0]} and {len(files) - 1:,} others")
        for name in written:
            text = (folder / name).read_bytes().decode("utf8")
            (folder / name).write_bytes(line_ends.join(text).encode("utf8"))
    return written, line_ends.n_found


def _output_names(files: list[Path]) -> list[str]:
    """Return the name of the output for each file.

    RAISES (ValueError): Two files have the same name.
    """
    named: dict[str, Path] = {}
    for file in files:
        whole = file.stem if compression_of(file.name) else file.name
        name = f"{Path(whole).stem}.txt"
        if name in named:
            raise ValueError(
                f"{named[name]} and {file} would both become {name}. Rename one of them."
            )
        named[name] = file
    return [*named]


def _read(file: Path, left_out: frozenset[str]) -> str:
    if suffix_of(file.name) == TEI_SUFFIX:
        with named_errors(file), file.open("rb") as opened:
            return read_tei(opened, left_out)
    data = b"".join(line for _, line in numbered_lines(file))
    with named_errors(file):
        return decode(data).replace("\r\n", "\n")
