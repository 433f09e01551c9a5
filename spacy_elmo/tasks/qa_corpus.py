"""Documented name of what `texts.corpus` has."""

from .texts.corpus import make_question

__all__ = ["make_question"]
