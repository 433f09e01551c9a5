"""TagLM: a language model's vectors after the first layer of a task's encoder."""

from typing import TypeAlias

from spacy.tokens import Doc
from thinc.api import Model, chain
from thinc.types import Floats2d

from ..layers.concat import ConcatTok2Vec
from ..layers.scalar_mix import set_place
from ..registry import registry
from .birnn import build_birnn

Tok2Vec: TypeAlias = Model[list[Doc], list[Floats2d]]


@registry.architectures("spacy-elmo.TagLMEncoder.v1")
def build_taglm_encoder(
    embed: Tok2Vec, elmo: Tok2Vec, width: int, cell: str = "lstm", dropout: float = 0.0
) -> Tok2Vec:
    """The encoder of TagLM (Peters et al. 2017, section 2.2), ELMo's predecessor: the vectors
    of a frozen language model join the output of the first of two bidirectional recurrent
    layers, `[h_1 ; LM]`. There it is the language model's top layer, without a learned mix:
    give the listener a `spacy-elmo.ScalarMix.v1` with `initial = [0.0, 0.0, 1.0]` and
    `trainable = false`.

    embed (Model[List[Doc], List[Floats2d]]): The task's own embeddings.
    elmo (Model[List[Doc], List[Floats2d]]): A listener, or a Tok2VecElmo.
    width (int): Width of each layer's output, half of it from each direction.
    cell (str): "lstm" or "gru".
    dropout (float): Rate on the input of each layer in training.
    RETURNS (Model[List[Doc], List[Floats2d]]): `(n_tokens, width)` a Doc.
    RAISES (ValueError): A value is impossible.
    """
    set_place(elmo, "output")
    first, second = (build_birnn(width, cell=cell, dropout=dropout) for _ in range(2))
    taglm: Tok2Vec = chain(ConcatTok2Vec(chain(embed, first), elmo), second)
    taglm.set_dim("nO", width)
    return taglm
