"""Documented import path of the functions in `texts` that make and copy Docs of two texts."""

from .texts import ENTAILMENT, QUESTION, copy_pair, make_pair

__all__ = ["ENTAILMENT", "QUESTION", "copy_pair", "make_pair"]
