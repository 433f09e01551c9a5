"""Bound for comparisons of vectors that different code computed in float32."""

from typing import Any

import numpy as np

from spacy_elmo.frozen.kernel import NUMPY, Kernel

# A float32 sum of n products, in whatever order, differs from the exact sum by at most n * 2^-24
# times the sum of their magnitudes. In the tiny models of the tests, n is at most 40, and the
# magnitudes add up to at most 4. Clips and gates do not let the difference grow in later steps.
ROUNDING = 40 * 4 * 2.0**-24  # 9.5e-6


def rounding_of(kernel: Kernel) -> float:
    """Return the bound for vectors that one kernel computes twice: 0 if it is a compiled kernel.

    NumPy's BLAS adds in an order that depends on the other words of the batch (those that are not
    in the cache) and on memory addresses.
    """
    return ROUNDING if kernel.name == NUMPY else 0.0


def check_close(found: Any, expected: Any) -> None:
    """Compare vectors of two kernels, of a kernel and a module, or of other batches in BLAS.

    The bound grows with vectors whose numbers exceed 1.
    """
    expected = np.asarray(expected)
    largest = float(np.abs(expected).max(initial=1.0))
    np.testing.assert_allclose(found, expected, rtol=0, atol=ROUNDING * largest)
