"""Documented import path of `make_question`, which makes a Doc of a question and its answers."""

from .texts.corpus import make_question

__all__ = ["make_question"]
