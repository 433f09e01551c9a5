"""Documented import path of `make_doc`, which makes Docs with clusters (`coref.corpus`)."""

from .coref.corpus import make_doc

__all__ = ["make_doc"]
