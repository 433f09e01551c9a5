"""Documented name of what `srl.corpus` has."""

from .srl.corpus import make_doc

__all__ = ["make_doc"]
