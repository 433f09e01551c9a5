"""Kernels with sanitizers, at odd shapes; `make sanitize` runs all tests of frozen models."""

import pytest

from spacy_elmo.frozen.kernel import NUMPY, available_kernels

from helpers import sanitize
from helpers.profiles import SHORT

pytestmark = pytest.mark.processes

KERNEL = available_kernels()[-1]
PYTEST = ["-m", "pytest", "-q", "--noconftest", "-p", "helpers.sanitized", "-p", "no:cacheprovider"]
SHAPES = ["tests/frozen/test_odd_shapes.py", f"--hypothesis-profile={SHORT}"]

# An output that is 64 bytes too short.
OVERFLOW = """
import ctypes
import sys
import numpy as np
import helpers.sanitized
from spacy_elmo.frozen.kernel import compiled, find_kernel
kernel = find_kernel(sys.argv[1])
matrix = compiled.PackedMatrix(np.ones((32, 32), "float32"), "float32")
inputs, space = np.ones((2, 32), "float32"), np.ones(9999, "float32")
arrays = compiled._pointers(inputs, None), compiled._pointers(np.empty(48, "float32"), space)
sizes = ctypes.c_int64(2), ctypes.c_int(0)
kernel.library.elmo_product(ctypes.byref(matrix), *arrays[0], *sizes, *arrays[1])
"""


@pytest.mark.processes
@pytest.mark.skipif(KERNEL == NUMPY, reason="no compiled kernel")
@pytest.mark.skipif(sanitize.runtime() is None, reason="no g++ with sanitizers")
def test_sanitizers_find_nothing_in_the_kernel(tmp_path):
    """The shapes are odd ones. The sanitizers do find a write behind the end of an array."""
    sanitize.build(tmp_path, [KERNEL])
    ended = sanitize.run_sanitized(tmp_path, *PYTEST, *SHAPES)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    ended = sanitize.run_sanitized(tmp_path, "-c", OVERFLOW, KERNEL)
    assert ended.returncode != 0
    assert "AddressSanitizer: heap-buffer-overflow" in ended.stderr, ended.stderr
