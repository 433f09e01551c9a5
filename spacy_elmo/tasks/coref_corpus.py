"""Public name of `coref.corpus`."""

from .coref.corpus import make_doc

__all__ = ["make_doc"]
