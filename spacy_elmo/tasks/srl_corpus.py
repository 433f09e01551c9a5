"""Public function for Docs with semantic roles; the code is in `srl.corpus`."""

from .srl.corpus import make_doc

__all__ = ["make_doc"]
