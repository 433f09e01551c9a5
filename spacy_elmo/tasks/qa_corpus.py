"""Public function for Docs with a question and its answers; the code is in `texts.corpus`."""

from .texts.corpus import make_question

__all__ = ["make_question"]
