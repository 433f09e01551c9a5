"""Preparation of text of any size as a corpus on disk.

The text is cut into chunks. Each chunk becomes a part: a file with token ids that refer to its own
types. At the end, the parts are merged. This has three advantages: an interrupted preparation
resumes with the existing parts, several processes or machines can write parts, and only the token
types must fit into memory.

Invariants: a part file appears when it is complete, and the manifest is written last. So a folder
without a manifest is not a corpus.
"""

import warnings
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Optional, Union

from ..files import delete_ours, full_disk, is_ours, lock, make_ours, progress_bar, sweep, user_path
from ..files.compression import kind_of
from ..files.input_files import NOT_UTF8, describe_file
from ..files.paths import OF_FILE_MANAGERS, content_names
from ..files.remote import is_url
from ..files.unfinished import is_temporary
from ..model.vocabulary import Vocabulary
from .chunks import ChunkReader
from .corpus import Corpus
from .manifest import (
    MANIFEST,
    TOKENS_FILE,
    check_files,
    corpus_differences,
    fetch_files,
    read_manifest,
    stamp,
    write_manifest,
)
from .parts import ARRAYS, MAX_NAMED, Reading, Summary, make_part, merge_parts, read_arrays
from .reading import READABLE, Inputs, find_files
from .settings import PrepareSettings
from .workers import map_in_order, n_processes, parse_worker

UNFINISHED = "unfinished"
VOCABULARY_FILE = "vocab.txt"
JSONL = ".jsonl"


def prepare(
    inputs: Inputs,
    output: Union[str, Path],
    settings: PrepareSettings = PrepareSettings(),
) -> Optional[Corpus]:
    """Convert text of any size to a corpus on disk.

    If an earlier call with the same arguments was interrupted, this call resumes it. If the corpus
    is complete, it is opened.

    inputs (Union[str, Path, Iterable[Union[str, Path]]]): Files, folders or globs.
    output (Union[str, Path]): Folder of the corpus. It must be new, empty, or from an earlier
        call.
    settings (PrepareSettings): How to read the text and write the corpus.
    RETURNS (Optional[Corpus]): The corpus, as `open_corpus` opens it; None if `worker` is set and
        the corpus is not complete.
    RAISES (ValueError): An input cannot be read, the text has no sentence, or the folder contains
        other files.
    RAISES (OSError): The disk is full, or another process writes to the folder.
    """
    output = user_path(output)
    # Do not read the output of an earlier run, if it is in a folder of inputs.
    ignored = {folder.resolve() for folder in (output, settings.ignore) if folder is not None}
    files = [
        file
        for file in find_files(inputs, READABLE, settings.input_format)
        if ignored.isdisjoint(file.resolve().parents)
    ]
    if not _is_there(output, files, settings):
        with full_disk(output):
            _make_room(output)
            run = _Run(files, output, settings)
            if settings.worker is not None:
                run.write_parts()
            else:
                with lock(output / UNFINISHED / "lock"):
                    # Another process may have finished the corpus in the meantime.
                    if not _is_there(output, files, settings):
                        run.write_parts()
                        run.merge()
    if settings.worker is not None and not _is_there(output, files, settings):
        return None
    delete_ours(output / UNFINISHED)
    sweep(output)
    return open_corpus(output)


def is_prepared(folder: Union[str, Path]) -> bool:
    """Return whether a folder or a URL is a complete prepared corpus.

    RAISES (ValueError): The manifest or the URL cannot be read.
    """
    return read_manifest(folder) is not None


def is_foreign_corpus(folder: Path) -> bool:
    """Return whether a path is not a folder, or contains files that `prepare` does not write."""
    if not folder.is_dir():
        return True
    ours = {f"{path.name}/" for path in folder.iterdir() if is_ours(path)}
    names = (name for name in content_names(folder) if not name.startswith(tuple(ours)))
    known = {MANIFEST, VOCABULARY_FILE, *ARRAYS}
    return not all(name in known or TOKENS_FILE.fullmatch(name) for name in names)


