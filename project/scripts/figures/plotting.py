"""Look of the pictures.

They must be readable on white, on a dark page and in gray print. The same data give the same file,
byte for byte.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

from wasabi import msg

try:  # Other scripts import matplotlib from here, so that only this message is needed.
    import matplotlib
    from matplotlib import ticker
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
except ImportError:
    msg.fail("matplotlib is not installed: pip install 'spacy-elmo[analysis]'", exits=1)

# Each color has a contrast of at least 4 to white and to the dark background #0d1117.
TEXT = "#787878"
COLORS = ("#1f83c4", "#c8550a", "#0b8f68", "#a558a0", "#a07800")
# These distinguish lines and bars without colors.
LINES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))
MARKERS = ("o", "s", "^", "D", "v")
HATCHES = ("", "///", "..", "xx", "--")
STYLE = {
    **{f"{name}.color": TEXT for name in ("text", "xtick", "ytick", "grid")},
    **{f"axes.{name}": TEXT for name in ("edgecolor", "labelcolor", "titlecolor")},
    **{f"{name}.facecolor": "none" for name in ("figure", "axes", "legend")},
    "legend.edgecolor": "none",
    "legend.framealpha": 0,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.alpha": 0.3,
    "lines.markersize": 4,
    "hatch.linewidth": 0.6,
    "svg.hashsalt": "spacy-elmo",  # Without it, the ids in the file are random.
}
WITHOUT_DATE = {"svg": {"Date": None, "Creator": None}, "pdf": {"CreationDate": None}}

__all__ = ["TEXT", "Axes", "Figure", "Look", "looks", "picture", "ticker"]


class Look(NamedTuple):
    """Color, line style, marker and hatch of one line or bar."""

    color: str
    line: Any
    marker: str
    hatch: str

    @property
    def of_line(self) -> dict[str, Any]:
        """Arguments of `Axes.plot`."""
        return {"color": self.color, "linestyle": self.line, "marker": self.marker}

    @property
    def of_bar(self) -> dict[str, Any]:
        """Arguments of `Axes.bar`."""
        face = (self.color, 0.35)
        return {"facecolor": face, "edgecolor": self.color, "hatch": self.hatch}


def looks() -> Iterator[Look]:
    """Return an endless iterator over the looks."""
    return cycle(Look(*look) for look in zip(COLORS, LINES, MARKERS, HATCHES))


@contextmanager
def picture(path: Path, width: float, height: float) -> Iterator[Figure]:
    """Context manager: create a figure, and write it to a file at the end of the block.

    path (Path): The file: .svg, .png or .pdf.
    width (float): Width in inches.
    height (float): Height in inches.
    YIELDS (Figure): The figure.
    """
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure
        kind = path.suffix.lstrip(".")
        content = BytesIO()
        figure.savefig(content, format=kind, dpi=150, metadata=WITHOUT_DATE.get(kind))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.getvalue())
    msg.good(f"Wrote {path}")
