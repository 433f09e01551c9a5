"""Error messages and exit codes of all commands.

An error names a setting in backticks, as in Python: `lang`, `force=True`. A command replaces it
with its option: --lang, --force.

Exit codes: 0 success; 1 wrong input; 2 wrong command line; 3 a conversion would lose something; 4 a
download failed; 130 stopped by Ctrl-C.
"""

import functools
import inspect
import itertools
import logging
import os
import re
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Optional

import typer

from ..files import is_stream, user_path
from ..files.terminal import SafePrinter, echo, msg, printable


class CommandLineError(ValueError):
    """Error of a wrong command line."""

    exit_code = 2


# Settings whose options have other names.
RENAMED = {
    "keep_softmax=False": "--no-softmax",
}

# Errors that are shown as one line; a RuntimeError only if memory is full.
KINDS = (ValueError, OSError, ImportError, FloatingPointError, MemoryError, RuntimeError)
_SETTING = re.compile(r"`(([a-z_]+(?:\.[a-z_]+)?)(?:=([^`]+))?)`")
_NO_MEMORY = re.compile("can't allocate memory|out of memory")
_SIZE = re.compile(r"(unable|tried) to allocate [\d.]+ \w+", re.IGNORECASE)
_verbose = ContextVar("_verbose", default=False)
_settings: ContextVar[set[str]] = ContextVar("_settings")  # Options of the running command.
_values: ContextVar[list[Any]] = ContextVar("_values")  # Values of its arguments and options.


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Add the option --verbose to a command. Without this option, an error is printed as one line.

    function (Callable): The command.
    RETURNS (Callable): The command with the option.
    """

    @functools.wraps(function)
    def run(*args: Any, verbose: bool, **options: Any) -> None:
        _verbose.set(verbose)
        _settings.set(settings)
        _values.set([*args, *options.values()])
        logging.getLogger("spacy").addFilter(_make_printable)
        with warnings.catch_warnings(), no_traceback():
            warnings.showwarning = functools.partial(_show, set())
            function(*args, **options)

    verbose = typer.Option(False, "--verbose", help="Show where an error comes from")
    kind = inspect.Parameter.KEYWORD_ONLY
    option = inspect.Parameter("verbose", kind, default=verbose, annotation=bool)
    signature = inspect.signature(function)
    settings = {
        name
        for name, parameter in signature.parameters.items()
        # `ctx`: the command also accepts the settings of a config as options.
        if isinstance(parameter.default, typer.models.OptionInfo) or name == "ctx"
    }
    parameters = [*signature.parameters.values(), option]
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {**function.__annotations__, "verbose": bool}
    return run


@contextmanager
def no_traceback() -> Iterator[None]:
    """Context manager: print an error of the block as one line, and exit with its `exit_code`.

    Errors without an `exit_code` have the code 1.
    """
    try:
        with stopped("Stopped"):
            yield
    except KINDS as error:
        # PyTorch has no class of errors for the memory of the CPU.
        if isinstance(error, RuntimeError) and not _NO_MEMORY.search(str(error)):
            raise
        if _verbose.get():
            echo(traceback.format_exc(), sys.stderr)
        msg.fail(_with_options(_line(error)), exits=getattr(error, "exit_code", 1))


@contextmanager
def stopped(message: str) -> Iterator[None]:
    """Context manager: at Ctrl-C, print a message and exit with code 130.

    message (str): The message, which says how to resume.
    """
    try:
        yield
    except KeyboardInterrupt:
        msg.warn(message)
        raise typer.Exit(130) from None


def check_new(*outputs: Optional[Path], force: bool) -> None:
    """Raise a ValueError if a command would overwrite an existing file without --force.

    outputs (Optional[Path]): Files to write. None, "-", devices and FIFOs are not checked.
    force (bool): Whether the command may overwrite files.
    RAISES (ValueError): An output is a folder, or exists and `force` is False, or the running
        command has another argument with the same path.
    """
    for output in outputs:
        if output is None or str(output) == "-" or not output.exists() or is_stream(output):
            continue
        if output.is_dir():
            raise ValueError(f"{output} is a folder. Give another name")
        if not force:
            raise ValueError(f"{output} exists already. Give another name, or --force")
        if sum(os.path.samefile(output, path) for path in _existing_paths()) > 1:
            raise ValueError(f"{output} is an input, or given twice. Give another name")


def _existing_paths() -> list[Path]:
    """Return the arguments of the running command that are paths of existing files or folders."""
    several = (value if isinstance(value, list) else [value] for value in _values.get([]))
    values = itertools.chain.from_iterable(several)
    paths = [user_path(value) for value in values if isinstance(value, (str, Path))]
    return [path for path in paths if os.path.exists(path)]


def _with_options(message: str) -> str:
    """Replace settings in a message with the command's options: `force=True` becomes --force."""
    settings = _settings.get(set())

    def option(match: re.Match[str]) -> str:
        setting, name, value = match.groups()
        if setting in RENAMED:
            return RENAMED[setting]
        if name == "lang" and "ctx" in settings:
            name = "nlp.lang"
        if name not in settings and not ("." in name and "ctx" in settings):
            return match[0]
        known = f"--{name}" if "." in name else f"--{name.replace('_', '-')}"
        return known if value in (None, "True") else f"{known} {value}"

    return _SETTING.sub(option, message)


def _line(error: BaseException) -> str:
    """Return the message of an error as one line, without the number of a system error."""
    if isinstance(error, PermissionError) and error.filename:
        return f"{error.filename}: no permission. Give another path, or change its permissions"
    if isinstance(error, (FileExistsError, NotADirectoryError)) and error.filename:
        return f"{error.filename}: a file is where a folder is needed. Give another path"
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror.lower()}"
    if isinstance(error, (MemoryError, RuntimeError)):
        size = _SIZE.search(str(error))
        reason = f", {size[0]}" if size else ""
        return f"not enough memory{reason}. Use smaller batches, or free some memory"
    return str(error)


def _make_printable(record: logging.LogRecord) -> bool:
    """Escape control characters in a message of spaCy's logger."""
    record.msg, record.args = printable(record.getMessage()), ()
    return True


def _show(shown: set[str], message: object, *_: Any, **__: Any) -> None:
    """Print a warning as a line to stderr, above progress bars, unless it is in `shown`."""
    from tqdm import tqdm

    if str(message) not in shown:
        shown.add(str(message))
        tqdm.write(SafePrinter(no_print=True).warn(_with_options(str(message))), file=sys.stderr)
