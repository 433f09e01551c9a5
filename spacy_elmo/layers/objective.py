"""Objective for `spacy pretrain`: predict the words before and after each token."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from spacy.attrs import ORTH
from spacy.tokens import Doc
from spacy.vocab import Vocab
from thinc.api import Linear, Model, Ops, zero_init
from thinc.types import Floats2d

from ..embedding.segmenters import cut_into_segments
from ..registry import registry
from .bilm import BiLMModel, get_shim
from .finite import check_loss

if TYPE_CHECKING:
    from ..bilm.model import BiLM
    from ..model.config import BiLMConfig

START_BUCKET, END_BUCKET, N_MARKS = 0, 1, 2
CHUNK_SCORES = 2**22  # Maximum number of scores in memory at a time.


@registry.architectures("spacy-elmo.PretrainBiLM.v1")
def build_pretrain_bilm(n_buckets: int = 10_000) -> Callable[[Vocab, BiLMModel], Model]:
    """Make an objective of `spacy pretrain` that trains the language model of an `elmo` pipe.

    The top layer of the forward LSTMs predicts the next word. The top layer of the backward LSTMs
    predicts the previous word. At the ends of a sequence, they predict the mark `</S>` or `<S>`.

    There is no vocabulary, because an objective gets no text before the first batch. Words are
    hashed into buckets, and some words share a bucket. So the loss is not the logarithm of a
    perplexity. To train and evaluate language models, use `spacy elmo pretrain`.

    The weights are trained even with `frozen = true`, which concerns only `spacy train`.

    n_buckets (int): Number of buckets, including one for each of the two marks.
    RETURNS (Callable[[Vocab, Model], Model]): A function from the pipe's model to the model that
        `spacy pretrain` trains.
    RAISES (ValueError): `n_buckets` leaves no bucket for words.
    """
    if n_buckets <= N_MARKS:
        raise ValueError(f"n_buckets must be more than {N_MARKS}, got {n_buckets}")
    return partial(_create, n_buckets)


@registry.weights_readers("spacy-elmo.untrained.v1")
def make_untrained(model: BiLMModel, seed: int = 0) -> "Callable[[], BiLM]":
    """Make a reader that returns random weights, so that `spacy pretrain` can start from them.

    Use it as `weights` of an `elmo` pipe. In the config, its block `model` must be a copy of the
    pipe's block `model`. If you use the same config in `spacy train`, the weights in
    `init_tok2vec` replace the random weights.

    model (Model[List[Doc], List[Floats3d]]): A BiLMLayer. Only its sizes are used.
    """
    return partial(_untrained, get_shim(model).config, seed)


def _untrained(config: "BiLMConfig", seed: int) -> "BiLM":
    import torch

    from ..bilm.model import BiLM

    # The random numbers of the rest of the training stay the same.
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return BiLM(config)


def _create(n_buckets: int, vocab: Vocab, tok2vec: BiLMModel) -> Model[list[Doc], Floats2d]:
    if tok2vec.name != "elmo_bilm":
        raise ValueError(
            f"spacy-elmo.PretrainBiLM.v1 trains the language model of an `elmo` pipe, not the "
            f"layer '{tok2vec.name}'. In [pretraining], set component to the name of the pipe, and "
            f'layer to "".'
        )
    shim = get_shim(tok2vec)
    shim.settings = replace(shim.settings, frozen=False)
    head: Model[Floats2d, Floats2d] = Linear(
        nO=n_buckets, nI=shim.bilm.config.projection_dim, init_W=zero_init
    )
    model: Model[list[Doc], Floats2d] = Model(
        "elmo_pretrain_bilm", forward, init=init, layers=[tok2vec, head]
    )
    model.set_ref("tok2vec", tok2vec)
    model.set_ref("output_layer", head)
    model.attrs["loss"] = partial(word_loss, model)
    return model


def init(model: Model, X: object = None, Y: object = None) -> None:
    """Initialize the output layer."""
    model.get_ref("output_layer").initialize()


def forward(
    model: Model[list[Doc], Floats2d], docs: Sequence[Doc], is_train: bool
) -> tuple[Floats2d, Callable]:
    """Return the top layer of all tokens: the forward half, then the backward half.

    *Shape:* `(2 n_tokens, P)`. `word_loss` computes the softmax, in chunks of rows.
    """
    layers, backprop_layers = model.get_ref("tok2vec")(list(docs), is_train)
    top = np.concatenate([values[-1] for values in layers])

    def backprop(d_contexts: Floats2d) -> list[Doc]:
        d_top = np.hstack(np.split(model.ops.to_numpy(d_contexts), 2))
        ends = np.cumsum([values.shape[1] for values in layers])[:-1]
        d_layers = [np.zeros_like(values) for values in layers]
        for d_values, part in zip(d_layers, np.split(d_top, ends)):
            d_values[-1] = part
        return backprop_layers(d_layers)

    return model.ops.asarray2f(np.concatenate(np.split(top, 2, axis=1))), backprop


def word_loss(
    model: Model[list[Doc], Floats2d], ops: Ops, docs: Sequence[Doc], contexts: Floats2d
) -> tuple[float, Floats2d]:
    """Compute the loss of a batch and its gradient. Also add to the output layer's gradients.

    RETURNS (Tuple[float, Floats2d]): The negative log-likelihood in nats, summed over tokens and
        averaged over both directions; and a gradient with respect to `contexts`, which is averaged
        over tokens, too.
    RAISES (ValueError): The loss is not finite.
    """
    head, xp = model.get_ref("output_layer"), ops.xp
    targets = ops.asarray(target_buckets(model, docs))
    d_contexts = xp.zeros_like(contexts)
    total = 0.0
    n_rows = max(1, CHUNK_SCORES // head.get_dim("nO"))
    for start in range(0, len(targets), n_rows):
        part = slice(start, start + n_rows)
        scores, backprop = head.begin_update(contexts[part])
        scores = scores - scores.max(axis=1, keepdims=True)
        scores -= xp.log(xp.exp(scores).sum(axis=1, keepdims=True))
        wanted = (xp.arange(len(scores)), targets[part])
        total -= float(scores[wanted].sum())
        d_scores = xp.exp(scores)
        d_scores[wanted] -= 1.0
        d_contexts[part] = backprop(d_scores / len(targets))
    check_loss(total, model.name)
    return total / 2, d_contexts


def target_buckets(model: Model[list[Doc], Floats2d], docs: Sequence[Doc]) -> np.ndarray:
    """Return the bucket that each row of the output of `build_pretrain_bilm`'s model predicts.

    RETURNS (numpy.ndarray): The bucket of the next word for each token, then the bucket of the
        previous word for each token. *Shape:* `(2 n_tokens,)`, int64
    """
    n_words = model.get_ref("output_layer").get_dim("nO") - N_MARKS
    segmenter = get_shim(model.get_ref("tok2vec")).settings.segmenter
    following, preceding = [np.zeros(0, "int64")], [np.zeros(0, "int64")]
    for doc in docs:
        buckets = (N_MARKS + doc.to_array(ORTH) % np.uint64(n_words)).astype("int64")
        for segment in cut_into_segments(doc, segmenter):
            words = buckets[segment.start : segment.end]
            kept = slice(segment.keep_start - segment.start, segment.keep_end - segment.start)
            following.append(np.append(words[1:], END_BUCKET)[kept])
            preceding.append(np.insert(words[:-1], 0, START_BUCKET)[kept])
    return np.concatenate([*following, *preceding])
