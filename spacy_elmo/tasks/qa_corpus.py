"""Public name of `texts.corpus`."""

from .texts.corpus import make_question

__all__ = ["make_question"]
