"""How the commands fail, all of them.

Exit codes: 0, all went well; 1, the input is wrong; 2, the command line is wrong;
3, a conversion would lose something; 4, a download failed; 130, stopped by Ctrl-C.
"""

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import typer
from wasabi import msg

_verbose = ContextVar("_verbose", default=False)


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Give a command the option --verbose, without which its errors are a line.

    function (Callable): The command.
    RETURNS (Callable): The command with the option.
    """

    @functools.wraps(function)
    def run(*args: Any, verbose: bool, **options: Any) -> None:
        _verbose.set(verbose)
        with no_traceback():
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
        yield
    except (ValueError, OSError, ImportError, FloatingPointError) as error:
        if _verbose.get():
            raise
        msg.fail(str(error), exits=getattr(error, "exit_code", 1))
    except KeyboardInterrupt:
        msg.warn("Stopped")
        raise typer.Exit(130) from None