def open_corpus(folder: Union[str, Path], *, verify: bool = False) -> Corpus:
    """Open a corpus that `prepare` wrote. The arrays are memory-mapped.

    A corpus at a URL is copied into the cache folder first.

    folder (Union[str, Path]): The corpus, or a URL that `fsspec` can read.
    verify (bool): Whether to compare the checksums of all files in addition to their sizes.
    RETURNS (Corpus): The corpus.
    RAISES (ValueError): The folder is not a corpus, or a file is missing or differs.
    """
    manifest = manifest_of(folder)
    folder = fetch_files(str(folder), manifest) if is_url(folder) else user_path(folder)
    check_files(folder, manifest, verify=verify)
    return read_arrays(folder)


def manifest_of(folder: Union[str, Path]) -> dict[str, Any]:
    """Read the manifest of a corpus. Raise an error if it is missing.

    folder (Union[str, Path]): The corpus, or its URL.
    RETURNS (dict): The manifest.
    RAISES (ValueError): The folder has no manifest.
    """
    manifest = read_manifest(folder)
    if manifest is None:
        raise ValueError(
            f"{folder} has no {MANIFEST}: it is not a prepared corpus, or its preparation was "
            f"interrupted. Make or resume it with `python -m spacy elmo corpus INPUT FOLDER`. For "
            f"a URL, then copy FOLDER to the URL."
        )
    return manifest


def _is_there(output: Path, files: Sequence[Path], settings: PrepareSettings) -> bool:
    manifest = read_manifest(output)
    if manifest is None:
        return False
    kinds = {kind_of(file.name, settings.input_format) for file in files}
    is_split = settings.format == "text" or JSONL in kinds
    wanted = settings.describe()
    # The language only matters for running text, which spaCy splits.
    if settings.lang is None or not is_split:
        wanted["lang"] = manifest["settings"].get("lang")
    found = corpus_differences(manifest, files, wanted)
    if found:
        raise ValueError(
            f"{output} is another corpus: {'; '.join(found)}. Use the same input and "
            f"settings, choose another folder, or delete this one."
        )
    return True


def _make_room(output: Path) -> None:
    if output.exists() and not output.is_dir():
        raise ValueError(f"{output} is a file, but a corpus needs a folder. Choose another name.")
    output.mkdir(parents=True, exist_ok=True)
    found = {path.name for path in output.iterdir() if not is_temporary(path.name)}
    found -= {*OF_FILE_MANAGERS}
    if found and UNFINISHED not in found:
        raise ValueError(
            f"{output} contains other files, such as {min(found)}. Choose a new or empty folder."
        )
    make_ours(output / UNFINISHED)


