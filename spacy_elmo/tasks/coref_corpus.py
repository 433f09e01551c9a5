"""Documented import path of `make_doc`, which is defined in `coref.corpus`.

The function makes Docs with clusters.
"""

from .coref.corpus import make_doc

__all__ = ["make_doc"]
