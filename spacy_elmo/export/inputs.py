"""Input files: functions that find them, and read all formats as a stream of entries."""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from glob import has_magic
from pathlib import Path, PurePosixPath
from typing import Optional, Union

from ..files.compression import suffix_of
from ..files.paths import user_path
from ..files.remote import is_url, reading
from ..text.reading import READABLE, Inputs, find_files
from .conll import read_conll
from .doc_reader import DocReader
from .entries import TextEntry
from .parquet import read_parquet
from .places import InputPiece, partial_folder
from .text_input import chunks_of, read_conllu, read_records, read_text, read_tsv

TXT, TSV, JSONL = ".txt", ".tsv", ".jsonl"
CONLL, CONLLU = ".conll", ".conllu"
DOCBIN, PARQUET = ".spacy", ".parquet"
MAX_SAMPLED = 5  # Files that are checked for running text.
PUNCTUATION = set(".,;:!?\u3002\u3001\uff0c\uff01\uff1f")
ATTACHED = re.compile(r"\w\w[.,;:!?]+$|\w[\u3002\u3001\uff0c\uff01\uff1f]")
MIN_ATTACHED = 3
INPUTS = (*READABLE, CONLLU, CONLL, DOCBIN)


def find_inputs(
    inputs: Inputs, output: Union[str, Path], column: Optional[str] = None
) -> list[InputPiece]:
    """Find the files to read.

    inputs (Union[str, Path, Iterable[Union[str, Path]]]): Files, folders, globs, or URLs that
        `fsspec` can read. Parquet files need a path or glob that ends in `.parquet`.
    output (Union[str, Path]): The output. Files in it or in `OUTPUT.part` are not read.
    column (Optional[str]): Text column of `.tsv` files. `.tsv` files are read only if this is set.
    RETURNS (List[InputPiece]): The files, without duplicates.
    RAISES (ValueError): An input is the output; a file is missing or has an unknown format; a
        `.tsv` file is given without `column`; or `column` is set, but no file has columns.
    """
    given = [inputs] if isinstance(inputs, (str, Path)) else list(inputs)
    if column is None and (tables := [name for name in given if suffix_of(str(name)) == TSV]):
        raise ValueError(
            f"{tables[0]}: the text column is not known. Set `column` to its name or number."
        )
    readable = INPUTS if column is None else (*INPUTS, TSV)
    if any(suffix_of(str(name)) == PARQUET for name in given):
        readable = (*readable, PARQUET)
    files: dict[InputPiece, None] = {}
    for name in given:
        found = _find_urls(str(name), readable) if is_url(name) else find_files(name, readable)
        files.update(dict.fromkeys(InputPiece(str(file)) for file in found))
    if column is not None and not any(suffix_of(file.name) in (TSV, CONLL) for file in files):
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


def _find_urls(given: str, readable: tuple[str, ...]) -> list[str]:
    """Return the files that a URL (file, folder or glob) names, like `find_files` for paths.

    `readable` contains the suffixes of files that can be read.
    """
    from fsspec.core import url_to_fs

    with reading(given):
        file_system, path = url_to_fs(given)
        if has_magic(path):
            paths = sorted(found for found in file_system.glob(path) if file_system.isfile(found))
        elif suffix_of(path) in readable and file_system.isfile(path):
            paths = [path]  # Over HTTP, `isdir` would download the file to look for links.
        elif file_system.isdir(path):
            paths = sorted(name for name in file_system.find(path) if suffix_of(name) in readable)
        else:
            paths = [path] if file_system.exists(path) else []
        paths = [found for found in paths if not _is_hidden(found, path)]
        urls = [str(file_system.unstrip_protocol(found)) for found in paths]
    if not urls:
        raise ValueError(f"no {', '.join(readable)} file at '{given}'")
    for url in urls:
        if suffix_of(url) not in readable:
            raise ValueError(f"{url}: unknown format. Use {', '.join(readable)}")
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
    texts = [file for file in files if suffix_of(file.name) in (TXT, TSV) and not is_url(file)]
    for file in texts[:MAX_SAMPLED]:
        with suppress(ValueError):  # Reading the file reports the error.
            chunk = next(chunks_of(file, by_paragraph=False))
            tokens = chunk.data.decode("utf8", "ignore").split()
            n_attached = sum(len(ATTACHED.findall(token)) for token in tokens)
            n_separate = sum(token in PUNCTUATION for token in tokens)
            if n_attached >= MIN_ATTACHED and n_attached > n_separate:
                return file
    return None


def read_entries(
    files: Sequence[InputPiece],
    reader: DocReader,
    *,
    tokenize: bool,
    column: Optional[str],
    max_tokens: int,
) -> Iterator[TextEntry]:
    """Read the entries of files.

    An entry is a sentence in `.txt`, `.conllu` and `.conll`, a line in `.jsonl` and `.tsv`, a row
    in Parquet, or a Doc in `.spacy`.

    files (Sequence[InputPiece]): Files from `find_inputs`, or parts of them.
    reader (DocReader): Converts text and Docs to entries.
    tokenize (bool): Whether text files contain running text. Otherwise each line is a sentence
        whose tokens are separated by spaces.
    column (Optional[str]): Column of `.tsv` and `.conll` files: the name, or the number from 1.
    max_tokens (int): Maximum number of tokens in an entry.
    YIELDS (TextEntry): An entry.
    RAISES (ValueError): A file cannot be read, an entry is too long, or the number of entries in a
        part differs from the plan.
    """
    for file in files:
        n_read, suffix = 0, suffix_of(file.name)
        if suffix == DOCBIN:
            entries = reader.read_docbin(file)
        elif suffix == PARQUET:
            entries = read_parquet(file, reader)
        elif suffix == CONLLU:
            entries = read_conllu(file)
        elif suffix == CONLL:
            entries = read_conll(file, column)
        elif suffix == TSV and column is not None:
            entries = read_tsv(file, file.column or column, reader, tokenize=tokenize)
        elif suffix == JSONL:
            entries = read_records(file, reader)
        else:
            entries = read_text(file, reader if tokenize else None)
        for n_read, entry in enumerate(entries, 1):
            if len(entry) > max_tokens:
                raise ValueError(
                    f"{file}: a sentence or Doc has {len(entry):,} tokens (number {n_read - 1}, "
                    f"from 0; it starts with '{entry.text[:60]}'), and its vectors must fit into "
                    f"memory. Split it, or allow more: `max_tokens={len(entry)}`."
                )
            yield reader.select(entry)
        if file.entries not in (None, n_read):
            raise ValueError(
                f"{file}: the part from byte {file.start:,} on has {n_read:,} entries, but the "
                f"plan has {file.entries:,}. Begin again with `force=True`."
            )
