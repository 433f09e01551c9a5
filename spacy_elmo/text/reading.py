"""Readers of sentences in text files."""

import errno
import json
import os
import re
import sys
import warnings
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import filter as matching
from functools import cache, partial
from glob import has_magic
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Optional, Union

import srsly

from ..files import user_path
from ..files.compression import kind_of, suffix_of
from ..files.errors import named_errors, shortened
from ..files.input_files import decode, numbered_lines
from ..files.paths import OF_FILE_MANAGERS
from ..files.unfinished import MARKER

if TYPE_CHECKING:
    from spacy.language import Language

READABLE = (".txt", ".jsonl")
FORMATS = ("sentences", "text")
CONTENT = ("tokens", "text")  # Keys of a JSON object, and columns of a table.
# A folder with one of these pairs of files is a prepared corpus, a pipeline, or output of `embed`.
WRITTEN = (
    ("manifest.json", "starts.npy"),
    ("meta.json", "config.cfg"),
    ("meta.json", "00000000.spacy"),
)
# Advice for files that are left out. Only `embed` reads tables.
ADVICE = {
    ".tsv": "for .tsv files, set --column of `embed`",
    ".parquet": "for Parquet files, give `embed` a glob that ends in .parquet",
    ".xml": "for TEI files (.xml), first run `extract`",
}
SHOWN_FILES = 5  # Files that a warning names.
SHOWN = 40  # Characters of a wrong line in a message.
MAX_PARAGRAPH = 20_000  # A paragraph with more characters ends at the next line end.

_HALF_A_PAIR = re.compile("[\ud800-\udfff]")

Inputs = Union[str, Path, Iterable[Union[str, Path]]]
Refuse = Callable[[int, str], None]
NumberedSentences = Iterator[tuple[int, list[str]]]


def check_text_format(format: str, lang: Optional[str]) -> None:
    """Check the settings `format` and `lang`.

    format (str): 'sentences' (one per line), or 'text' (running text).
    lang (Optional[str]): Language of the text; None if unknown.
    RAISES (ValueError): `format` is unknown, or it is 'text' and `lang` is None.
    """
    if format not in FORMATS:
        raise ValueError(f"format must be 'sentences' or 'text', got '{format}'")
    if format == "text":
        _check_lang(lang)


def find_files(
    inputs: Inputs, readable: tuple[str, ...] = READABLE, input_format: Optional[str] = None
) -> list[Path]:
    """Find the readable files of the inputs of a command.

    inputs (Union[str, Path, Iterable[Union[str, Path]]]): One or several files, folders or globs.
    readable (Tuple[str, ...]): Suffixes of readable files in lower case, without the suffix of a
        compression.
    input_format (Optional[str]): Format of files whose suffix names none, such as "txt".
    RETURNS (List[Path]): The files in the order of the inputs, sorted within a folder or glob, and
        each once per input. Links are followed, and a glob may match folders. In a folder, hidden
        files, prepared corpora, pipelines and output of `embed` are skipped. If other files are
        left out, there is a warning.
    RAISES (ValueError): An input has no readable file, has an unknown format, or is itself a
        prepared corpus, a pipeline or output of `embed`.
    RAISES (PermissionError): A folder cannot be read.
    """
    if input_format is not None and f".{input_format}" not in readable:
        names = ", ".join(suffix[1:] for suffix in readable)
        raise ValueError(f"`input_format` must be one of {names}, got '{input_format}'")
    files: list[Path] = []
    for given in [inputs] if isinstance(inputs, (str, Path)) else inputs:
        path = user_path(given)
        if path.is_dir():
            if _is_written(path):
                raise ValueError(
                    f"{path} is a prepared corpus, a pipeline or output of `embed`, not text. Give "
                    f"a prepared corpus only as the single training or held-out text of `pretrain`."
                )
            found = _files_of_folder(path, readable, input_format)
        elif path.exists():
            found = [path]
        else:
            found = _files_of_glob(path, readable, input_format)
        found = _without_duplicates(file for file in found if file.is_file())
        if not found:
            raise ValueError(f"no {', '.join(readable)} file at '{given}'")
        files.extend(found)
    for file in files:
        if kind_of(file.name, input_format) not in readable:
            raise ValueError(unknown_format(file, readable))
    return files


def unknown_format(file: object, readable: Iterable[str]) -> str:
    """Return the error message for a file whose suffix is not readable."""
    return (
        f"{file}: its suffix names no format that can be read. Use {', '.join(readable)}; `embed` "
        f"and `corpus` also have --input-format."
    )


