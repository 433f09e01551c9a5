"""Types with fewer digits than float32: what is stored, and which number it stands for."""

import numpy as np

LARGEST = 127.0  # of a signed integer of 8 bits, symmetric around 0


def bfloat16_bits(values: np.ndarray) -> np.ndarray:
    """Round to bfloat16, to nearest even.

    values (numpy.ndarray): float32.
    RETURNS (numpy.ndarray): The upper halves, uint16, of the same shape.
    """
    bits = np.ascontiguousarray(values, dtype="float32").view("uint32")
    return ((bits + (0x7FFF + ((bits >> 16) & 1))) >> 16).astype("uint16")


def to_bfloat16(values: np.ndarray) -> np.ndarray:
    """RETURNS (numpy.ndarray): The values rounded to bfloat16, as float32."""
    return (bfloat16_bits(values).astype("uint32") << 16).view("float32")


def quantize_rows(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Round each row to integers of 8 bits with one scale, so that a row's result depends on no
    other row.

    values (numpy.ndarray): *Shape:* `(n, width)`
    RETURNS (Tuple[numpy.ndarray, numpy.ndarray]): Integers, int8, and the scales, float32.
        *Shapes:* `(n, width)`, `(n,)`
    """
    scales = np.abs(values).max(axis=1, initial=0.0).astype("float32") / np.float32(LARGEST)
    divisors = np.where(scales > 0.0, scales, np.float32(1.0))
    return np.rint(values / divisors[:, None]).astype("int8"), scales


def dequantized(integers: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """RETURNS (numpy.ndarray): What quantized rows stand for, float32."""
    return integers.astype("float32") * scales[:, None]
