"""Self-contained HTML pages.

A page is one file without external resources. The browser must never parse text of a corpus as
HTML. So the page contains this text as JSON, and its script creates text nodes.
"""

import html
import json
import re
from base64 import b64encode
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..files import atomic_write, user_path

UNIT = 32_000  # The int16 value of 1.0.
HERE = Path(__file__).parent
# The browser does not let the page load or send anything.
POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"
# Characters that could end a script, a comment or a line of JavaScript, and lone surrogates, which
# UTF-8 cannot encode.
UNSAFE = re.compile("[<>&\x7f\u2028\u2029\ud800-\udfff]")


def make_page(title: str, sections: Sequence[dict[str, Any]], *, about: str = "") -> str:
    """Make the HTML of a page.

    title (str): Title of the page.
    sections (Sequence[dict]): The sections, from functions such as `senses_section`.
    about (str): A line below the title, such as the names of model and text.
    """
    data = {"title": title, "about": about, "sections": list(sections)}
    kinds = ("html", "css", "js")
    page, style, script = ((HERE / f"page.{kind}").read_text("utf8") for kind in kinds)
    filled = {"policy": POLICY, "title": html.escape(title), "data": safe_json(data)}
    return page.format(style=style, script=script, **filled)


def write_page(
    path: Path, title: str, sections: Sequence[dict[str, Any]], *, read: Iterable[object]
) -> None:
    """Write a page to a file. If writing fails, an existing file stays unchanged.

    path (Path): The file. Missing folders are created.
    title (str): Title of the page.
    sections (Sequence[dict]): The sections, from functions such as `senses_section`.
    read (Iterable[object]): Names and paths of the inputs, for the line below the title.
    """
    about = " · ".join(Path(str(name)).name for name in read)
    atomic_write(user_path(path), make_page(title, sections, about=about))


def safe_json(data: Any) -> str:
    """Convert data to JSON that is safe inside `<script>`.

    `<`, `>`, `&`, DEL, line separators and lone surrogates are escaped.
    """
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def in_frame(page: str, title: str) -> str:
    """Put a page into an `iframe`, to show it in another page or a notebook.

    Styles and scripts of the page cannot affect anything outside the frame.

    page (str): The result of `make_page`.
    title (str): Title of the frame.
    RETURNS (str): The HTML of the frame.
    """
    return (
        f'<iframe srcdoc="{html.escape(page)}" title="{html.escape(title)}" '
        f'sandbox="allow-scripts" style="width: 100%; height: 60rem; border: 0"></iframe>'
    )


def pack_fractions(values: np.ndarray) -> str:
    """Encode numbers from -1 to 1 as int16 in Base64. The error is at most 0.00002.

    The integer 32,000 means 1. The text needs an eighth of the space of decimal numbers in JSON.
    """
    return _base64((np.clip(values, -1.0, 1.0) * UNIT).round().astype("<i2"))


def pack_numbers(values: np.ndarray) -> str:
    """Encode integers from 0 to 65,535 as uint16 in Base64.

    RAISES (ValueError): A number is out of range.
    """
    values = np.asarray(values)
    if values.size and not 0 <= values.min() <= values.max() < 2**16:
        raise ValueError(f"numbers from {values.min()} to {values.max()} do not fit uint16")
    return _base64(values.astype("<u2"))


def _base64(values: np.ndarray) -> str:
    return b64encode(np.ascontiguousarray(values).tobytes()).decode("ascii")