def _files_of_folder(
    folder: Path, readable: tuple[str, ...], input_format: Optional[str]
) -> list[Path]:
    visible = sorted(_visible(folder))
    of_kind = [file for file in visible if kind_of(file.name, input_format) in readable]
    found = [file for file in of_kind if file.is_file()]
    others = {*visible}.difference(found)
    _warn_left_out(folder, sorted(file for file in others if file.is_file() or _is_broken(file)))
    return found


def _visible(folder: Path) -> Iterator[Path]:
    """Yield the files and broken links in a folder at every depth, without hidden and own ones.

    RAISES (PermissionError): A folder cannot be read.
    """
    for place, folders, files in _walk(folder):
        if MARKER in files or _is_written(place):  # The marker is of unfinished output.
            folders.clear()
            continue
        for file in files:
            if not file.startswith(".") and file not in OF_FILE_MANAGERS:
                yield place / file


def _walk(folder: Path) -> Iterator[tuple[Path, list[str], list[str]]]:
    """Walk through a folder like `os.walk`, without hidden subfolders.

    Links to folders are followed, and may form loops. So each folder is visited once.

    YIELDS (Tuple[Path, List[str], List[str]]): A folder, its subfolders and its other files.
    RAISES (PermissionError): A folder cannot be read.
    """
    seen: set[Path] = set()
    for name, folders, files in os.walk(folder, onerror=_raise, followlinks=True):
        place = Path(name)
        if place.resolve() in seen:
            folders.clear()
            continue
        seen.add(place.resolve())
        _check_access(place)
        folders[:] = sorted(inner for inner in folders if not inner.startswith("."))
        yield place, folders, files


def _check_access(folder: Path) -> None:
    # Python 3.14 and later hide this error in `exists` and `is_file`.
    if not os.access(folder, os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))


def _raise(error: OSError) -> NoReturn:
    raise error


def _is_broken(file: Path) -> bool:
    # A path through many links is no valid path, although its file exists.
    return file.is_symlink() and not os.path.exists(os.path.realpath(file))


def _files_of_glob(
    pattern: Path, readable: tuple[str, ...], input_format: Optional[str]
) -> list[Path]:
    start = Path(pattern.anchor)
    matched = sorted(_matches(start, pattern.parts[len(start.parts) :]))
    found = [file for file in matched if not file.is_dir()]
    folders = {path for path in matched if path.is_dir()}
    for folder in sorted(folders):
        if folders.isdisjoint(folder.parents):  # Otherwise, its parent is read with it.
            found += _files_of_folder(folder, readable, input_format)
    _warn_left_out(pattern, [file for file in found if _is_broken(file)])
    return found


def _matches(folder: Path, parts: Sequence[str]) -> Iterator[Path]:
    """Yield the paths in a folder that match a glob.

    Python's `glob` follows links that form loops in all possible ways, and skips folders that
    cannot be read.

    folder (Path): The folder.
    parts (Sequence[str]): The names and patterns of the glob, between slashes.
    YIELDS (Path): A path. It may be repeated.
    RAISES (PermissionError): A folder cannot be read.
    """
    if not parts:
        yield folder
        return
    first, *rest = parts
    if first == "**":
        for place, _, files in _walk(folder):
            yield from _matches(place, rest)
            if not rest:
                yield from (place / file for file in files if not file.startswith("."))
        return
    _check_access(folder)
    names = [first]
    if has_magic(first):
        is_hidden = first.startswith(".")
        names = matching(os.listdir(folder), first)
        names = [name for name in names if is_hidden or not name.startswith(".")]
    for name in names:
        path = folder / name
        if path.is_dir() or (not rest and os.path.lexists(path)):
            yield from _matches(path, rest)


def _without_duplicates(files: Iterable[Path]) -> list[Path]:
    """Keep one path of each file, the one with the fewest parts, and sort the paths."""
    ordered = sorted(files, key=lambda file: (len(file.parts), file), reverse=True)
    return sorted({file.resolve(): file for file in ordered}.values())


def _warn_left_out(given: Path, files: list[Path]) -> None:
    """Warn that files of a folder or glob are not read, with some of their names."""
    if not files:
        return
    shown = [
        f"{file.relative_to(given) if file.is_relative_to(given) else file}"
        f"{' (a broken link)' * _is_broken(file)}"
        for file in files[:SHOWN_FILES]
    ]
    more = f" and {len(files) - SHOWN_FILES:,} more" if len(files) > SHOWN_FILES else ""
    suffixes = {suffix_of(file.name) for file in files if not _is_broken(file)}
    advice = [text for suffix, text in ADVICE.items() if suffix in suffixes]
    if suffixes - ADVICE.keys():
        advice.append(
            "if they contain text, give them a suffix that says how, such as .txt; `embed` and "
            "`corpus` also have --input-format"
        )
    text = "; ".join(advice)
    warnings.warn(
        f"{given}: left out {', '.join(shown)}{more}.{text and f' {text[0].upper()}{text[1:]}.'}",
        stacklevel=4,
    )


