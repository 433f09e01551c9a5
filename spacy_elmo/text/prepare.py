"""Preparation of text of any size: a corpus on disk.

The text is cut into chunks, and each becomes a part with types of its own, in a file that appears
when it is complete. Then the parts are merged. So an interrupted preparation resumes with the parts
that exist, several processes or machines can make them, and only the token types are in memory. The
manifest is written last: a folder without one is not a corpus.
"""

import warnings
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Optional, Union

from ..files import (
    delete_ours,
    full_disk,
    is_ours,
    lock,
    make_ours,
    progress_bar,
    sweep,
    user_path,
)
from ..files.remote import is_url
from ..files.unfinished import is_temporary
from ..frozen.vocabulary import Vocabulary
from .chunks import ChunkReader
from .corpus import Corpus
from .manifest import (
    MANIFEST,
    TOKENS,
    check_files,
    describe_file,
    differences,
    fetch_files,
    read_manifest,
    stamp,
    write_manifest,
)
from .merge import ARRAYS, merge_parts, read_arrays
from .parts import MAX_NAMED, Reading, Summary, make_part
from .reading import NOT_UTF8, Inputs, check_text_format, find_files, is_jsonl
from .workers import map_in_order, n_processes, parse_worker

CHUNK_SIZE = 1 << 22  # bytes of text that a process works on at a time
SHARD_SIZE = 1 << 26  # tokens of a file
UNFINISHED = "unfinished"
VOCABULARY_FILE = "vocab.txt"


def prepare(
    inputs: Inputs,
    output: Union[str, Path],
    *,
    format: str = "sentences",
    lang: Optional[str] = None,
    min_count: int = 2,
    max_size: int = 30_000,
    n_process: int = -1,
    on_error: str = "skip",
    max_sentence: int = 10_000,
    ignore: Optional[Path] = None,
    worker: Optional[str] = None,
    chunk_size: int = CHUNK_SIZE,
    shard_size: int = SHARD_SIZE,
) -> Optional[Corpus]:
    """Write text of any size as a corpus that is read from disk.

    If an earlier call with the same arguments was interrupted, this one resumes it. If it was
    finished, the corpus is opened.

    inputs (Union[str, Path, Iterable[Union[str, Path]]]): Files, folders or globs.
    output (Union[str, Path]): The corpus: a new or empty folder, or one of an earlier call.
    format (str): Format of text files: 'sentences', one a line, its tokens separated by
        spaces, or 'text', for spaCy to split.
    lang (Optional[str]): Language of spaCy's tokenizer for running text.
    min_count (int): Least count of a word of the vocabulary.
    max_size (int): Most words of the vocabulary, with the special ones.
    n_process (int): Processes that read; -1 for one a core.
    on_error (str): What to do with unreadable text: 'skip' it, with a warning and a line in
        the manifest, or 'refuse' to go on.
    max_sentence (int): Most tokens of a sentence; longer ones count as unreadable.
    ignore (Optional[Path]): A folder whose files are not read, beside `output`.
    worker (Optional[str]): "K/N": this is the K-th of N calls, on one or several machines. Each
        call reads its share of the text. Afterwards, a call without `worker` reads missing
        shares and writes the corpus.
    chunk_size (int): Bytes of text that a process works on at a time.
    shard_size (int): Tokens of a file.
    RETURNS (Optional[Corpus]): The corpus, as `open_corpus` reads it; None after a share.
    RAISES (ValueError): A setting is invalid, an input cannot be read, there is no sentence, or
        the folder has other files.
    RAISES (OSError): The disk is full, or another process writes to the folder.
    """
    check_text_format(format, lang)
    settings = {
        "format": format,
        "lang": lang,
        "min_count": min_count,
        "max_size": max_size,
        "on_error": on_error,
        "max_sentence": max_sentence,
    }
    _check(settings)
    n_process, share = n_processes(n_process), parse_worker(worker)
    output = user_path(output)
    # An earlier run may have written its output into a folder of inputs.
    ignored = {folder.resolve() for folder in (output, ignore) if folder is not None}
    files = [file for file in find_files(inputs) if ignored.isdisjoint(file.resolve().parents)]
    if not _is_there(output, files, settings):
        with full_disk(output):
            _make_room(output)
            run = _Run(files, output, settings, chunk_size)
            if worker is not None:
                run.write_parts(n_process, share)
            else:
                with lock(output / UNFINISHED / "lock"):
                    # Another process may have finished the corpus in the meantime.
                    if not _is_there(output, files, settings):
                        run.write_parts(n_process)
                        run.merge(shard_size)
    if worker is not None and not _is_there(output, files, settings):
        return None
    delete_ours(output / UNFINISHED)
    sweep(output)
    return open_corpus(output)


