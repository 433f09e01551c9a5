"""Public functions for Docs of two texts; the code is in `texts`."""

from .texts import ENTAILMENT, QUESTION, copy_pair, make_pair

__all__ = ["ENTAILMENT", "QUESTION", "copy_pair", "make_pair"]
