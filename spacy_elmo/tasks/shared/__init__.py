"""Types, and checks of settings, that several wings use."""

from typing import TypeAlias

from spacy.tokens import Doc
from thinc.api import Model
from thinc.types import Floats2d

Vectors: TypeAlias = list[Floats2d]
Tok2Vec: TypeAlias = Model[list[Doc], Vectors]
Encoder: TypeAlias = Model[Vectors, Vectors]


def check_sizes(name: str, **sizes: float) -> None:
    """RAISES (ValueError): A size of a layer or component is below 1."""
    for key, size in sizes.items():
        if size < 1:
            raise ValueError(f"{name}: {key} must be at least 1, got {size}")


def check_rate(name: str, dropout: float) -> None:
    """RAISES (ValueError): A dropout rate is below 0, or 1 and more."""
    if not 0.0 <= dropout < 1.0:
        raise ValueError(f"{name}: dropout must be at least 0 and below 1, got {dropout}")
