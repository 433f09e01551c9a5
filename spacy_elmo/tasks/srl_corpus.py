"""Documented import path of `make_doc`, which makes Docs with roles (`srl.corpus`)."""

from .srl.corpus import make_doc

__all__ = ["make_doc"]
