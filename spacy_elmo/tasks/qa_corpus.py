"""Documented import path of `make_question` from `texts.corpus`."""

from .texts.corpus import make_question

__all__ = ["make_question"]
