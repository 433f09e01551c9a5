# ruff: noqa: F401
"""Documented import path of `keep_vectors` and `restore_vectors`.

It also contains the hooks for vectors and similarity: Docs that were pickled with earlier versions
refer to `spacy_elmo.vectors`.
"""

from .embedding.vectors import (
    doc_vector,
    get_layers,
    has_vector,
    keep_vectors,
    restore_vectors,
    similarity,
    span_vector,
    token_similarity,
    token_vector,
)
