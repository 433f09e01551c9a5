"""ESIM, a model of two texts, as an architecture."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Optional

from spacy.tokens import Doc
from thinc.api import Model
from thinc.types import Floats2d

from ..registry import registry
from .pair_layer import Pair, PairLayer, Tok2Vec, init_pairs, run_pairs
from .pairs import ENTAILMENT, read_halves

if TYPE_CHECKING:
    from torch.nn import Module


@registry.architectures("spacy-elmo.ESIM.v1")
def build_esim(
    tok2vec: Tok2Vec,
    output_tok2vec: Optional[Tok2Vec] = None,
    groups: Sequence[str] = list(ENTAILMENT),
    width: int = 200,
    dropout: float = 0.5,
    max_batch_tokens: int = 4096,
) -> Model[list[Doc], Floats2d]:
    """The label of two texts (Chen et al. 2017): a biLSTM over both, attention both ways, a
    second biLSTM, and their means and maxima. The paper's width is 600.

    tok2vec (Model[List[Doc], List[Floats2d]]): Vectors of the tokens at the input.
    output_tok2vec (Optional[Model[List[Doc], List[Floats2d]]]): Vectors beside the output of
        the first biLSTM, a second listener for example.
    groups (Sequence[str]): The names of the span groups that say where the two texts stand.
    width (int): Width of the layers, half of it for each direction of an LSTM.
    dropout (float): Rate at the input of each layer.
    max_batch_tokens (int): Most tokens that the layers read at a time, padding included, unless one
        pair has more.
    RETURNS (Model[List[Doc], Floats2d]): The probabilities of the labels,
        `(n_docs, n_labels)`; the backward pass takes the gradient of the logits.
    RAISES (ValueError): A value is impossible.
    """
    check_sizes("ESIM", groups, width, dropout, max_batch_tokens)
    return PairLayer(
        "elmo_esim",
        forward,
        init,
        partial(build_module, width=width, dropout=dropout),
        tok2vec,
        output_tok2vec,
        groups=list(groups),
        max_batch_tokens=max_batch_tokens,
    )


def check_sizes(
    name: str, groups: Sequence[str], width: int, dropout: float, max_batch_tokens: int
) -> None:
    """RAISES (ValueError): A setting of an architecture is impossible."""
    if len(set(groups)) != 2 or len(groups) != 2:
        raise ValueError(f"{name}: groups must be two different names, got {list(groups)}")
    if width < 2 or width % 2:
        raise ValueError(f"{name}: width must be an even number from 2 on, got {width}")
    if not 0.0 <= dropout < 1.0:
        raise ValueError(f"{name}: dropout must be at least 0 and below 1, got {dropout}")
    if max_batch_tokens < 1:
        raise ValueError(f"{name}: max_batch_tokens must be at least 1, got {max_batch_tokens}")


def build_module(**sizes: Any) -> "Module":
    """RETURNS (Module): The PyTorch module; PyTorch is imported now."""
    from .esim_module import ESIM

    return ESIM(**sizes)


def forward(
    model: Model[list[Doc], Floats2d], docs: list[Doc], is_train: bool
) -> tuple[Floats2d, Callable]:
    halves = [read_halves(doc, model.attrs["groups"]) for doc in docs]
    if not docs:
        return model.ops.alloc2f(0, model.get_dim("nO")), lambda d_scores: []
    pairs = [Pair(i, *both) for i, both in enumerate(halves)]
    logits, backprop = run_pairs(model, docs, pairs, is_train)
    return model.ops.softmax(model.ops.xp.stack(logits)), backprop


def init(
    model: Model[list[Doc], Floats2d],
    X: Optional[list[Doc]] = None,
    Y: Optional[Floats2d] = None,
) -> None:
    if Y is not None and model.has_dim("nO") is None:
        model.set_dim("nO", Y.shape[1])
    init_pairs(model, X, nO=model.get_dim("nO"))
