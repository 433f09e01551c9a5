"""The parts of a page that a language model computes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from spacy.language import Language
from thinc.types import Floats3d

from ..analysis.corpora import sentence_doc
from ..analysis.occurrences import Drawn, occurrence_layers
from ..embedding.vectors import mix_layers
from ..pipeline.elmo import Elmo
from ..pipeline.load import elmo_pipe
from .heat import heat_section
from .senses import senses_section


def make_senses(
    nlp: Language, drawn: Sequence[Drawn], *, projection: str = "pca", seed: int = 0
) -> dict[str, Any]:
    """Show the occurrences of words in a corpus.

    nlp (Language): A pipeline with a pipe `elmo`.
    drawn (Sequence[Drawn]): The occurrences.
    projection, seed: As `senses_section` takes them.
    RETURNS (dict): The section, for `make_page`.
    """
    pipe = elmo_pipe(nlp)
    layers = (occurrence_layers(pipe, one.occurrences, name=one.word) for one in drawn)
    vectors = [_with_mix(pipe, each) for each in layers]
    return senses_section(drawn, vectors, _names(pipe), projection=projection, seed=seed)


def make_heat(nlp: Language, one: Sequence[str], other: Sequence[str]) -> dict[str, Any]:
    """Compare two sentences token by token.

    nlp (Language): A pipeline with a pipe `elmo`.
    one (Sequence[str]): Tokens.
    other (Sequence[str]): Tokens.
    RETURNS (dict): The section, for `make_page`.
    RAISES (ValueError): A sentence has no token.
    """
    if not one or not other:
        raise ValueError("a sentence to compare has no token")
    pipe = elmo_pipe(nlp)
    layers = pipe.predict([sentence_doc(nlp.vocab, tokens) for tokens in (one, other)])
    first, second = (_with_mix(pipe, each) for each in layers)
    return heat_section((one, other), (first, second), _names(pipe))


def layer_names(n: int) -> list[str]:
    """RETURNS (List[str]): What n layers are called."""
    return [f"layer {number}" for number in range(n)]


def _names(pipe: Elmo) -> list[str]:
    mix = pipe.settings.mix
    name = mix if isinstance(mix, str) else f"layer {mix}" if isinstance(mix, int) else None
    return [*layer_names(pipe.bilm.config.n_layers + 1), f"mix ({name})" if name else "mix"]


def _with_mix(pipe: Elmo, layers: Floats3d) -> Floats3d:
    """*Shape:* `(L + 2, n, 2P)`"""
    views: Floats3d = np.concatenate([layers, mix_layers(layers, pipe.settings.mix)[None]])
    return views