def is_prepared(folder: Union[str, Path]) -> bool:
    """Check whether a folder or a URL is a complete prepared corpus.

    RAISES (ValueError): Its manifest or the URL cannot be read.
    """
    return read_manifest(folder) is not None


def is_foreign_corpus(folder: Path) -> bool:
    """Check whether a path is not a folder, or has files that `prepare` does not write."""
    if not folder.is_dir():
        return True
    known = {MANIFEST, VOCABULARY_FILE, *ARRAYS}
    return not all(
        path.name in known or path.match(TOKENS) or is_ours(path) for path in folder.iterdir()
    )


def open_corpus(folder: Union[str, Path], *, verify: bool = False) -> Corpus:
    """Open a corpus that `prepare` wrote. Its arrays are memory-mapped.

    A corpus at a URL is copied into the cache folder first.

    folder (Union[str, Path]): The corpus, or a URL that `fsspec` can read.
    verify (bool): Whether to compare the checksums of all its files, too.
    RETURNS (Corpus): The corpus.
    RAISES (ValueError): There is no corpus, or one of its files is missing or differs.
    """
    manifest = manifest_of(folder)
    folder = fetch_files(str(folder), manifest) if is_url(folder) else user_path(folder)
    check_files(folder, manifest, verify=verify)
    return read_arrays(folder)


def manifest_of(folder: Union[str, Path]) -> dict[str, Any]:
    """Read the manifest of a corpus that must be there.

    folder (Union[str, Path]): The corpus, or its URL.
    RETURNS (dict): Its manifest.
    RAISES (ValueError): There is none.
    """
    manifest = read_manifest(folder)
    if manifest is None:
        raise ValueError(
            f"{folder} has no {MANIFEST}: there is no prepared corpus, or its preparation was "
            f"interrupted. `python -m spacy elmo corpus INPUT FOLDER` makes it or resumes it. For "
            f"a URL, copy the folder there afterwards."
        )
    return manifest


def _check(settings: dict[str, Any]) -> None:
    for name, minimum in (("min_count", 1), ("max_size", 4), ("max_sentence", 1)):
        if settings[name] < minimum:
            raise ValueError(f"{name} must be {minimum} or more, got {settings[name]}")
    if settings["on_error"] not in ("skip", "refuse"):
        raise ValueError(f"on_error must be 'skip' or 'refuse', got '{settings['on_error']}'")


def _is_there(output: Path, files: Sequence[Path], settings: dict[str, Any]) -> bool:
    manifest = read_manifest(output)
    if manifest is None:
        return False
    is_split = settings["format"] == "text" or any(map(is_jsonl, files))
    if settings["lang"] is None or not is_split:  # Sentences are read alike in every language.
        settings = {**settings, "lang": manifest["settings"].get("lang")}
    found = differences(manifest, files, settings)
    if found:
        raise ValueError(
            f"{output} is another corpus: {'; '.join(found)}. Give the same, or another "
            f"folder, or delete this one."
        )
    return True


def _make_room(output: Path) -> None:
    if output.exists() and not output.is_dir():
        raise ValueError(f"{output} is a file, but a corpus needs a folder. Give another name.")
    output.mkdir(parents=True, exist_ok=True)
    found = {path.name for path in output.iterdir() if not is_temporary(path.name)}
    if found and UNFINISHED not in found:
        raise ValueError(f"{output} contains other files. Give a new or an empty folder.")
    make_ours(output / UNFINISHED)


