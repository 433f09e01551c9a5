"""Documented name of what `coref.corpus` has."""

from .coref.corpus import make_doc

__all__ = ["make_doc"]
