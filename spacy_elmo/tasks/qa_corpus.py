"""Documented import path of `make_question`, which is defined in `texts.corpus`.

The function makes a Doc of a question, its context and its answers.
"""

from .texts.corpus import make_question

__all__ = ["make_question"]
