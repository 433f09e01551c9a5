"""Question answering by attention, as an architecture."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Optional, TypeAlias

from spacy.tokens import Doc
from thinc.api import Model
from thinc.types import Floats2d

from ..embedding.segmenters import Windows
from ..registry import registry
from .esim import check_sizes
from .pair_layer import Pair, PairLayer, Tok2Vec, init_pairs, run_pairs
from .pairs import QUESTION, read_halves

if TYPE_CHECKING:
    from torch.nn import Module

Scores = list[Floats2d]
AnswerModel: TypeAlias = Model[list[Doc], Scores]


@registry.architectures("spacy-elmo.BiDAFSelfAttention.v1")
def build_bidaf(
    tok2vec: Tok2Vec,
    output_tok2vec: Optional[Tok2Vec] = None,
    groups: Sequence[str] = list(QUESTION),
    width: int = 100,
    dropout: float = 0.2,
    window: int = 600,
    overlap: int = 200,
    max_batch_tokens: int = 4096,
) -> AnswerModel:
    """Where the answer to a question begins and ends (Clark and Gardner 2017): biGRUs, attention
    between question and context both ways, and of the context to itself. The paper's width
    with ELMo is 180. The memory of attention grows with the square of the context's length: a
    long context is read in windows, whose scores compete with each other.

    tok2vec (Model[List[Doc], List[Floats2d]]): Vectors of the tokens at the input.
    output_tok2vec (Optional[Model[List[Doc], List[Floats2d]]]): Vectors beside the output of
        the first biGRU, a second listener for example.
    groups (Sequence[str]): The names of the span groups of question and context.
    width (int): Width of the layers, half of it for each direction of a GRU.
    dropout (float): Rate at the input of each layer.
    window (int): Most tokens of a context that are read at once.
    overlap (int): Tokens that a window shares with the next.
    max_batch_tokens (int): Most tokens that the layers read at a time, padding included, or one
        window with its question.
    RETURNS (Model[List[Doc], List[Floats2d]]): The scores of each token of the context as first
        and as last token of the answer, before the softmax over all of them:
        `(n_context_tokens, 2)` a Doc.
    RAISES (ValueError): A value is impossible.
    """
    check_sizes("BiDAFSelfAttention", groups, width, dropout, max_batch_tokens)
    Windows(window, overlap)  # it checks them
    return PairLayer(
        "elmo_bidaf",
        forward,
        init,
        partial(build_module, width=width, dropout=dropout),
        tok2vec,
        output_tok2vec,
        nO=2,
        groups=list(groups),
        window=window,
        overlap=overlap,
        max_batch_tokens=max_batch_tokens,
    )


def build_module(**sizes: Any) -> "Module":
    """RETURNS (Module): The PyTorch module; PyTorch is imported now."""
    from .bidaf_module import BiDAFSelfAttention

    return BiDAFSelfAttention(**sizes)


def forward(model: AnswerModel, docs: list[Doc], is_train: bool) -> tuple[Scores, Callable]:
    cut = Windows(model.attrs["window"], model.attrs["overlap"])
    halves = [read_halves(doc, model.attrs["groups"]) for doc in docs]
    places = [
        (i, segment)
        for i, (_, context) in enumerate(halves)
        for segment in cut.between(context.start, context.stop)
    ]
    pairs = [Pair(i, halves[i].first, slice(*segment[:2])) for i, segment in places]
    found, backprop_pairs = run_pairs(model, docs, pairs, is_train)
    scores = [model.ops.alloc2f(context.stop - context.start, 2) for _, context in halves]
    # Of each window what it keeps: within the window, and within the context.
    kept = []
    for i, segment in places:
        inside = slice(segment.keep_start - segment.start, segment.keep_end - segment.start)
        start = halves[i].second.start
        kept.append((inside, i, slice(segment.keep_start - start, segment.keep_end - start)))
    for values, (inside, i, tokens) in zip(found, kept):
        scores[i][tokens] = values[inside]

    def backprop(d_scores: Scores) -> list[Doc]:
        gradients = []
        for values, (inside, i, tokens) in zip(found, kept):
            gradients.append(model.ops.xp.zeros_like(values))
            gradients[-1][inside] = d_scores[i][tokens]
        return backprop_pairs(gradients)

    return scores, backprop


def init(model: AnswerModel, X: Optional[list[Doc]] = None, Y: object = None) -> None:
    init_pairs(model, X)
