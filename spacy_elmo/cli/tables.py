"""Tables that fit the terminal."""

import shutil
import textwrap
from collections.abc import Callable, Sequence
from typing import Union

from ..files.terminal import msg, one_line

SPACING = 3
MIN_ROOM = 20  # of the last column, however narrow the terminal is
Fit = Callable[[int], str]


def terminal_width() -> int:
    """RETURNS (int): Columns of the terminal; 80 where the output is none."""
    return shutil.get_terminal_size((80, 24)).columns


def print_table(
    rows: Sequence[Sequence[Union[str, Fit]]], header: Sequence[str], aligns: Sequence[str]
) -> None:
    """Print a table no wider than the terminal: its last column is wrapped.

    rows (Sequence[Sequence[Union[str, Callable[[int], str]]]]): The cells. The last of a row may
        be a function that makes it for a number of columns.
    header (Sequence[str]): The names of the columns.
    aligns (Sequence[str]): "l" or "r" a column.
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
    msg.table(fitted, header=header, divider=True, aligns=aligns, max_col=max(room, *widths, 1))


def shortened(text: str, width: int) -> str:
    """RETURNS (str): A text, cut where it is longer."""
    return text if len(text) <= width else text[: width - 1] + "…"
