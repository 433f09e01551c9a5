"""How far long work has come, on a terminal or in a log."""

import sys

from tqdm import tqdm


def progress_bar(total: int, name: str, unit: str) -> tqdm:
    """RETURNS (tqdm): A bar; in a log it is written once a minute."""
    return tqdm(
        total=total,
        desc=name,
        unit=unit,
        unit_scale=True,
        mininterval=0.5 if sys.stderr.isatty() else 60.0,
    )
