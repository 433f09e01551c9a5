"""ELMo beside other vectors: `[x ; ELMo]` at the input of a task's encoder,
`[h ; ELMo]` at its output (Peters et al. 2018, section 3.3)."""

from collections.abc import Callable
from typing import Optional, TypeAlias

from spacy.tokens import Doc
from thinc.api import Maxout, Model, chain, with_array
from thinc.types import Floats2d

Vectors = list[Floats2d]
Tok2Vec: TypeAlias = Model[list[Doc], Vectors]


def ConcatTok2Vec(first: Tok2Vec, second: Tok2Vec) -> Tok2Vec:
    """Concatenate two token representations of the same Docs; empty Docs are fine."""
    return Model(
        "elmo_concat",
        forward,
        init=init,
        dims={"nO": first.get_dim("nO") + second.get_dim("nO")},
        layers=[first, second],
    )


def forward(model: Tok2Vec, docs: list[Doc], is_train: bool) -> tuple[Vectors, Callable]:
    (first, bp_first), (second, bp_second) = (layer(docs, is_train) for layer in model.layers)
    width = model.layers[0].get_dim("nO")
    xp = model.ops.xp
    outputs = [xp.concatenate([one, two], axis=1) for one, two in zip(first, second)]

    def backprop(d_outputs: Vectors) -> list[Doc]:
        bp_first([model.ops.xp.ascontiguousarray(d[:, :width]) for d in d_outputs])
        bp_second([model.ops.xp.ascontiguousarray(d[:, width:]) for d in d_outputs])
        return []

    return outputs, backprop


def init(model: Tok2Vec, X: Optional[list[Doc]] = None, Y: Optional[Vectors] = None) -> None:
    for layer in model.layers:
        layer.initialize(X=X)


def MixedConcat(first: Tok2Vec, second: Tok2Vec, *, width: int, maxout_pieces: int) -> Tok2Vec:
    """`ConcatTok2Vec`, brought to a width by a maxout layer with layer norm, as in
    spaCy's MultiHashEmbed."""
    concat = ConcatTok2Vec(first, second)
    maxout: Model[Floats2d, Floats2d] = Maxout(
        nO=width, nI=concat.get_dim("nO"), nP=maxout_pieces, dropout=0.0, normalize=True
    )
    return chain(concat, with_array(maxout))