class _Run:
    """Preparation of one corpus.

    files (Sequence[Path]): The input.
    output (Path): The corpus.
    settings (dict): The settings, as in the manifest.
    chunk_size (int): Bytes of text that a process works on at a time.
    """

    def __init__(
        self, files: Sequence[Path], output: Path, settings: dict[str, Any], chunk_size: int
    ):
        self.files = files
        self.stamps = [stamp(file) for file in files]  # taken before the files are read
        self.output = output
        self.settings = settings
        self.unfinished = output / UNFINISHED
        shared = {name: settings[name] for name in ("lang", "max_sentence")}
        is_text = settings["format"] == "text"
        self.readings = [
            Reading(jsonl=is_jsonl(file), running_text=is_text, **shared) for file in files
        ]
        by_paragraph = [how.running_text and not how.jsonl for how in self.readings]
        self.reader = ChunkReader(files, chunk_size, by_paragraph)
        self.skipped = _Skipped(files, refuse=settings["on_error"] == "refuse")
        self.parts: list[tuple[int, Summary]] = []

    def write_parts(self, n_process: int, share: tuple[int, int] = (0, 1)) -> None:
        """Read the text into parts. Existing parts are kept.

        n_process (int): Processes that read.
        share (Tuple[int, int]): The first chunk to read, from 0, and the step to the next.
        """
        n_bytes = sum(about["size"] for about in self.stamps)
        n_process = min(n_process, 1 + n_bytes // self.reader.chunk_size // share[1])
        folder = str(self.unfinished)
        chunks = islice(self.reader, share[0], None, share[1])
        tasks = ((part, (part.data, self.readings[part.file], folder)) for part in chunks)
        results = map_in_order(make_part, tasks, n_process)
        with closing(results), progress_bar(n_bytes // share[1], "Reading", "B") as bar:
            for chunk, summary in results:
                for line, reason in summary.skipped:
                    self.skipped.add(chunk.file, chunk.first_line + line, reason)
                self.skipped.counts[chunk.file] += summary.n_skipped - len(summary.skipped)
                if chunk.problem is not None:
                    self.skipped.add(chunk.file, *chunk.problem)
                self.parts.append((chunk.file, summary))
                bar.update(chunk.n_read)
        self.skipped.close()

    def merge(self, shard_size: int) -> None:
        """Write the corpus, and then its manifest."""
        n_sentences = sum(summary.n_sentences for _, summary in self.parts)
        if not n_sentences:
            left_out = sum(self.skipped.counts.values())
            why = f"; {left_out:,} left out, for the reasons above" if left_out else ""
            raise ValueError(
                f"{', '.join(map(str, self.files[:5]))}: no sentence{why}. Give files with text."
            )
        merge_parts(self.unfinished, self.parts, self.output, shard_size=shard_size)
        corpus = read_arrays(self.output)
        sizes = {name: self.settings[name] for name in ("min_count", "max_size")}
        vocabulary = Vocabulary.from_counts(corpus.types, corpus.counts(), **sizes)
        vocabulary.to_disk(self.output / VOCABULARY_FILE)
        names = [VOCABULARY_FILE, *(path.name for path in self.output.glob("*.npy"))]
        checksums = self.reader.checksums
        manifest = {
            "settings": self.settings,
            "inputs": [{**about, "sha256": found} for about, found in zip(self.stamps, checksums)],
            "counts": {
                "tokens": corpus.n_words,
                "sentences": n_sentences,
                "documents": len(corpus.documents),
                "types": len(corpus.types),
            },
            "skipped": self.skipped.describe(),
            "files": {name: describe_file(self.output / name) for name in sorted(names)},
        }
        write_manifest(self.output, manifest)


@dataclass
class _Skipped:
    """Lines and files that were skipped.

    files (Sequence[Path]): The input.
    refuse (bool): Whether to raise at the first.
    """

    files: Sequence[Path]
    refuse: bool
    named: list[dict[str, Any]] = field(default_factory=list)
    counts: Counter[int] = field(default_factory=Counter)
    n_warned: Counter[int] = field(default_factory=Counter)
    not_utf8: set[int] = field(default_factory=set)  # files with such a line; one warning each

    def add(self, file: int, line: Optional[int], reason: str) -> None:
        """Note a skipped line or file.

        RAISES (ValueError): `on_error` is "refuse".
        """
        path = self.files[file]
        location = f"{path}, line {line}" if line is not None else str(path)
        if self.refuse:
            raise ValueError(f"{location}: {reason}. Repair it, or skip it with on_error 'skip'.")
        self.counts[file] += 1
        if self.counts[file] <= MAX_NAMED:
            self.named.append({"path": str(path), "line": line, "reason": reason})
            if file not in self.not_utf8 or reason != NOT_UTF8:
                self.n_warned[file] += 1
                warnings.warn(f"{location}: {reason}; left out", stacklevel=2)
            if reason == NOT_UTF8:
                self.not_utf8.add(file)

    def close(self) -> None:
        """Warn about the number of lines that were not named."""
        for file, n in self.counts.items():
            if more := n - self.n_warned[file]:
                warnings.warn(f"{self.files[file]}: {more:,} more left out", stacklevel=2)

    def describe(self) -> dict[str, Any]:
        """Return the entry for the manifest."""
        by_file = {str(self.files[file]): n for file, n in self.counts.items() if n}
        return {"by_file": by_file, "first": self.named}
