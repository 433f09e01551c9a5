# ruff: noqa: F401
"""Documented import path of `keep_vectors`, `restore_vectors` and `get_layers`."""

from .embedding.doc_layers import get_layers
from .embedding.vectors import keep_vectors, restore_vectors
