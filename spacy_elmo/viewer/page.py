"""Page: one HTML file that needs nothing else. Text of corpora is in JSON, which no HTML parser
reads; the script makes text nodes of it."""

import html
import json
import re
from base64 import b64encode
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..files import atomic_write, user_path

UNIT = 32_000  # the int16 of 1.0
HERE = Path(__file__).parent
# The page can make no request of any kind.
POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"
# Ends of scripts, comments, lines of JavaScript, and halves of surrogate pairs, which are no UTF-8.
UNSAFE = re.compile("[<>&\x7f\u2028\u2029\ud800-\udfff]")

PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>
{style}</style>
</head>
<body>
<noscript>This page draws its pictures by JavaScript, which is switched off here.</noscript>
<script type="application/json" id="data">{data}</script>
<script>
{script}</script>
</body>
</html>
"""


def make_page(title: str, sections: Sequence[dict[str, Any]], *, about: str = "") -> str:
    """Make a page.

    title (str): Its title.
    sections (Sequence[dict]): Sections, from the other modules of this package.
    about (str): A line below the title: model, text.
    RETURNS (str): HTML.
    """
    data = {"title": title, "about": about, "sections": list(sections)}
    return PAGE.format(
        policy=POLICY,
        title=html.escape(title),
        style=(HERE / "page.css").read_text("utf8"),
        data=safe_json(data),
        script=(HERE / "page.js").read_text("utf8"),
    )


def write_page(
    path: Path, title: str, sections: Sequence[dict[str, Any]], *, read: Iterable[object]
) -> None:
    """Write a page. If that fails, the file is as it was.

    path (Path): The file; its folder is made if necessary.
    title (str): The page's title.
    sections (Sequence[dict]): As `make_page` takes them.
    read (Iterable[object]): Names and paths of the inputs, for a line below the title.
    """
    about = " · ".join(Path(str(name)).name for name in read)
    atomic_write(user_path(path), make_page(title, sections, about=about))


def safe_json(data: Any) -> str:
    """Write JSON for use within `<script>`.

    data (Any): The data.
    RETURNS (str): JSON without `<`, `>`, `&`, line separators and lone surrogates, which
        are escaped.
    """
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def in_frame(page: str, title: str) -> str:
    """Put a page into a frame for other pages and notebooks. Its styles
    and scripts reach nothing outside.

    page (str): What `make_page` made.
    title (str): What the frame is called.
    RETURNS (str): HTML.
    """
    return (
        f'<iframe srcdoc="{html.escape(page)}" title="{html.escape(title)}" '
        f'sandbox="allow-scripts" style="width: 100%; height: 60rem; border: 0"></iframe>'
    )


def pack_fractions(values: np.ndarray) -> str:
    """Pack numbers from -1 to 1 as int16, where 1 is 32,000: exact to 0.00002. Base64 takes an
    eighth of the space of digits.

    values (numpy.ndarray): The numbers.
    RETURNS (str): Base64.
    """
    return _base64((np.clip(values, -1.0, 1.0) * UNIT).round().astype("<i2"))


def pack_numbers(values: np.ndarray) -> str:
    """Pack whole numbers from 0 to 65,535 as uint16.

    values (numpy.ndarray): The numbers.
    RETURNS (str): Base64.
    RAISES (ValueError): One is larger or smaller.
    """
    values = np.asarray(values)
    if values.size and not 0 <= values.min() <= values.max() < 2**16:
        raise ValueError(f"numbers from {values.min()} to {values.max()} do not fit uint16")
    return _base64(values.astype("<u2"))


def _base64(values: np.ndarray) -> str:
    return b64encode(np.ascontiguousarray(values).tobytes()).decode("ascii")
