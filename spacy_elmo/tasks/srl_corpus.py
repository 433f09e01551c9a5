"""Documented import path of `make_doc`, which is defined in `srl.corpus`.

The function makes Docs with roles.
"""

from .srl.corpus import make_doc

__all__ = ["make_doc"]
