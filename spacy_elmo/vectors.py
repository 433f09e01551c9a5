# ruff: noqa: F401
"""Public functions on the vectors of Docs, under their documented name.

The hooks are here because Docs pickled by earlier versions refer to them by this path.
"""

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
