"""Plug-in of pytest: kernels that were built with sanitizers, see `sanitize`."""

import os

from hypothesis import settings

from spacy_elmo.frozen import kernel

from helpers import profiles

settings.load_profile(profiles.REPEATABLE)
# Python looks for the extensions `_avx2`, ... here first.
kernel.__path__.insert(
    0, os.path.join(os.environ["SANITIZED_KERNELS"], *kernel.__name__.split("."))
)
