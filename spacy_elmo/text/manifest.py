"""Manifest of a prepared corpus: its settings, inputs and files, with their checksums."""

import hashlib
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Optional, Union

from ..files import atomic_stream, atomic_write, checksum, full_disk, lock, progress_bar, user_path
from ..files.input_files import BLOCK
from ..files.paths import CACHE_VARIABLE, cache_folder
from ..files.remote import RemoteFile, is_url, reading
from ..files.schema import Integer, Natural, Schema, String, record, records, seal
from .reading import WRITTEN, ending

MANIFEST = WRITTEN[0][0]
TOKENS = "tokens-*.npy"
TOKENS_FILE = re.compile(r"tokens-\d{5,}\.npy")
_FILE_NAME = re.compile(r"\w[\w.-]*")
FORMAT_VERSION = 1
ADVICE = "Copy the folder again, or delete it and prepare the corpus again."
INPUT = {"path": String, "size": Natural, "modified": Integer, "sha256": String}
SCHEMA = Schema(
    {
        "format_version": Integer,
        "settings": dict[str, Any],
        "inputs": records(INPUT),
        "counts": record(dict.fromkeys(("tokens", "sentences", "types"), Natural)),
        "skipped": record({"by_file": dict[str, Natural]}),
        "files": dict[str, record({"size": Natural, "sha256": String})],  # type: ignore[misc]
        "checksum": String,
    }
)


def read_manifest(folder: Union[str, Path]) -> Optional[dict[str, Any]]:
    """Read the manifest of a prepared corpus.

    folder (Union[str, Path]): The corpus, or its URL.
    RETURNS (Optional[dict]): The manifest; None if the folder has no manifest.
    RAISES (ValueError): The file is not a manifest, has another version, or cannot be read.
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
        raise ValueError(f"{path} is not a manifest of a corpus: {error}. {ADVICE}") from error


def write_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    """Write the manifest. Call this last: a folder with a manifest is a complete corpus."""
    content = seal({"format_version": FORMAT_VERSION, **manifest})
    atomic_write(folder / MANIFEST, json.dumps(content, indent=2) + "\n")


def stamp(file: Path) -> dict[str, Any]:
    """Return path, size in bytes and modification time in ns of a file, to detect changes."""
    stat = file.stat()
    return {"path": str(file), "size": stat.st_size, "modified": stat.st_mtime_ns}


def fetch_files(url: str, manifest: dict[str, Any]) -> Path:
    """Copy missing files of a corpus at a URL into the cache folder.

    url (str): The corpus.
    manifest (dict): The manifest of the corpus.
    RETURNS (Path): The folder of the copies. Its name depends on the checksums of the files.
    RAISES (ValueError): A file cannot be read, or differs from the manifest.
    RAISES (OSError): The disk is full.
    """
    files = manifest["files"]
    for name in files:
        if not _FILE_NAME.fullmatch(name):
            raise ValueError(f"{url}/{MANIFEST} names {name!r}, which does not belong to a corpus")
    key = hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()
    folder = cache_folder() / "corpora" / key[:16]
    folder.mkdir(parents=True, exist_ok=True)
    advice = f"run again, or set {CACHE_VARIABLE} to another folder"
    # All processes of a machine share the copy. The first process fetches, the others wait.
    with full_disk(folder, advice), lock(folder / "lock", wait=True):
        found = {path.name: path.stat().st_size for path in folder.iterdir() if path.is_file()}
        missing = {name: about for name, about in files.items() if found.get(name) != about["size"]}
        if missing:
            total = sum(about["size"] for about in missing.values())
            with progress_bar(total, "Fetching", "B") as bar:
                for name, about in missing.items():
                    _fetch(RemoteFile.join(url, name), folder / name, about, bar.update)
    return folder


def _fetch(
    file: RemoteFile, copy: Path, about: dict[str, Any], progress: Callable[[int], object]
) -> None:
    """Copy a remote file. Stop early if it is longer than in the manifest.

    file (RemoteFile): The file.
    copy (Path): The path to write.
    about (dict): Entry of the file in the manifest: `size` in bytes and `sha256`.
    progress (Callable[[int], object]): Called with the number of bytes of each block.
    RAISES (ValueError): The file cannot be read, or differs from the manifest.
    """
    digest = hashlib.sha256()
    with atomic_stream(copy) as target, file.open() as source:
        while target.tell() <= about["size"]:
            with reading(file.url):
                block = source.read(BLOCK)
            if not block:
                break
            digest.update(block)
            target.write(block)
            progress(len(block))
        if digest.hexdigest() != about["sha256"]:
            raise ValueError(
                f"{file} does not have the checksum in {MANIFEST}: the file is damaged. Copy the "
                f"corpus to the URL again"
            )


def check_files(folder: Path, manifest: dict[str, Any], *, verify: bool) -> None:
    """Check the files of a corpus against its manifest.

    folder (Path): The corpus.
    manifest (dict): The manifest of the corpus.
    verify (bool): Whether to compare checksums in addition to sizes.
    RAISES (ValueError): A file is missing or differs.
    """
    total, disable = sum(about["size"] for about in manifest["files"].values()), not verify or None
    with progress_bar(total, "Verifying", "B", in_logs=False, disable=disable) as bar:
        for name, expected in manifest["files"].items():
            path = folder / name
            if not path.is_file():
                raise ValueError(f"{path} is missing. {ADVICE}")
            if (size := path.stat().st_size) != expected["size"]:
                raise ValueError(f"{path} has {size:,} bytes, not {expected['size']:,}. {ADVICE}")
            if verify and checksum(path) != expected["sha256"]:
                raise ValueError(
                    f"{path} does not have the checksum in {MANIFEST}: the file is damaged. "
                    f"{ADVICE}"
                )
            bar.update(size)


def setting_differences(known: dict[str, Any], settings: dict[str, Any]) -> list[str]:
    """List the settings of a resumed run that differ from those of the first run.

    known (dict): The settings of the first run.
    settings (dict): The settings of this run.
    RETURNS (List[str]): One description per difference.
    """
    return [
        f"{name} is {settings.get(name)!r}, but was {known.get(name)!r}"
        for name in {**known, **settings}
        if known.get(name) != settings.get(name)
    ]


def corpus_differences(
    manifest: dict[str, Any], files: Sequence[Path], settings: dict[str, Any]
) -> list[str]:
    """List the differences between a corpus and the arguments of a new call.

    manifest (dict): The manifest of the corpus.
    files (Sequence[Path]): The input files of the call.
    settings (dict): The settings of the call.
    RETURNS (List[str]): One description per difference; empty if the corpus fits the call.
    """
    found = setting_differences(manifest["settings"], settings)
    inputs = manifest["inputs"]
    if len(inputs) != len(files):
        return [*found, f"it was made from {len(inputs)} files, not from {len(files)}"]
    for known, file in zip(inputs, files):
        if not _is_same(known, file):
            return [*found, f"it was made from '{known['path']}', and '{file}' has other content"]
    return found


def _is_same(known: dict[str, Any], file: Path) -> bool:
    found = stamp(file)
    if found.items() <= known.items():
        return True
    is_alike = ending(Path(known["path"])) == ending(file) and known["size"] == found["size"]
    return is_alike and known["sha256"] == checksum(file)
