"""`keep_vectors`, `restore_vectors` and `get_layers`, by the name that the documentation gives; and
the hooks, which pickled Docs of before look for here."""

from .embedding.doc_layers import get_layers
from .embedding.vectors import (
    doc_vector,
    has_vector,
    keep_vectors,
    restore_vectors,
    similarity,
    span_vector,
    token_similarity,
    token_vector,
)

__all__ = [
    "doc_vector",
    "get_layers",
    "has_vector",
    "keep_vectors",
    "restore_vectors",
    "similarity",
    "span_vector",
    "token_similarity",
    "token_vector",
]
