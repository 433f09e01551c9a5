"""Models for two texts: ESIM labels them, BiDAF finds the answer to a question."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Optional, TypeAlias

from spacy.tokens import Doc
from thinc.api import Model
from thinc.types import Floats2d

from ...embedding.segmenters import Windows
from ...registry import registry
from ..shared import Tok2Vec, check_even, check_rate, check_sizes
from ..shared.text_layer import TextLayer, classify, create_module, init_classifier, run_texts
from ..shared.torch_module import make_module
from . import ENTAILMENT, QUESTION, read_halves

MODULES = "spacy_elmo.tasks.texts.modules"
Scores = list[Floats2d]
AnswerModel: TypeAlias = Model[list[Doc], Scores]


@registry.architectures("spacy-elmo.ESIM.v1")
def build_esim(
    tok2vec: Tok2Vec,
    output_tok2vec: Optional[Tok2Vec] = None,
    groups: Sequence[str] = list(ENTAILMENT),
    width: int = 200,
    dropout: float = 0.5,
    max_batch_tokens: int = 4096,
) -> Model[list[Doc], Floats2d]:
    """Build ESIM, which predicts one label for a pair of texts in a Doc (Chen et al. 2017).

    It has a biLSTM over each text, attention in both directions, a second biLSTM, and mean and
    max pooling. The paper's width is 600.

    tok2vec (Model[List[Doc], List[Floats2d]]): Vectors of the tokens, the input.
    output_tok2vec (Optional[Model[List[Doc], List[Floats2d]]]): Vectors that are concatenated with
        the output of the first biLSTM, such as a second listener.
    groups (Sequence[str]): The keys of the span groups of the two texts.
    width (int): Width of the layers, half of it for each direction of an LSTM.
    dropout (float): Dropout rate of the input of each layer.
    max_batch_tokens (int): Maximum number of tokens in a batch, including padding. A batch of one
        pair may have more.
    RETURNS (Model[List[Doc], Floats2d]): The probabilities of the labels, `(n_docs, n_labels)`.
        The backward pass takes the gradient of the logits.
    RAISES (ValueError): A value is out of range.
    """
    _check("ESIM", groups, width, dropout, max_batch_tokens)
    build = partial(make_module, f"{MODULES}:ESIM", width=width, dropout=dropout)
    attrs: dict[str, Any] = {"groups": list(groups), "max_batch_tokens": max_batch_tokens}
    layers = (tok2vec, output_tok2vec)
    return TextLayer("elmo_esim", forward_esim, init_classifier, build, *layers, **attrs)


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
    """Build a model that finds the first and last token of an answer (Clark and Gardner 2017).

    It has biGRUs, attention between question and context in both directions, and self-attention of
    the context. The paper's width with ELMo is 180.

    The memory for attention grows with the square of the context's length. So the model reads long
    contexts in windows. The answer is the span with the highest score of all windows.

    tok2vec (Model[List[Doc], List[Floats2d]]): Vectors of the tokens, the input.
    output_tok2vec (Optional[Model[List[Doc], List[Floats2d]]]): Vectors that are concatenated with
        the output of the first biGRU, such as a second listener.
    groups (Sequence[str]): The keys of the span groups of question and context.
    width (int): Width of the layers, half of it for each direction of a GRU.
    dropout (float): Dropout rate of the input of each layer.
    window (int): Maximum number of tokens of a window of the context.
    overlap (int): Number of tokens that a window shares with the next.
    max_batch_tokens (int): Maximum number of tokens in a batch, including padding. A batch of one
        window and its question may have more.
    RETURNS (Model[List[Doc], List[Floats2d]]): For each token of the context, the logits that it is
        the first and the last token of the answer. *Shape:* `(n_context_tokens, 2)` per Doc
    RAISES (ValueError): A value is out of range.
    """
    _check("BiDAFSelfAttention", groups, width, dropout, max_batch_tokens)
    Windows(window, overlap)  # Check the values early.
    build = partial(make_module, f"{MODULES}:BiDAFSelfAttention", width=width, dropout=dropout)
    return TextLayer(
        "elmo_bidaf",
        forward_bidaf,
        create_module,
        build,
        tok2vec,
        output_tok2vec,
        nO=2,
        groups=list(groups),
        window=window,
        overlap=overlap,
        max_batch_tokens=max_batch_tokens,
    )


def _check(name: str, groups: Sequence[str], width: int, dropout: float, max_tokens: int) -> None:
    if len(set(groups)) != 2 or len(groups) != 2:
        raise ValueError(f"{name}: groups must be two different names, got {list(groups)}")
    check_even(name, width)
    check_rate(name, dropout)
    check_sizes(name, max_batch_tokens=max_tokens)


def forward_esim(model: Model, docs: list[Doc], is_train: bool) -> tuple[Floats2d, Callable]:
    """Compute the probabilities of the labels of each pair of texts, `(n_docs, n_labels)`."""
    items = [(i, read_halves(doc, model.attrs["groups"])) for i, doc in enumerate(docs)]
    return classify(model, docs, items, is_train, model.ops.softmax)


def forward_bidaf(model: AnswerModel, docs: list[Doc], is_train: bool) -> tuple[Scores, Callable]:
    """Compute the logits of contexts. A token in two windows gets the logits of only one window."""
    cut = Windows(model.attrs["window"], model.attrs["overlap"])
    halves = [read_halves(doc, model.attrs["groups"]) for doc in docs]
    items = []
    # Tokens that a window keeps: slice of the window, index of the Doc, slice of the context.
    kept = []
    for i, (question, context) in enumerate(halves):
        for start, end, keep_start, keep_end in cut.between(context.start, context.stop):
            items.append((i, (question, slice(start, end))))
            inside = slice(keep_start - start, keep_end - start)
            kept.append((inside, i, slice(keep_start - context.start, keep_end - context.start)))
    found, backprop_texts = run_texts(model, docs, items, is_train)
    scores = [model.ops.alloc2f(context.stop - context.start, 2) for _, context in halves]
    for values, (inside, i, tokens) in zip(found, kept):
        scores[i][tokens] = values[inside]

    def backprop(d_scores: Scores) -> list[Doc]:
        gradients = [model.ops.xp.zeros_like(values) for values in found]
        for gradient, (inside, i, tokens) in zip(gradients, kept):
            gradient[inside] = d_scores[i][tokens]
        return backprop_texts(gradients)

    return scores, backprop
