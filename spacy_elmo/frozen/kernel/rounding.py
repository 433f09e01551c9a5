"""Rounding to bfloat16 and int8, and back to float32."""

import numpy as np

LARGEST = 127.0  # Largest int8 value. The range is symmetric around 0.


def bfloat16_bits(values: np.ndarray) -> np.ndarray:
    """Round float32 to the nearest bfloat16 (ties to even), and return the bits.

    values (numpy.ndarray): float32.
    RETURNS (numpy.ndarray): The upper 16 bits of each number, uint16, in the same shape.
    """
    bits = np.ascontiguousarray(values, dtype="float32").view("uint32")
    return ((bits + (0x7FFF + ((bits >> 16) & 1))) >> 16).astype("uint16")


def to_bfloat16(values: np.ndarray) -> np.ndarray:
    """Round float32 values to bfloat16, and return them as float32."""
    return (bfloat16_bits(values).astype("uint32") << 16).view("float32")


def quantize_rows(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Round each row to int8, with one scale per row.

    The result of a row does not depend on other rows.

    values (numpy.ndarray): *Shape:* `(n, width)`
    RETURNS (Tuple[numpy.ndarray, numpy.ndarray]): The integers, int8, and the scales, float32.
        *Shapes:* `(n, width)`, `(n,)`
    """
    scales = np.abs(values).max(axis=1, initial=0.0).astype("float32") / np.float32(LARGEST)
    divisors = np.where(scales > 0.0, scales, np.float32(1.0))
    return np.rint(values / divisors[:, None]).astype("int8"), scales


def dequantized(integers: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """Convert the result of `quantize_rows` back to float32."""
    return integers.astype("float32") * scales[:, None]
