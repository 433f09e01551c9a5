"""Encoders for any tok2vec: bidirectional LSTM or GRU layers, and TagLM."""

from collections.abc import Callable
from functools import partial
from typing import Optional

from thinc.api import Model, chain
from thinc.util import get_width

from ...layers.concat import ConcatTok2Vec
from ...layers.scalar_mix import set_place
from ...registry import registry
from . import Encoder, Tok2Vec, Vectors, check_even, check_rate, check_sizes
from .torch_module import ModuleShim, get_module_shim, make_module, run_module

RNN_CELLS = ("lstm", "gru")


@registry.architectures("spacy-elmo.BiRNN.v1")
def build_birnn(width: int, depth: int = 1, cell: str = "lstm", dropout: float = 0.0) -> Encoder:
    """Build bidirectional recurrent layers, for `encode` of `spacy.Tok2Vec.v2`.

    Unlike `spacy.TorchBiLSTMEncoder.v1`, they accept vectors of any width.

    width (int): Width of the output, half of it from each direction.
    depth (int): Number of layers.
    cell (str): "lstm" or "gru".
    dropout (float): Dropout rate of each layer's input. All tokens of a sequence have the same mask
        (Gal and Ghahramani 2016).
    RETURNS (Model[List[Floats2d], List[Floats2d]]): *Shape:* `(n_tokens, width)` per sequence
    RAISES (ValueError): A value is out of range.
    """
    if cell not in RNN_CELLS:
        raise ValueError(f"BiRNN: cell must be one of {RNN_CELLS}, got {cell!r}")
    check_even("BiRNN", width)
    check_sizes("BiRNN", depth=depth)
    check_rate("BiRNN", dropout)
    build = partial(make_module, f"{__package__}.recurrent:DroppedRNN", cell=cell, dropout=dropout)
    dims = {"nO": width, "nI": None}
    make_layer = partial(Model, "birnn", forward, init=init, dims=dims)
    layers: list[Encoder] = [make_layer(shims=[ModuleShim(build)]) for _ in range(depth)]
    return layers[0] if depth == 1 else chain(*layers)


def forward(model: Encoder, X: Vectors, is_train: bool) -> tuple[Vectors, Callable]:
    """Run one bidirectional recurrent layer on each sequence of vectors."""
    if not X:
        return [], lambda dY: []
    return run_module(model, X, is_train, lambda module, vectors: module(vectors))


def init(model: Encoder, X: Optional[Vectors] = None, Y: Optional[Vectors] = None) -> None:
    """Create the PyTorch module for input of the width of X."""
    if X is not None and model.has_dim("nI") is None:
        model.set_dim("nI", get_width(X))
    get_module_shim(model).create(nI=model.get_dim("nI"), nO=model.get_dim("nO"))


@registry.architectures("spacy-elmo.TagLMEncoder.v1")
def build_taglm_encoder(
    embed: Tok2Vec, elmo: Tok2Vec, width: int, cell: str = "lstm", dropout: float = 0.0
) -> Tok2Vec:
    """Build the encoder of TagLM, ELMo's predecessor (Peters et al. 2017, section 2.2).

    It has two bidirectional recurrent layers. The input of the second is `[h_1 ; LM]`: the output
    of the first, and the vectors of a frozen language model. The paper uses the top layer of the
    language model, without a learned mix. To do the same, give the listener a
    `spacy-elmo.ScalarMix.v1` with `initial = [0.0, 0.0, 1.0]` and `trainable = false`.

    embed (Model[List[Doc], List[Floats2d]]): The task's own embeddings.
    elmo (Model[List[Doc], List[Floats2d]]): The language model: a listener, or a Tok2VecElmo.
    width (int): Width of each layer's output, half of it from each direction.
    cell (str): "lstm" or "gru".
    dropout (float): Dropout rate of each layer's input.
    RETURNS (Model[List[Doc], List[Floats2d]]): *Shape:* `(n_tokens, width)` per Doc
    RAISES (ValueError): A value is out of range.
    """
    set_place(elmo, "output")
    first, second = (build_birnn(width, cell=cell, dropout=dropout) for _ in range(2))
    taglm: Tok2Vec = chain(ConcatTok2Vec(chain(embed, first), elmo), second)
    taglm.set_dim("nO", width)
    return taglm
