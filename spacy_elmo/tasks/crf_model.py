"""The model of `elmo_crf`: scores of tags for a linear-chain CRF."""

from collections.abc import Callable
from typing import Optional, TypeAlias

from spacy.tokens import Doc
from thinc.api import Dropout, Linear, Model, chain, with_array
from thinc.types import Floats2d

from ..registry import registry
from .linear_chain import PARAMS, Chains

Tok2Vec: TypeAlias = Model[list[Doc], list[Floats2d]]
CRF: TypeAlias = Model[list[Doc], Chains]


@registry.architectures("spacy-elmo.CRFTagger.v1")
def build_crf_tagger(tok2vec: Tok2Vec, nO: Optional[int] = None) -> CRF:
    """Scores of a linear-chain CRF (Lafferty et al. 2001): at each token a linear layer over
    its vector, and learned scores of the transitions from tag to tag, as in the model of named
    entities of Peters et al. 2018 (appendix). The dropout rate of the training applies to the
    vectors.

    tok2vec (Model[List[Doc], List[Floats2d]]): The vectors, such as those of a
        `spacy.Tok2Vec.v2` with a recurrent encoder.
    nO (Optional[int]): Number of tags; the pipe sets it.
    RETURNS (Model[List[Doc], Chains]): The scores.
    """
    output: Model[Floats2d, Floats2d] = Linear(nO=nO)
    scores: Tok2Vec = chain(tok2vec, with_array(chain(Dropout(), output)))
    return Model(
        "elmo_crf",
        forward,
        init=init,
        dims={"nO": nO},
        params=dict.fromkeys(PARAMS),
        layers=[scores],
        refs={"tok2vec": tok2vec, "output": output},
    )


def forward(model: CRF, docs: list[Doc], is_train: bool) -> tuple[Chains, Callable]:
    scores, backprop_scores = model.layers[0](docs, is_train)

    def backprop(gradient: Chains) -> list[Doc]:
        for name in PARAMS:
            model.inc_grad(name, model.ops.asarray(getattr(gradient, name), dtype="float32"))
        d_scores = [model.ops.asarray2f(values) for values in gradient.scores]
        result: list[Doc] = backprop_scores(d_scores)
        return result

    return Chains(scores, *(model.get_param(name) for name in PARAMS)), backprop


def init(model: CRF, X: Optional[list[Doc]] = None, Y: object = None) -> None:
    nO = model.get_dim("nO")
    model.get_ref("output").set_dim("nO", nO)
    model.layers[0].initialize(X=X)
    for name in PARAMS:
        model.set_param(name, model.ops.alloc((nO, nO) if name == "transitions" else (nO,)))
