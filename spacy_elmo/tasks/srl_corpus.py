"""Public name of `srl.corpus`."""

from .srl.corpus import make_doc

__all__ = ["make_doc"]
