"""The biLM as a Thinc layer over Docs."""

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
from spacy.tokens import Doc, Token
from thinc.api import Model, chain, xp2torch
from thinc.types import Floats2d, Floats3d

from ..embedding.embed import embed_words
from ..embedding.features import Piece, features_of
from ..embedding.segmenters import Segment
from ..frozen.config import BiLMConfig
from ..frozen.model import FrozenBiLM
from .shim import AnyBiLM, BiLMShim

Layers = list[Floats3d]
BiLMModel: TypeAlias = Model[list[Doc], Layers]

_process = os.getpid()


def BiLMLayer(config: BiLMConfig) -> BiLMModel:
    """Make the layer that computes the language model's layers, `(L + 1, n_tokens, 2P)` a Doc."""
    dims, shims = {"nO": config.width}, [BiLMShim(config)]
    return Model("elmo_bilm", forward, init=init, dims=dims, shims=shims)


def join_tok2vec(
    bilm: BiLMModel, mix: Model[Layers, list[Floats2d]]
) -> Model[list[Doc], list[Floats2d]]:
    """Chain a language model and its mix."""
    tok2vec = chain(bilm, mix)
    tok2vec.set_dim("nO", bilm.get_dim("nO"))
    return tok2vec


def get_shim(model: BiLMModel) -> BiLMShim:
    """Return the shim of a BiLMLayer, the holder of the language model."""
    shim = model.shims[0]
    assert isinstance(shim, BiLMShim)
    return shim


def follow_weights(model: BiLMModel) -> None:
    """Set the width of a BiLMLayer to its weights' width, which may not be the default."""
    model.set_dim("nO", get_shim(model).config.width, force=True)


def forward(model: BiLMModel, docs: Sequence[Doc], is_train: bool) -> tuple[Layers, Callable]:
    """Compute the layers of Docs; frozen features come from the cache."""
    limit_threads_after_fork()
    shim = get_shim(model)
    bilm = _loaded(model)
    shim.in_training = shim.in_training or is_train
    settings = shim.settings
    segments = [settings.segmenter(doc) for doc in docs]

    def compute(texts: Iterable[Iterable[Token]], cut: list[list[Segment]]) -> list[Any]:
        words = [[token.text for token in text] for text in texts]
        if isinstance(bilm, FrozenBiLM):
            return embed_words(bilm, words, cut, settings)
        import torch

        with torch.set_grad_enabled(is_train and not settings.frozen):
            return embed_words(bilm, words, cut, settings)

    def compute_pieces(found: "list[tuple[Doc, Piece]]") -> Layers:
        pieces = [piece for _, piece in found]
        texts = (doc[piece.tokens] for doc, piece in found)
        layers = compute(texts, [piece.segments for piece in pieces])
        return [values[:, one.kept] for values, one in zip(layers, pieces)]

    if settings.frozen and shim.in_training and settings.features is not None:
        for doc in docs:
            shim.waiting.pop(doc, None)  # pieces of earlier layers
        kept = features_of(
            settings.features,
            docs,
            segments,
            model=shim.features_model(),
            sizes=shim.sizes,
            compute=compute_pieces,
            carry=settings.initial_state == "carry",
            waiting=None if is_train else shim.waiting,
        )
        return kept, lambda d_layers: []
    layers = compute(docs, segments)
    if all(isinstance(values, np.ndarray) for values in layers):
        return layers, lambda d_layers: []

    def backprop(d_layers: Layers) -> list[Doc]:
        import torch

        trained = [i for i, values in enumerate(layers) if values.requires_grad]
        if trained:
            torch.autograd.backward(
                [layers[i] for i in trained],
                [xp2torch(d_layers[i], device=bilm.device) for i in trained],
            )
        return []

    return [values.detach().cpu().numpy() for values in layers], backprop


def init(model: BiLMModel, X: object = None, Y: object = None) -> None:
    """Read the weights."""
    _loaded(model)


def _loaded(model: BiLMModel) -> AnyBiLM:
    bilm = get_shim(model).bilm
    follow_weights(model)
    return bilm


def limit_threads_after_fork() -> None:
    """Set PyTorch to one thread in a forked process.

    The process inherits the thread pool without its threads, and would wait for them forever.
    """
    global _process
    torch = sys.modules.get("torch")
    if torch is not None and os.getpid() != _process:
        torch.set_num_threads(1)
        _process = os.getpid()
