"""Documented import path of `make_doc` from `coref.corpus`, which makes Docs with clusters."""

from .coref.corpus import make_doc

__all__ = ["make_doc"]
