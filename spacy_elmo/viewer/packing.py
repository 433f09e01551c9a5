"""Arrays in JSON: base64 of little-endian numbers, which take an eighth of their digits."""

from base64 import b64encode

import numpy as np

UNIT = 32_000  # what 1.0 is as int16


def pack_fractions(values: np.ndarray) -> str:
    """Pack numbers from -1 to 1 as int16, where 1 is 32,000: exact to 0.00002.

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
