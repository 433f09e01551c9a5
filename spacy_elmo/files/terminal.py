r"""Text and progress bars for the terminal, without control characters from files.

Words, names of tensors and files, and the provenance of a model may contain escape sequences. They
could clear the screen or hide the output of a command. So commands print all text except JSON
through this module. It shows control characters as escapes, such as `\x1b`.
"""

import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Optional, TextIO

from wasabi import Printer

if TYPE_CHECKING:
    from tqdm import tqdm

# Control characters except tab and line feed; line and paragraph separators; changes of the text
# direction; invisible characters, which can hide text; and lone surrogates, which UTF-8 cannot
# encode. The joiners U+200C and U+200D stay, because words and emojis contain them.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e"
    "\u2060-\u2064\u2066-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)


def printable(text: object) -> str:
    """Show control characters as escapes. Tabs and line feeds stay.

    text (object): The text, from any source.
    RETURNS (str): A text that can be printed.
    """
    return _UNSAFE.sub(lambda found: found[0].encode("unicode_escape").decode(), str(text))


def one_line(text: object) -> str:
    """Show control characters as escapes, including tabs and line feeds.

    text (object): The text, from any source.
    RETURNS (str): A text that can be printed within a line.
    """
    return printable(text).replace("\n", "\\n").replace("\t", "\\t")


def echo(text: object, file: Optional[TextIO] = None) -> None:
    """Print a text with control characters shown as escapes.

    text (object): The text, from any source.
    file (Optional[TextIO]): The stream. Default: standard output.
    """
    print(printable(text), file=file, flush=True)


class SafePrinter(Printer):
    """Wasabi's printer with control characters shown as escapes."""

    def text(self, title: Any = "", text: Any = "", **settings: Any) -> Any:
        """Print a text."""
        return super().text(printable(title), printable(text), **settings)

    def table(self, data: Any, **settings: Any) -> Any:
        """Print a table."""
        if settings.get("header"):
            settings["header"] = _cells(settings["header"])
        # Wasabi's default of 30 characters makes columns narrower than long cells.
        return super().table([_cells(row) for row in data], max_col=sys.maxsize, **settings)


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
    in_logs (bool): If True, the bar stays visible at the end, and is updated once a minute in a
        log. If False, the bar is shown only on terminals, and disappears at the end.
    options: Other options of tqdm.
    RETURNS (tqdm): The bar.
    """
    from tqdm import tqdm

    seldom = {"mininterval": 0.5 if sys.stderr.isatty() else 60.0}
    kind = seldom if in_logs else {"leave": False, "disable": None}
    desc = None if name is None else one_line(name)
    return tqdm(total=total, desc=desc, unit=unit, **{"unit_scale": True, **kind, **options})
