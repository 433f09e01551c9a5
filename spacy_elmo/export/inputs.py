"""Input files: functions that find them, and read all formats as a stream of entries."""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from glob import has_magic
from pathlib import Path, PurePosixPath
from typing import Optional, Union

from ..files.compression import kind_of
from ..files.paths import user_path
from ..files.remote import is_url, reading
from ..text.reading import READABLE, Inputs, find_files, unknown_format
from .conll import read_conll
from .doc_reader import DocReader
from .entries import Source, TextEntry
from .folders import partial_folder
from .parquet import read_parquet
from .pieces import InputPiece
from .settings import ExportSettings
from .text_input import chunks_of, read_conllu, read_records, read_text, read_tsv

TXT, TSV, JSONL = ".txt", ".tsv", ".jsonl"
CONLL, CONLLU = ".conll", ".conllu"
DOCBIN, PARQUET = ".spacy", ".parquet"
MAX_SAMPLED = 5  # Files that are checked for running text, or for words.
PUNCTUATION = set(".,;:!?\u3002\u3001\uff0c\uff01\uff1f")
ATTACHED = re.compile(r"\w\w[.,;:!?]+$|\w[\u3002\u3001\uff0c\uff01\uff1f]")
MIN_ATTACHED = 3
INPUTS = (*READABLE, CONLLU, CONLL, DOCBIN)


def find_inputs(
    inputs: Inputs,
    output: Union[str, Path],
    column: Optional[str] = None,
    input_format: Optional[str] = None,
) -> list[InputPiece]:
    """Find the files to read.

    inputs (Union[str, Path, Iterable[Union[str, Path]]]): Files, folders, globs, or URLs that
        `fsspec` can read. Parquet files need a path or glob that ends in `.parquet`.
    output (Union[str, Path]): The output. Files in it or in `OUTPUT.part` are not read.
    column (Optional[str]): Text column of `.tsv` files. `.tsv` files are read only if this is set.
    input_format (Optional[str]): Format of files whose suffix names none, such as "txt".
    RETURNS (List[InputPiece]): The files, without duplicates.
    RAISES (ValueError): An input is the output; a file is missing or has an unknown format; a
        `.tsv` file is given without `column`; or `column` is set, but no file has columns.
    """
    given = [inputs] if isinstance(inputs, (str, Path)) else list(inputs)
    kinds = {kind_of(Path(name).name, input_format) for name in given}
    if column is None and TSV in kinds:
        tables = [name for name in given if kind_of(Path(name).name, input_format) == TSV]
        raise ValueError(
            f"{tables[0]}: the text column is not known. Set `column` to its name or number."
        )
    readable = INPUTS if column is None else (*INPUTS, TSV)
    if PARQUET in kinds:
        readable = (*readable, PARQUET)
    files: dict[InputPiece, None] = {}
    for name in given:
        found = (
            _find_urls(str(name), readable, input_format)
            if is_url(name)
            else find_files(name, readable, input_format)
        )
        for file in found:
            files[InputPiece(str(file), input_format=input_format)] = None
    if column is not None and not any(file.kind in (TSV, CONLL) for file in files):
        raise ValueError(f"`column={column}`: no {TSV} or {CONLL} file is given. Omit `column`.")
    for name in given:
        if not is_url(output) and not is_url(name) and _is_same_file(name, output):
            raise ValueError(f"{name} is an input and the output. Choose another output.")
    if is_url(output):
        return [file for file in files if not str(file).startswith(f"{output}/")]
    ours = {Path(output).resolve(), partial_folder(Path(output)).resolve()}
    return [
        file
        for file in files
        if is_url(file) or not any(map(Path(file.source).resolve().is_relative_to, ours))
    ]


def _is_same_file(name: Union[str, Path], output: Union[str, Path]) -> bool:
    path = user_path(name)
    return path.is_file() and Path(output).exists() and path.samefile(output)


def _find_urls(given: str, readable: tuple[str, ...], input_format: Optional[str]) -> list[str]:
    """Return the files that a URL (file, folder or glob) names, like `find_files` for paths.

    `readable` contains the suffixes of files that can be read.
    """
    from fsspec.core import url_to_fs

    with reading(given):
        file_system, path = url_to_fs(given)
        if has_magic(path):
            paths = sorted(found for found in file_system.glob(path) if file_system.isfile(found))
        elif kind_of(path, input_format) in readable and file_system.isfile(path):
            paths = [path]  # Over HTTP, `isdir` would download the file to look for links.
        elif file_system.isdir(path):
            inner = file_system.find(path)
            paths = sorted(name for name in inner if kind_of(name, input_format) in readable)
        else:
            paths = [path] if file_system.exists(path) else []
        paths = [found for found in paths if not _is_hidden(found, path)]
        urls = [str(file_system.unstrip_protocol(found)) for found in paths]
    if not urls:
        raise ValueError(f"no {', '.join(readable)} file at '{given}'")
    for url in urls:
        if kind_of(url, input_format) not in readable:
            raise ValueError(unknown_format(url, readable))
    return urls


