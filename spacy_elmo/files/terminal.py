"""Text for the terminal, on which nothing that comes from a file can act.

A word, the name of a tensor or file, an entry of a model's provenance may hold escape sequences,
which clear the screen, change its title or hide what a command says. So commands print through
this module alone: control characters are shown as Python writes them, `\\x1b`."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Optional, TextIO

from wasabi import Printer

# Control characters but tab and line feed, changes of direction, and halves of surrogate pairs,
# which UTF-8 cannot hold.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: object) -> str:
    """Show control characters as escapes; tabs and line feeds stay.

    text (object): The text, of any origin.
    RETURNS (str): A text that can be printed.
    """
    return _UNSAFE.sub(lambda found: found[0].encode("unicode_escape").decode(), str(text))


def one_line(text: object) -> str:
    """Show control characters as escapes, tabs and line feeds too: in a word, a name, a cell.

    text (object): The text, of any origin.
    RETURNS (str): A text that can be printed within a line.
    """
    return printable(text).replace("\n", "\\n").replace("\t", "\\t")


def echo(text: object, file: Optional[TextIO] = None) -> None:
    """Print a text.

    text (object): The text, of any origin.
    file (Optional[TextIO]): Where to; default: standard output.
    """
    print(printable(text), file=file, flush=True)


class SafePrinter(Printer):
    """Wasabi's printer, for texts of any origin."""

    def text(self, title: Any = "", text: Any = "", **settings: Any) -> Any:
        return super().text(printable(title), printable(text), **settings)

    def divider(self, text: str = "", **settings: Any) -> Any:
        return super().divider(one_line(text), **settings)

    def table(self, data: Any, **settings: Any) -> Any:
        if isinstance(data, Mapping):
            data = list(data.items())
        if settings.get("header"):
            settings["header"] = _cells(settings["header"])
        return super().table([_cells(row) for row in data], **settings)

    def row(self, data: Any, **settings: Any) -> Any:
        return super().row(_cells(data), **settings)


def _cells(row: Sequence[Any]) -> list[str]:
    return [one_line(cell) for cell in row]


msg = SafePrinter()