def _is_written(folder: Path) -> bool:
    return any(all((folder / name).is_file() for name in names) for names in WRITTEN)


def read_sentences(
    files: Iterable[Path], *, format: str = "sentences", lang: Optional[str] = None
) -> Iterator[list[str]]:
    """Read the sentences of text files, also of compressed ones.

    A line of `.txt` is a sentence or running text. A line of `.jsonl` has `tokens` (a sentence) or
    `text` (a document of running text).

    files (Iterable[Path]): The files of `find_files`.
    format (str): Format of text files. 'sentences': one sentence per line, tokens separated by
        spaces. 'text': running text that spaCy splits.
    lang (Optional[str]): Language of spaCy's tokenizer for running text.
    YIELDS (List[str]): The tokens of a sentence. An empty list is an empty line between sentences.
    RAISES (ValueError): The format is unknown, `lang` is missing for running text, or a file
        cannot be read. The message names file and line.
    """
    check_text_format(format, lang)
    splitter, is_text = splitter_of(lang), format == "text"
    for file in files:
        lines, callback = numbered_lines(file), partial(refuse, file)
        numbered = sentences_of_lines(lines, is_jsonl(file), is_text, splitter, callback)
        yield from (sentence for _, sentence in numbered)


def ending(file: Path) -> str:
    """Return the suffix of a file, one of `READABLE`."""
    return suffix_of(file.name)


def is_jsonl(file: Path) -> bool:
    """Return whether a file is `.jsonl`, perhaps compressed."""
    return suffix_of(file.name) == ".jsonl"


def sentences_of_lines(
    lines: Iterable[tuple[int, bytes]],
    jsonl: bool,
    running_text: bool,
    splitter: Callable[[], "Language"],
    refuse: Refuse,
) -> NumberedSentences:
    """Read sentences from the lines of a file.

    lines (Iterable[Tuple[int, bytes]]): Number and content of each line.
    jsonl (bool): Whether each line is a JSON object.
    running_text (bool): Without `jsonl`: whether the lines are running text. If False, each line
        is a sentence.
    splitter (Callable): Makes the pipeline that splits running text. It is called only if needed.
    refuse (Callable[[int, str], None]): Called with the number of an unreadable line and the
        reason. If it returns, the line is skipped.
    YIELDS (Tuple[int, List[str]]): Tokens of a sentence, and the number of the line in which it
        begins. An empty list of tokens is an empty line.
    """
    decoded = _decoded(lines, refuse)
    if jsonl:
        yield from _jsonl_sentences(decoded, splitter, refuse)
    elif running_text:
        yield from _split(_paragraphs(decoded), splitter)
    else:
        yield from ((number, line.split()) for number, line in decoded)


def splitter_of(lang: Optional[str]) -> Callable[[], "Language"]:
    """Return a function whose calls all return the same spaCy pipeline for running text."""
    return cache(partial(_splitter, lang))


def refuse(file: object, line: Optional[int], reason: str) -> NoReturn:
    """Raise an error that names file and line.

    RAISES (ValueError): Always.
    """
    raise ValueError(f"{file}{'' if line is None else f', line {line}'}: {reason}")


def _decoded(lines: Iterable[tuple[int, bytes]], refuse: Refuse) -> Iterator[tuple[int, str]]:
    for number, line in lines:
        try:
            text = decode(line)
        except ValueError as error:
            refuse(number, str(error))
        else:
            yield number, text


def _jsonl_sentences(
    lines: Iterable[tuple[int, str]], splitter: Callable[[], "Language"], refuse: Refuse
) -> NumberedSentences:
    for number, line in lines:
        if not line.strip():
            continue
        try:
            content = read_record(line)
        except ValueError as error:
            refuse(number, str(error))
            continue
        if isinstance(content, str):
            yield from _split([_Paragraph(content, [0], [number])], splitter)
        elif content:
            yield number, content


def read_record(line: str) -> Union[str, list[str]]:
    """Read a line of `.jsonl`.

    line (str): The line.
    RETURNS (Union[str, List[str]]): The tokens or the text, see `tokens_or_text`.
    RAISES (ValueError): The line has neither, or is not a JSON object.
    """
    try:
        record = parse_json(line)
    except ValueError as error:
        raise ValueError(f"not a JSON object: {error}") from error
    if not isinstance(record, dict):
        raise ValueError(
            f"a line must be a JSON object with 'tokens' or 'text', got {line.strip()[:SHOWN]!r}"
        )
    return tokens_or_text(record)