def _is_hidden(path: str, given: str) -> bool:
    """Return whether a file is hidden: a part of its path begins with a dot.

    Parts of `given`, the user's path, do not count.
    """
    named = PurePosixPath(given).parts
    return any(part[0] == "." and part not in named for part in PurePosixPath(path).parts)


def looks_like_running_text(files: Sequence[InputPiece]) -> Optional[InputPiece]:
    """Find a text file or table that seems to contain running text, not separated tokens.

    In running text, most punctuation is attached to words. Only the beginning of some local files
    is read.

    files (Sequence[InputPiece]): The files.
    RETURNS (Optional[InputPiece]): The first such file; None if there is none.
    """
    for file, data in _samples(files, TXT, TSV):
        tokens = data.decode("utf8", "ignore").split()
        n_attached = sum(len(ATTACHED.findall(token)) for token in tokens)
        n_separate = sum(token in PUNCTUATION for token in tokens)
        if n_attached >= MIN_ATTACHED and n_attached > n_separate:
            return file
    return None


def looks_like_words(files: Sequence[InputPiece]) -> Optional[InputPiece]:
    """Find a table that seems to have one word per line, with an empty line after each sentence.

    files (Sequence[InputPiece]): The files.
    RETURNS (Optional[InputPiece]): The first such file; None if there is none.
    """
    for file, data in _samples(files, TSV):
        if b"\t" in data and b"\n\n" in data.replace(b"\r", b"").strip():
            return file
    return None


def _samples(files: Sequence[InputPiece], *kinds: str) -> Iterator[tuple[InputPiece, bytes]]:
    """Yield some local files of these kinds, and the beginning of their content."""
    found = [file for file in files if file.kind in kinds and not is_url(file)]
    for file in found[:MAX_SAMPLED]:
        with suppress(ValueError):  # Reading the file reports the error.
            yield file, next(chunks_of(file, by_paragraph=False)).data


def read_entries(
    files: Sequence[InputPiece],
    reader: DocReader,
    settings: ExportSettings,
) -> Iterator[TextEntry]:
    """Read the entries of files.

    An entry is a sentence in `.txt`, `.conllu` and `.conll`, a line in `.jsonl` and `.tsv`, a row
    in Parquet, or a Doc in `.spacy`.

    files (Sequence[InputPiece]): Files from `find_inputs`, or parts of them.
    reader (DocReader): Converts text and Docs to entries.
    settings (ExportSettings): How to read the files.
    YIELDS (TextEntry): An entry.
    RAISES (ValueError): A file cannot be read, an entry is too long, or the number of entries in a
        part differs from the plan.
    """
    is_running, column = settings.format == "text", settings.column
    for file in files:
        if file.kind == DOCBIN:
            entries = reader.read_docbin(file)
        elif file.kind == PARQUET:
            entries = read_parquet(file, reader)
        elif file.kind == CONLLU:
            entries = read_conllu(file)
        elif file.kind == CONLL:
            entries = read_conll(file, column)
        elif file.kind == TSV and column is not None:
            entries = read_tsv(file, file.column or column, reader, is_running=is_running)
        elif file.kind == JSONL:
            entries = read_records(file, reader)
        else:
            entries = read_text(file, reader if is_running else None)
        unit = {PARQUET: "row", DOCBIN: "Doc"}.get(file.kind, "line")
        n_read = 0
        for line, entry in entries:
            n_read += 1
            if len(entry) > settings.max_tokens:
                raise ValueError(
                    f"{file}, {unit} {line}: a sentence or Doc has {len(entry):,} tokens (it "
                    f"starts with '{entry.text[:60]}'), and its vectors must fit into memory. "
                    f"Split it, or allow more: `max_tokens={len(entry)}`."
                )
            if reader.makes_docs and "" in entry.words:
                raise ValueError(
                    f"{file}, {unit} {line}: a token is empty, and a Doc cannot contain an empty "
                    f"token. Replace it, or write another format without `only`."
                )
            yield replace(reader.select(entry), source=Source(file.label, line))
        if file.entries not in (None, n_read):
            raise ValueError(
                f"{file}: the part from byte {file.start:,} on has {n_read:,} entries, but the "
                f"plan has {file.entries:,}. Begin again with `force=True`."
            )
