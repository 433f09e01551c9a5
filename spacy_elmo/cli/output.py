"""Output of commands: tables that fit the terminal, and reports of probes."""

import shutil
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Optional, Union

import srsly

from ..files import atomic_write
from ..files.terminal import msg, one_line

if TYPE_CHECKING:
    from ..analysis.probes import ProbeReport

SPACING = 3
MIN_ROOM = 20  # The last column has at least this width, even if the table is then too wide.
Fit = Callable[[int], str]


def terminal_width() -> int:
    """Return the width of the terminal; 80 if the output is not a terminal."""
    return shutil.get_terminal_size((80, 24)).columns


def print_table(
    rows: Sequence[Sequence[Union[str, Fit]]], header: Sequence[str], aligns: Sequence[str]
) -> None:
    """Print a table that fits the terminal. The last column is wrapped.

    rows (Sequence[Sequence[Union[str, Callable[[int], str]]]]): The cells. The last one of a row
        may be a function that makes the cell for a given width.
    header (Sequence[str]): The names of the columns.
    aligns (Sequence[str]): "l" or "r" for each column.
    """
    first = [[one_line(cell) for cell in row[:-1]] for row in rows]
    widths = [max(map(len, column)) for column in zip(header[:-1], *first)]
    room = max(MIN_ROOM, terminal_width() - sum(widths) - SPACING * len(widths))
    fitted = []
    for cells, (*_, last) in zip(first, rows):
        text = one_line(last if isinstance(last, str) else last(room))
        for line in textwrap.wrap(text, room, break_on_hyphens=False) or [""]:
            fitted.append([*cells, line])
            cells = [""] * len(cells)
    msg.table(fitted, header=header, divider=True, aligns=aligns)


def cut_text(text: str, width: int) -> str:
    """Cut a text to `width` characters. A cut text ends with an ellipsis."""
    return text if len(text) <= width else text[: width - 1] + "…"


def put_report(
    report: "ProbeReport",
    show: Callable[["ProbeReport"], None],
    json: Optional[Path],
    html: Optional[Path],
    *,
    title: str,
    scores: Iterable[Optional[str]],
    read: Iterable[object],
) -> None:
    """Print the report of a probe as a table or JSON, and write a JSON file and an HTML page.

    report (ProbeReport): The report.
    show (Callable): Prints the report as a table.
    json (Optional[Path]): JSON file to write; "-" prints it instead of the table.
    html (Optional[Path]): HTML page to write.
    title (str): Title of the page.
    scores (Iterable[Optional[str]]): Names of the scores on the page, one section each. None is
        the first score of the report.
    read (Iterable[object]): Names and paths of the inputs, for the line below the title.
    """
    found = asdict(report)
    content = srsly.json_dumps(found, indent=2)
    if html is not None:
        from ..viewer.page import write_page
        from ..viewer.sections import probe_section

        write_page(html, title, [probe_section(found, name) for name in scores], read=read)
    if str(json) == "-":
        print(content)
        return
    if json is not None:
        atomic_write(json, content + "\n")
    show(report)
