"""What a prepared corpus was made of, and what belongs to it."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Optional, Union

from typing_extensions import NotRequired

from ..files import atomic_write, checksum, progress_bar, user_path
from ..files.remote import RemoteFile, is_url
from ..files.schema import Integer, Natural, Positive, Schema, String, record, records, seal
from .reading import WRITTEN, ending
from .remote_tokens import BLOCK_SIZE
from .shards import read_array

MANIFEST = WRITTEN[0][0]
TOKENS = "tokens-*.npy"
FORMAT_VERSION = 1
ADVICE = "Copy the folder again, or delete it and prepare the corpus again."
COUNTS = ("tokens", "sentences", "documents", "types")
INPUT = {"path": String, "size": Natural, "modified": Integer, "sha256": String}
# Early versions wrote no blocks and digest, later ones no checksum.
SCHEMA = Schema(
    {
        "format_version": Integer,
        "settings": dict[str, Any],
        "inputs": records(INPUT),
        "counts": record(dict.fromkeys(COUNTS, Natural)),
        "skipped": record({"by_file": dict[str, Natural]}),
        "files": dict[str, record({"size": Natural, "sha256": String})],  # type: ignore[misc]
        "digest": NotRequired[String],
        "blocks": NotRequired[
            record({"first_byte": Natural, "size": Positive, "sha256": dict[str, list[String]]})
        ],
        "checksum": NotRequired[String],
    }
)


def read_manifest(folder: Union[str, Path]) -> Optional[dict[str, Any]]:
    """Read the manifest of a prepared corpus.

    folder (Union[str, Path]): The corpus, or its URL.
    RETURNS (Optional[dict]): The manifest, if the corpus is whole.
    RAISES (ValueError): It is no manifest, or that of a later version, or the URL cannot be read.
    """
    path: Union[Path, RemoteFile]
    if is_url(folder):
        path = RemoteFile.join(folder, MANIFEST)
        content = path.read() if path.exists() else None
    else:
        path = user_path(folder) / MANIFEST
        content = path.read_bytes() if path.is_file() else None
    if content is None:
        return None
    try:
        return SCHEMA.read_sealed(content, FORMAT_VERSION)
    except ValueError as error:
        raise ValueError(f"{path} is no manifest of a corpus: {error}. {ADVICE}") from error


def write_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    """Write the manifest; the corpus is whole from now on."""
    content = seal({"format_version": FORMAT_VERSION, **manifest})
    atomic_write(folder / MANIFEST, json.dumps(content, indent=2) + "\n")


def stamp(file: Path) -> dict[str, Any]:
    """RETURNS (dict): What tells a file from another, or from what it was before."""
    stat = file.stat()
    return {"path": str(file), "size": stat.st_size, "modified": stat.st_mtime_ns}


def describe_files(folder: Path, names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """RETURNS (Dict[str, dict]): Size and checksum of each file of the corpus."""
    return {
        name: {"size": (folder / name).stat().st_size, "sha256": checksum(folder / name)}
        for name in sorted(names)
    }


def describe_blocks(folder: Path) -> dict[str, Any]:
    """RETURNS (dict): What is fetched at a time where the corpus is elsewhere: where the tokens
    begin in their files, how many a block has, and the checksums of the blocks of each file."""
    checksums, first_byte = {}, 0
    for path in sorted(folder.glob(TOKENS)):
        tokens = read_array(path)
        first_byte = path.stat().st_size - tokens.nbytes  # the same of all
        firsts = range(0, len(tokens), BLOCK_SIZE)
        blocks = (tokens[first : first + BLOCK_SIZE].tobytes() for first in firsts)
        checksums[path.name] = [hashlib.sha256(block).hexdigest() for block in blocks]
    return {"first_byte": first_byte, "size": BLOCK_SIZE, "sha256": checksums}


def check_files(folder: Path, manifest: dict[str, Any], *, verify: bool) -> None:
    """Check that the files of a corpus are those of its manifest.

    folder (Path): The corpus.
    manifest (dict): Its manifest.
    verify (bool): Whether to read them all for their checksums.
    RAISES (ValueError): A file is missing, or another one.
    """
    files = manifest["files"]
    for name, expected in files.items():
        path = folder / name
        if not path.is_file():
            raise ValueError(f"{path} is missing. {ADVICE}")
        size = path.stat().st_size
        if size != expected["size"]:
            raise ValueError(f"{path} has {size:,} bytes, not {expected['size']:,}. {ADVICE}")
    if not verify:
        return
    total = sum(expected["size"] for expected in files.values())
    with progress_bar(total, "Verifying", "B", in_logs=False) as bar:
        for name, expected in files.items():
            if checksum(folder / name) != expected["sha256"]:
                raise ValueError(
                    f"{folder / name} has another checksum than in {MANIFEST}: it is damaged. "
                    f"{ADVICE}"
                )
            bar.update(expected["size"])


def differences(
    manifest: dict[str, Any], files: Sequence[Path], settings: dict[str, Any]
) -> list[str]:
    """Compare a corpus with one that is asked for.

    manifest (dict): Of the corpus.
    files (Sequence[Path]): The input files that are asked for.
    settings (dict): The settings.
    RETURNS (List[str]): How they differ; nothing where they do not.
    """
    found = [
        f"{name} is {manifest['settings'].get(name)!r}, not {value!r}"
        for name, value in settings.items()
        if manifest["settings"].get(name) != value
    ]
    inputs = manifest["inputs"]
    if len(inputs) != len(files):
        return [*found, f"it was made of {len(inputs)} files, not of {len(files)}"]
    for known, file in zip(inputs, files):
        if not _is_same(known, file):
            return [*found, f"it was made of '{known['path']}', and '{file}' is not the same"]
    return found


def _is_same(known: dict[str, Any], file: Path) -> bool:
    found = stamp(file)
    if found.items() <= known.items():
        return True
    return (
        ending(Path(known["path"])) == ending(file)
        and known["size"] == found["size"]
        and known["sha256"] == checksum(file)
    )