def parse_json(line: str) -> Any:
    """Parse JSON. Numbers may also be NaN or infinite, or have any number of digits.

    RAISES (ValueError): The line is not JSON.
    """
    try:
        return srsly.json_loads(line)
    except ValueError as error:
        # Python's slower parser reads the numbers that srsly refuses. Integers become floats,
        # because Python limits the digits of an int.
        try:
            return json.loads(line, parse_int=float)
        except (ValueError, RecursionError):
            raise error from None


def tokens_or_text(record: Mapping[str, Any]) -> Union[str, list[str]]:
    """Return the content of a JSON object or a row of a table.

    record (Mapping[str, Any]): The object.
    RETURNS (Union[str, List[str]]): `tokens`, if it is a list of strings, or else the string
        `text`, also if `tokens` is empty. An empty string, if the one that exists is null.
    RAISES (ValueError): The object has neither, or only some of the `tokens` are strings.
    """
    tokens, text = record.get("tokens"), record.get("text")
    kinds = set(map(type, tokens)) if isinstance(tokens, list) else set()
    # A list without a string, such as token ids, contains no words: the text is read.
    if kinds != {str} and kinds & {str, bytes}:
        raise ValueError("'tokens' must be a list of strings, but contains other values")
    # Empty tokens beside a text are a missing value, not a sentence without tokens.
    is_missing = not tokens and isinstance(text, str) and text
    if isinstance(tokens, list) and kinds <= {str} and not is_missing:
        return tokens
    if text is None and tokens is None and not record.keys().isdisjoint(CONTENT):
        return ""
    if not isinstance(text, str):
        raise ValueError("no 'tokens' (a list of strings) and no 'text' (a string)")
    if has_half_a_pair(text):
        raise ValueError("'text' contains a lone surrogate, which spaCy cannot read. Remove it")
    return text


def has_half_a_pair(text: str) -> bool:
    """Return whether a text contains a lone surrogate, which UTF-8 cannot encode."""
    return _HALF_A_PAIR.search(text) is not None


def _check_lang(lang: Optional[str]) -> str:
    if lang is None:
        raise ValueError(
            "running text needs the rules of its language. Set `lang`, for example to en, or to "
            "xx for a language that spaCy does not have."
        )
    return lang


def blank_pipeline(lang: str) -> "Language":
    """Make an empty pipeline for a language.

    lang (str): spaCy's code of the language.
    RETURNS (Language): The pipeline.
    RAISES (ValueError): spaCy does not have the language, or needs a missing package for it.
    """
    import spacy  # Import here: spaCy is slow to import, and most text does not need it.

    with named_errors(f"spaCy has no tokenizer for {shortened(lang)}. Set `lang`", ImportError):
        return spacy.blank(lang)


def _splitter(lang: Optional[str]) -> "Language":
    nlp = blank_pipeline(_check_lang(lang))
    nlp.add_pipe("sentencizer")
    nlp.max_length = sys.maxsize  # The limit protects parsers, which do not run here.
    return nlp


class _Paragraph(NamedTuple):
    """Running text that consists of lines.

    text (str): The lines, joined by spaces.
    starts (List[int]): Index of each line's first character in the text.
    numbers (List[int]): Number of each line.
    """

    text: str
    starts: list[int]
    numbers: list[int]

    def line_at(self, place: int) -> int:
        """Return the number of the line with the character at an index of the text."""
        return self.numbers[bisect_right(self.starts, place) - 1]


def _paragraphs(lines: Iterable[tuple[int, str]]) -> Iterator[_Paragraph]:
    """Yield the paragraphs of running text.

    Running text is often wrapped, so a sentence can continue on the next line.
    """
    found: list[str] = []
    starts: list[int] = []
    numbers: list[int] = []
    n_characters = 0
    for number, line in lines:
        line = line.strip()
        if not line or n_characters >= MAX_PARAGRAPH:
            yield _Paragraph(" ".join(found), starts, numbers)
            found, starts, numbers, n_characters = [], [], [], 0
        if line:
            starts.append(n_characters + len(found))  # A space follows each line.
            numbers.append(number)
            found.append(line)
            n_characters += len(line)
    yield _Paragraph(" ".join(found), starts, numbers)


def _split(
    paragraphs: Iterable[_Paragraph], splitter: Callable[[], "Language"]
) -> NumberedSentences:
    texts = ((paragraph.text, paragraph) for paragraph in paragraphs if paragraph.text)
    for doc, paragraph in splitter().pipe(texts, as_tuples=True):
        for sentence in doc.sents:
            tokens = [token for token in sentence if not token.is_space]
            if tokens:
                yield paragraph.line_at(tokens[0].idx), [token.text for token in tokens]
