"""The input, whatever its format, as a stream of entries."""

from collections.abc import Callable, Iterator, Sequence
from glob import has_magic
from pathlib import Path, PurePosixPath
from typing import Optional, Union

from ..files.remote import is_url, reading
from ..text.reading import READABLE, Inputs, find_files
from .doc_reader import DocReader
from .entries import TextEntry
from .parquet import read_parquet
from .places import InputPiece, partial_folder
from .text_input import read_conll, read_conllu, read_records, read_text, read_tsv

CONLLU, DOCBIN = (".conllu", ".conllu.gz"), ".spacy"
PARQUET = ".parquet"
JSONL = (".jsonl", ".jsonl.gz")
CONLL, TSV = (".conll", ".conll.gz"), (".tsv", ".tsv.gz")
INPUTS = (*READABLE, *CONLLU, *CONLL, DOCBIN)


def find_inputs(
    inputs: Inputs, output: Union[str, Path], column: Optional[str] = None
) -> list[InputPiece]:
    """Find the files to read.

    inputs (Union[str, Path, Iterable[Union[str, Path]]]): Files, folders or globs, and URLs of
        them as `fsspec` reads them.
    output (Union[str, Path]): What is in it, or in `OUTPUT.part`, is no input.
    column (Optional[str]): What is to be read of `.tsv` files, which are no input without.
    RETURNS (List[InputPiece]): The files, each once; those of URLs as pieces. Parquet
        is found where a name or glob ends so.
    RAISES (ValueError): One is missing, or of an unknown format, or there is none with columns.
    """
    given = [inputs] if isinstance(inputs, (str, Path)) else list(inputs)
    if column is None and (tables := [name for name in given if str(name).endswith(TSV)]):
        raise ValueError(
            f"{tables[0]}: which column holds the text? Set `column` to its name or number"
        )
    readable = INPUTS if column is None else (*INPUTS, *TSV)
    if any(str(name).endswith(PARQUET) for name in given):
        readable = (*readable, PARQUET)
    files: dict[InputPiece, None] = {}
    for name in given:
        found = _find_urls(str(name), readable) if is_url(name) else find_files(name, readable)
        files.update(dict.fromkeys(InputPiece(str(file)) for file in found))
    if column is not None and not any(file.name.endswith((*TSV, *CONLL)) for file in files):
        raise ValueError(f"`column={column}`: no {', '.join((*TSV, *CONLL))} file is given")
    if is_url(output):
        return [file for file in files if not str(file).startswith(f"{output}/")]
    ours = {Path(output).resolve(), partial_folder(Path(output)).resolve()}
    return [
        file
        for file in files
        if is_url(file) or not any(map(Path(file.source).resolve().is_relative_to, ours))
    ]


def _find_urls(given: str, readable: tuple[str, ...]) -> list[str]:
    """As `find_files`, of a URL."""
    from fsspec.core import url_to_fs

    with reading(given):
        file_system, path = url_to_fs(given)
        if has_magic(path):
            paths = sorted(found for found in file_system.glob(path) if file_system.isfile(found))
        elif path.endswith(readable) and file_system.isfile(path):
            paths = [path]  # At an HTTP server, `isdir` would read all of the file for links.
        elif file_system.isdir(path):
            paths = sorted(name for name in file_system.find(path) if name.endswith(readable))
        else:
            paths = [path] if file_system.exists(path) else []
        paths = [found for found in paths if not _is_hidden(found, path)]
        urls = [str(file_system.unstrip_protocol(found)) for found in paths]
    if not urls:
        raise ValueError(f"no {', '.join(readable)} file at '{given}'")
    for url in urls:
        if not url.endswith(readable):
            raise ValueError(f"{url}: unknown format; readable are {', '.join(readable)}")
    return urls


def _is_hidden(path: str, given: str) -> bool:
    """Whether a part of the path begins with a dot that is not in the given one."""
    named = PurePosixPath(given).parts
    return any(part[0] == "." and part not in named for part in PurePosixPath(path).parts)


def read_entries(
    files: Sequence[InputPiece],
    reader: DocReader,
    *,
    tokenize: bool,
    column: Optional[str],
    max_tokens: int,
    progress: Callable[[int], object],
) -> Iterator[TextEntry]:
    """Read the entries of files: of `.txt`, `.conllu` and `.conll` a sentence, of `.jsonl` and
    `.tsv` a line, of `.spacy` a Doc.

    files (Sequence[InputPiece]): What `find_inputs` found, or parts of it.
    reader (DocReader): Makes Docs of text.
    tokenize (bool): Whether text files hold running text, rather than a sentence a
        line, its tokens separated by spaces.
    column (Optional[str]): Column of `.tsv` and `.conll` files: its name, or number from 1.
    max_tokens (int): Most tokens of an entry.
    progress (Callable[[int], object]): Told how many bytes more were read.
    YIELDS (TextEntry): An entry.
    RAISES (ValueError): A file cannot be read, an entry is too long, or a part holds more or
        fewer entries than were planned.
    """
    for file in files:
        n_read = 0
        if file.name.endswith(DOCBIN):
            entries = reader.read_docbin(file, progress)
        elif file.name.endswith(PARQUET):
            entries = read_parquet(file, reader, progress)
        elif file.name.endswith(CONLLU):
            entries = read_conllu(file, progress)
        elif file.name.endswith(CONLL):
            entries = read_conll(file, column, progress)
        elif file.name.endswith(TSV) and column is not None:
            entries = read_tsv(file, file.column or column, reader, progress, tokenize=tokenize)
        elif file.name.endswith(JSONL):
            entries = read_records(file, reader, progress)
        else:
            entries = read_text(file, reader if tokenize else None, progress)
        for number, entry in enumerate(entries):
            n_read += 1
            if len(entry) > max_tokens:
                raise ValueError(
                    f"{file}: a sentence or Doc has {len(entry):,} tokens (number {number}, from "
                    f"0; it starts with '{entry.text[:60]}'), and its vectors have to fit into "
                    f"memory. Split it, or allow more: `max_tokens={len(entry)}`"
                )
            yield reader.select(entry)
        if file.entries not in (None, n_read):
            raise ValueError(
                f"{file}: the part from byte {file.start:,} on holds {n_read:,} entries, and was "
                f"planned with {file.entries:,}"
            )
