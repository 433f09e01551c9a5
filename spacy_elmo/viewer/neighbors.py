"""The nearest tokens to one in a sentence."""

from collections.abc import Sequence
from typing import Any

from ..analysis.neighbors import Neighbor
from ..analysis.sample import describe_input
from .senses import CONTEXT

NOTICE = "There is no other token of this kind."


def neighbors_section(
    sentence: Sequence[str], position: int, found: Sequence[Neighbor], *, layer: str
) -> dict[str, Any]:
    """Make the part of a page that shows the nearest tokens to one.

    sentence (Sequence[str]): The tokens of the sentence.
    position (int): The one that was asked for, counted from 0.
    found (Sequence[Neighbor]): What `find_neighbors` returned.
    layer (str): The layer that it was given.
    RETURNS (dict): The section, for `make_page`.
    """
    return {
        "type": "neighbors",
        "heading": f"Nearest by cosine, {describe_input(layer)}",
        **_parts(sentence, position),
        "lines": [
            {**_parts(one.sentence, one.position), "cosine": one.similarity} for one in found
        ],
        "notice": "" if found else NOTICE,
    }


def _parts(tokens: Sequence[str], position: int) -> dict[str, str]:
    """What is shown of a sentence: what precedes, the token, and what follows."""
    start, end = max(0, position - CONTEXT), position + CONTEXT + 1
    return {
        "before": " ".join([*(["…"] if start else []), *tokens[start:position]]),
        "itself": tokens[position],
        "after": " ".join([*tokens[position + 1 : end], *(["…"] if end < len(tokens) else [])]),
    }
