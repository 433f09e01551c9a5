"""Model of `elmo_crf`: scores of tags, and scores of transitions between tags."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Optional, TypeAlias

from spacy.tokens import Doc
from thinc.api import Dropout, Linear, Model, chain, with_array
from thinc.types import Floats1d, Floats2d

from ...registry import registry
from ..shared import Tok2Vec

CRF_PARAMS = ("transitions", "start", "end")


@dataclass(frozen=True)
class Chains:
    """Scores of a CRF for the tokens of several Docs, or the gradient of such scores.

    The score of a sequence of tags `y` for a Doc is
    `start[y_1] + sum_t scores[t, y_t] + sum_t transitions[y_t-1, y_t] + end[y_n]`.

    scores (Sequence[Floats2d]): Scores of tags at tokens. *Shape:* `(n_tokens, n_tags)` each
    transitions (Floats2d): Scores from each tag to each tag. *Shape:* `(n_tags, n_tags)`
    start (Floats1d): Scores of tags at the first token. *Shape:* `(n_tags,)`
    end (Floats1d): Scores of tags at the last token. *Shape:* `(n_tags,)`
    """

    scores: Sequence[Floats2d]
    transitions: Floats2d
    start: Floats1d
    end: Floats1d


CRF: TypeAlias = Model[list[Doc], Chains]


@registry.architectures("spacy-elmo.CRFTagger.v1")
def build_crf_tagger(tok2vec: Tok2Vec, nO: Optional[int] = None) -> CRF:
    """Build a model that computes the scores of a linear-chain CRF (Lafferty et al. 2001).

    A linear layer scores the tags of each token. The scores of transitions are parameters. This is
    the named entity model of Peters et al. 2018 (appendix). The vectors get dropout with the rate
    `dropout` of the training config.

    tok2vec (Model[List[Doc], List[Floats2d]]): The vectors, for example a `spacy.Tok2Vec.v2` with a
        recurrent encoder.
    nO (Optional[int]): Number of tags. The pipe sets it.
    """
    output: Model[Floats2d, Floats2d] = Linear(nO=nO)
    scores: Tok2Vec = chain(tok2vec, with_array(chain(Dropout(), output)))
    dims, params = {"nO": nO}, dict.fromkeys(CRF_PARAMS)
    layers, refs = [scores], {"tok2vec": tok2vec, "output": output}
    return Model("elmo_crf", forward, init=init, dims=dims, params=params, layers=layers, refs=refs)


def forward(model: CRF, docs: list[Doc], is_train: bool) -> tuple[Chains, Callable]:
    """Compute the scores of the tags of each token. Return them with the transition scores."""
    scores, backprop_scores = model.layers[0](docs, is_train)

    def backprop(gradient: Chains) -> list[Doc]:
        for name in CRF_PARAMS:
            model.inc_grad(name, model.ops.asarray(getattr(gradient, name), dtype="float32"))
        return backprop_scores([model.ops.asarray2f(values) for values in gradient.scores])

    return Chains(scores, *(model.get_param(name) for name in CRF_PARAMS)), backprop


def init(model: CRF, X: Optional[list[Doc]] = None, Y: object = None) -> None:
    """Initialize the layers, and set the scores of transitions, starts and ends to 0."""
    nO = model.get_dim("nO")
    model.get_ref("output").set_dim("nO", nO)
    model.layers[0].initialize(X=X)
    for name in CRF_PARAMS:
        model.set_param(name, model.ops.alloc((nO, nO) if name == "transitions" else (nO,)))
