"""Layers that concatenate ELMo with other vectors.

A task's encoder gets `[x ; ELMo]` at its input, or `[h ; ELMo]` at its output (Peters et al. 2018,
section 3.3).
"""

from collections.abc import Callable
from typing import Optional, TypeAlias

from spacy.tokens import Doc
from thinc.api import Maxout, Model, chain, with_array
from thinc.types import Floats2d

Vectors = list[Floats2d]
Tok2Vec: TypeAlias = Model[list[Doc], Vectors]


def ConcatTok2Vec(first: Tok2Vec, second: Tok2Vec) -> Tok2Vec:
    """Make a layer that concatenates each token's vectors from two tok2vec layers."""
    dims = {"nO": _sum_of_widths(first, second)}
    return Model("elmo_concat", forward, init=init, dims=dims, layers=[first, second])


def forward(model: Tok2Vec, docs: list[Doc], is_train: bool) -> tuple[Vectors, Callable]:
    """Run both layers, and concatenate the two vectors of each token."""
    (first, bp_first), (second, bp_second) = (layer(docs, is_train) for layer in model.layers)
    xp = model.ops.xp
    outputs = [xp.concatenate([one, two], axis=1) for one, two in zip(first, second)]

    def backprop(d_outputs: Vectors) -> list[Doc]:
        widths = [one.shape[1] for one in first]
        bp_first([xp.ascontiguousarray(d[:, :n]) for d, n in zip(d_outputs, widths)])
        bp_second([xp.ascontiguousarray(d[:, n:]) for d, n in zip(d_outputs, widths)])
        return []

    return outputs, backprop


def init(model: Tok2Vec, X: Optional[list[Doc]] = None, Y: Optional[Vectors] = None) -> None:
    """Initialize both layers, and set the width to the sum of their widths."""
    for layer in model.layers:
        layer.initialize(X=X)
    width = _sum_of_widths(*model.layers)
    if width is None and X:
        width = model.predict(X)[0].shape[1]
    if width is not None:
        model.set_dim("nO", width)


def _sum_of_widths(first: Tok2Vec, second: Tok2Vec) -> Optional[int]:
    """Return the sum of the widths; None if a layer has no width before its initialization."""
    widths = [layer.maybe_get_dim("nO") for layer in (first, second)]
    return None if None in widths else sum(widths)


def MixedConcat(first: Tok2Vec, second: Tok2Vec, *, width: int, maxout_pieces: int) -> Tok2Vec:
    """Make a layer that concatenates each token's vectors from two tok2vec layers, then mixes them.

    For this, a maxout layer with layer norm maps them to `width`, as in spaCy's MultiHashEmbed.
    """
    concat = ConcatTok2Vec(first, second)
    maxout: Model[Floats2d, Floats2d] = Maxout(
        nO=width, nI=concat.maybe_get_dim("nO"), nP=maxout_pieces, dropout=0.0, normalize=True
    )
    mixed: Tok2Vec = chain(concat, with_array(maxout))
    mixed.set_dim("nO", width)
    return mixed
