"""Where the report of a probe goes: the terminal, a JSON file, a page."""

from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Optional

import srsly

from ..analysis.report import Report
from ..files import atomic_write


def put_report(
    report: Report,
    show: Callable[[Report], None],
    *,
    json: Optional[Path],
    html: Optional[Path],
    title: str,
    scores: Iterable[Optional[str]],
    read: Iterable[object],
) -> None:
    """Write what is asked for, and print the report.

    report (Report): The report.
    show (Callable): Prints it as a table.
    json (Optional[Path]): JSON file to write; "-" prints it in place of the table.
    html (Optional[Path]): Page to write.
    title (str): Title of the page.
    scores (Iterable[Optional[str]]): The scores on the page, a part each; None is the first.
    read (Iterable[object]): Names and paths that the page says it was made from.
    """
    found = asdict(report)
    content = srsly.json_dumps(found, indent=2)
    if html is not None:
        from ..viewer.bars import probe_section
        from ..viewer.page import write_page

        write_page(html, title, [probe_section(found, name) for name in scores], read=read)
    if json is not None and str(json) != "-":
        atomic_write(json, content + "\n")
    if str(json) == "-":
        print(content)
    else:
        show(report)
