"""Two sentences, token by token."""

from collections.abc import Sequence
from typing import Any

from thinc.types import Floats3d

from ..analysis.sample import unit_vectors
from .packing import pack_fractions


def heat_section(
    tokens: tuple[Sequence[str], Sequence[str]],
    vectors: tuple[Floats3d, Floats3d],
    names: Sequence[str],
) -> dict[str, Any]:
    """Make the part of a page that shows the cosines of two sentences' tokens.

    tokens (Tuple[Sequence[str], Sequence[str]]): The sentences.
    vectors (Tuple[Floats3d, Floats3d]): Their vectors in each view: the layers and the
        mix. *Shape:* `(n_views, n_tokens, width)`
    names (Sequence[str]): The names of the views.
    RETURNS (dict): The section, for `make_page`.
    """
    cosines = [
        unit_vectors(one) @ unit_vectors(other).T for one, other in zip(*vectors, strict=True)
    ]
    return {
        "type": "heat",
        "views": list(names),
        "rows": list(tokens[0]),
        "columns": list(tokens[1]),
        "cosines": [pack_fractions(matrix) for matrix in cosines],
    }
