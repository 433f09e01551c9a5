"""A language model with a mix of its layers, inside one component."""

from typing import TypeAlias

from spacy.tokens import Doc
from thinc.api import Model, chain
from thinc.types import Floats2d, Floats3d

Layers = list[Floats3d]
Tok2Vec: TypeAlias = Model[list[Doc], list[Floats2d]]
Mix: TypeAlias = Model[Layers, list[Floats2d]]


def join_tok2vec(bilm: Model[list[Doc], Layers], mix: Mix) -> Tok2Vec:
    """RETURNS (Model[List[Doc], List[Floats2d]]): A language model and its mix."""
    tok2vec: Tok2Vec = chain(bilm, mix)
    tok2vec.set_dim("nO", bilm.get_dim("nO"))
    return tok2vec
