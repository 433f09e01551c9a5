"""How the commands fail, all of them.

Exit codes: 0, all went well; 1, the input is wrong; 2, the command line is wrong;
3, a conversion would lose something; 4, a download failed; 130, stopped by Ctrl-C.
"""

import functools
import inspect
import logging
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import typer

from ..files.terminal import SafePrinter, echo, msg, printable


class CommandLineError(ValueError):
    """The command line is wrong."""

    exit_code = 2


_verbose = ContextVar("_verbose", default=False)


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Give a command the option --verbose, without which its errors are a line.

    function (Callable): The command.
    RETURNS (Callable): The command with the option.
    """

    @functools.wraps(function)
    def run(*args: Any, verbose: bool, **options: Any) -> None:
        _verbose.set(verbose)
        with warnings.catch_warnings(), _printable_logs(), no_traceback():
            warnings.showwarning = _show
            function(*args, **options)

    option = inspect.Parameter(
        "verbose",
        inspect.Parameter.KEYWORD_ONLY,
        default=typer.Option(False, "--verbose", help="Show where an error comes from"),
        annotation=bool,
    )
    signature = inspect.signature(function)
    run.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[*signature.parameters.values(), option]
    )
    run.__annotations__ = {**function.__annotations__, "verbose": bool}
    return run


@contextmanager
def no_traceback() -> Iterator[None]:
    """Say what is wrong, and exit with the error's own status, or 1."""
    try:
        with stopped("Stopped"):
            yield
    except (ValueError, OSError, ImportError, FloatingPointError) as error:
        if _verbose.get():
            echo(traceback.format_exc(), sys.stderr)
        msg.fail(_line(error), exits=getattr(error, "exit_code", 1))


@contextmanager
def stopped(message: str) -> Iterator[None]:
    """Say on Ctrl-C how to go on, and exit with its status.

    message (str): What is said.
    """
    try:
        yield
    except KeyboardInterrupt:
        msg.warn(message)
        raise typer.Exit(130) from None


def check_new(output: Path, force: bool) -> None:
    """output (Path): What is to be written; "-" is printed.
    force (bool): Whether it may be replaced.
    RAISES (ValueError): It is there."""
    if str(output) != "-" and output.exists() and not force:
        raise ValueError(f"{output} exists already: give another name, or --force")


def _line(error: BaseException) -> str:
    """What is wrong, without the system's number."""
    if isinstance(error, PermissionError) and error.filename:
        return f"{error.filename}: no permission; give another place, or change its permissions"
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror.lower()}"
    return str(error)


@contextmanager
def _printable_logs() -> Iterator[None]:
    """Make what spaCy's logger says safe for the terminal: it names components and files."""

    def change(record: logging.LogRecord) -> bool:
        record.msg, record.args = printable(record.getMessage()), ()
        return True

    logger = logging.getLogger("spacy")
    logger.addFilter(change)
    try:
        yield
    finally:
        logger.removeFilter(change)


def _show(message: object, *_: Any, **__: Any) -> None:
    """A warning as a line, beside the bars, and not where JSON may be asked for."""
    from tqdm import tqdm

    tqdm.write(SafePrinter(no_print=True).warn(str(message)), file=sys.stderr)
