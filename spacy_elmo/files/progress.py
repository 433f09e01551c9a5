"""One progress bar."""

import sys
from typing import TYPE_CHECKING, Any, Optional

from .terminal import one_line

if TYPE_CHECKING:
    from tqdm import tqdm


def progress_bar(
    total: Optional[float],
    name: Optional[str] = None,
    unit: str = "it",
    *,
    in_logs: bool = True,
    **options: Any,
) -> "tqdm":
    """Make a bar.

    total (Optional[float]): What is to be done, if it is known.
    name (Optional[str]): What stands before the bar.
    unit (str): Of the total.
    in_logs (bool): Whether it stays, and is written to a log, once a minute; or is seen
        on a terminal alone, and goes.
    options: Others of tqdm's.
    RETURNS (tqdm): The bar.
    """
    from tqdm import tqdm

    seldom = {"mininterval": 0.5 if sys.stderr.isatty() else 60.0}
    kind = seldom if in_logs else {"leave": False, "disable": None}
    desc = None if name is None else one_line(name)
    return tqdm(total=total, desc=desc, unit=unit, **{"unit_scale": True, **kind, **options})