class _Run:
    """Preparation of one corpus.

    files (Sequence[Path]): The input files.
    output (Path): Folder of the corpus.
    settings (PrepareSettings): The settings.
    """

    def __init__(self, files: Sequence[Path], output: Path, settings: PrepareSettings):
        self.files = files
        self.stamps = [stamp(file) for file in files]  # Take the stamps before the files are read.
        self.output = output
        self.settings = settings
        self.unfinished = output / UNFINISHED
        self.readings = [
            Reading(
                kind_of(file.name, settings.input_format) == JSONL,
                running_text=settings.format == "text",
                lang=settings.lang,
                max_sentence=settings.max_sentence,
            )
            for file in files
        ]
        by_paragraph = [known.running_text and not known.jsonl for known in self.readings]
        self.reader = ChunkReader(files, settings.chunk_size, by_paragraph)
        self.skipped = _Skipped(files, refuse=settings.on_error == "refuse")
        self.parts: list[Summary] = []

    def write_parts(self) -> None:
        """Convert the text, or the share of this worker, to parts. Existing parts are kept."""
        first, step = parse_worker(self.settings.worker)
        n_bytes = sum(about["size"] for about in self.stamps)
        n_process = n_processes(self.settings.n_process)
        n_process = min(n_process, 1 + n_bytes // self.reader.chunk_size // step)
        folder = str(self.unfinished)
        chunks = islice(self.reader, first, None, step)
        tasks = ((chunk, (chunk.data, self.readings[chunk.file], folder)) for chunk in chunks)
        results = map_in_order(make_part, tasks, n_process)
        with closing(results), progress_bar(n_bytes // step, "Reading", "B") as bar:
            for chunk, summary in results:
                for line, reason in summary.skipped:
                    self.skipped.add(chunk.file, chunk.first_line + line, reason)
                self.skipped.counts[chunk.file] += summary.n_skipped - len(summary.skipped)
                if chunk.problem is not None:
                    self.skipped.add(chunk.file, *chunk.problem)
                self.parts.append(summary)
                bar.update(chunk.n_read)
        self.skipped.close()

    def merge(self) -> None:
        """Merge the parts into the corpus, and then write its manifest."""
        n_sentences = sum(part.n_sentences for part in self.parts)
        if not n_sentences:
            left_out = sum(self.skipped.counts.values())
            why = f"; {left_out:,} left out, for the reasons above" if left_out else ""
            raise ValueError(
                f"{', '.join(map(str, self.files[:5]))}: no sentence{why}. Give files with text."
            )
        merge_parts(self.unfinished, self.parts, self.output)
        corpus = read_arrays(self.output)
        vocabulary = Vocabulary.from_counts(
            corpus.types,
            corpus.counts(),
            min_count=self.settings.min_count,
            max_size=self.settings.max_size,
        )
        vocabulary.to_disk(self.output / VOCABULARY_FILE)
        names = [VOCABULARY_FILE, *(path.name for path in self.output.glob("*.npy"))]
        checksums = self.reader.checksums
        manifest = {
            "settings": self.settings.describe(),
            "inputs": [{**about, "sha256": found} for about, found in zip(self.stamps, checksums)],
            "counts": {
                "tokens": corpus.n_words,
                "sentences": n_sentences,
                "types": len(corpus.types),
            },
            "skipped": self.skipped.describe(),
            "files": {name: describe_file(self.output / name) for name in sorted(names)},
        }
        write_manifest(self.output, manifest)


@dataclass
class _Skipped:
    """Record of the lines and files that were skipped.

    files (Sequence[Path]): The input files.
    refuse (bool): Whether to raise an error for the first skipped line or file.
    """

    files: Sequence[Path]
    refuse: bool
    named: list[dict[str, Any]] = field(default_factory=list)
    counts: Counter[int] = field(default_factory=Counter)
    n_warned: Counter[int] = field(default_factory=Counter)
    # Files with a line that is not UTF-8. Only the first line gives a warning.
    not_utf8: set[int] = field(default_factory=set)

    def add(self, file: int, line: Optional[int], reason: str) -> None:
        """Record a skipped line or file. Warn only about the first ones of each file.

        file (int): Index of the file.
        line (Optional[int]): Number of the line, from 1; None for the whole file.
        reason (str): What is wrong with it.
        RAISES (ValueError): `refuse` is True.
        """
        path = self.files[file]
        location = f"{path}, line {line}" if line is not None else str(path)
        if self.refuse:
            raise ValueError(f"{location}: {reason}. Repair it, or use on_error 'skip'.")
        self.counts[file] += 1
        if self.counts[file] <= MAX_NAMED:
            self.named.append({"path": str(path), "line": line, "reason": reason})
            if file not in self.not_utf8 or reason != NOT_UTF8:
                self.n_warned[file] += 1
                warnings.warn(f"{location}: {reason}; left out", stacklevel=2)
            if reason == NOT_UTF8:
                self.not_utf8.add(file)

    def close(self) -> None:
        """Warn once per file about the number of lines that `add` did not warn about."""
        for file, n in self.counts.items():
            if more := n - self.n_warned[file]:
                warnings.warn(f"{self.files[file]}: {more:,} more left out", stacklevel=2)

    def describe(self) -> dict[str, Any]:
        """Return the entry `skipped` of the manifest."""
        by_file = {str(self.files[file]): n for file, n in self.counts.items() if n}
        return {"by_file": by_file, "first": self.named}
