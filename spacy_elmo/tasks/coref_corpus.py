"""Public function for Docs with coreference; the code is in `coref.corpus`."""

from .coref.corpus import make_doc

__all__ = ["make_doc"]
