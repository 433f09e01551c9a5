"""Documented import path of `make_doc` from `srl.corpus`, which makes Docs with roles."""

from .srl.corpus import make_doc

__all__ = ["make_doc"]
