r"""Text and progress bars for the terminal, without control characters from files.

A word, the name of a tensor or file, or an entry of a model's provenance may contain escape
sequences, which clear the screen or hide the output of a command. So all commands print through
this module: it shows control characters as Python writes them, `\x1b`.
"""

import re
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Optional, TextIO

from wasabi import Printer

if TYPE_CHECKING:
    from tqdm import tqdm

# Control characters except tab and line feed, changes of direction, and halves of surrogate pairs,
# which UTF-8 cannot encode.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: object) -> str:
    """Show control characters as escapes; tabs and line feeds stay.

    text (object): The text, of any origin.
    RETURNS (str): A text that can be printed.
    """
    return _UNSAFE.sub(lambda found: found[0].encode("unicode_escape").decode(), str(text))


def one_line(text: object) -> str:
    """Show control characters as escapes, also tabs and line feeds.

    text (object): The text, of any origin.
    RETURNS (str): A text that can be printed within a line.
    """
    return printable(text).replace("\n", "\\n").replace("\t", "\\t")


def echo(text: object, file: Optional[TextIO] = None) -> None:
    """Print a text.

    text (object): The text, of any origin.
    file (Optional[TextIO]): The stream; default: standard output.
    """
    print(printable(text), file=file, flush=True)


class SafePrinter(Printer):
    """Wasabi's printer, which shows control characters as escapes."""

    def text(self, title: Any = "", text: Any = "", **settings: Any) -> Any:
        """Print a text."""
        return super().text(printable(title), printable(text), **settings)

    def divider(self, text: str = "", **settings: Any) -> Any:
        """Print a divider."""
        return super().divider(one_line(text), **settings)

    def table(self, data: Any, **settings: Any) -> Any:
        """Print a table."""
        if isinstance(data, Mapping):
            data = list(data.items())
        if settings.get("header"):
            settings["header"] = _cells(settings["header"])
        return super().table([_cells(row) for row in data], **settings)

    def row(self, data: Any, **settings: Any) -> Any:
        """Print a row of a table."""
        return super().row(_cells(data), **settings)


def _cells(row: Sequence[Any]) -> list[str]:
    return [one_line(cell) for cell in row]


msg = SafePrinter()


def progress_bar(
    total: Optional[float],
    name: Optional[str] = None,
    unit: str = "it",
    *,
    in_logs: bool = True,
    **options: Any,
) -> "tqdm":
    """Make a progress bar.

    total (Optional[float]): The amount of work, if it is known.
    name (Optional[str]): Text before the bar.
    unit (str): Unit of the total.
    in_logs (bool): Whether the bar stays at its end, and is written to a log once a minute. If
        not, it is shown on terminals only, and disappears.
    options: More options of tqdm.
    RETURNS (tqdm): The bar.
    """
    from tqdm import tqdm

    seldom = {"mininterval": 0.5 if sys.stderr.isatty() else 60.0}
    kind = seldom if in_logs else {"leave": False, "disable": None}
    desc = None if name is None else one_line(name)
    return tqdm(total=total, desc=desc, unit=unit, **{"unit_scale": True, **kind, **options})
