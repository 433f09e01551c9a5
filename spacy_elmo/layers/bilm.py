"""Thinc layer that computes the layers of Docs. Its shim contains the language model."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
from spacy.tokens import Doc, Token
from thinc.api import Model, chain, xp2torch
from thinc.types import Floats3d

from ..embedding.embed import embed_words
from ..embedding.features import Piece, kept_layers
from ..embedding.segmenters import Segment, cut_into_segments
from ..frozen.model import FrozenBiLM
from ..model.config import BiLMConfig
from ..model.threads import limit_threads_after_fork
from .bilm_shim import BiLMShim
from .scalar_mix import Layers, Vectors

BiLMModel: TypeAlias = Model[list[Doc], Layers]


def BiLMLayer(config: BiLMConfig) -> BiLMModel:
    """Make the Thinc layer that computes a biLM's layers, `(L + 1, n_tokens, 2P)` per Doc."""
    dims, shims = {"nO": config.width}, [BiLMShim(config)]
    return Model("elmo_bilm", forward, init=init, dims=dims, shims=shims)


def join_tok2vec(bilm: BiLMModel, mix: Model[Layers, Vectors]) -> Model[list[Doc], Vectors]:
    """Make a tok2vec layer from a language model and a mix. Its vectors have the width 2P."""
    tok2vec = chain(bilm, mix)
    tok2vec.set_dim("nO", bilm.get_dim("nO"))
    return tok2vec


def get_shim(model: BiLMModel) -> BiLMShim:
    """Return the shim of a BiLMLayer, which contains the language model."""
    shim = model.shims[0]
    assert isinstance(shim, BiLMShim)
    return shim


def follow_weights(model: BiLMModel) -> None:
    """Set the width of a BiLMLayer to the width of its weights."""
    model.set_dim("nO", get_shim(model).config.width, force=True)


def forward(model: BiLMModel, docs: Sequence[Doc], is_train: bool) -> tuple[Layers, Callable]:
    """Compute the layers of Docs. In training, read layers of frozen weights from the cache."""
    limit_threads_after_fork()
    init(model)
    shim = get_shim(model)
    bilm = shim.load()
    # The flag stays true, so that training also caches the dev set, which is only predicted.
    shim.in_training = shim.in_training or is_train
    settings = shim.settings
    segments = [cut_into_segments(doc, settings.segmenter) for doc in docs]

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

    features = settings.features
    if settings.frozen and shim.in_training and features is not None:
        kept = kept_layers(shim, features, docs, segments, compute_pieces, is_train=is_train)
        return kept, lambda d_layers: []  # Frozen weights need no gradient.
    layers = compute(docs, segments)
    # Arrays have no gradient. Tensors come from a PyTorch module; those of a fine-tuned model have
    # one, and `backprop` needs the tensors themselves.
    if all(isinstance(values, np.ndarray) for values in layers):
        return layers, lambda d_layers: []

    def backprop(d_layers: Sequence[Floats3d]) -> list[Doc]:
        import torch

        from ..bilm.precision import without_tf32

        # Layers of empty Docs have no gradient, and `backward` refuses them.
        trained = [i for i, values in enumerate(layers) if values.requires_grad]
        if trained:
            gradients = [xp2torch(d_layers[i], device=bilm.device) for i in trained]
            # The gradients of the weights go to `weight.grad`, where `BiLMShim.finish_update` reads
            # them. The forward pass has restored the setting, but cuDNN computes this gradient.
            with without_tf32():
                torch.autograd.backward([layers[i] for i in trained], gradients)
        return []  # Docs have no gradient.

    return [values.detach().cpu().numpy() for values in layers], backprop


def init(model: BiLMModel, X: object = None, Y: object = None) -> None:
    """Read the weights if they are not read yet. Set the layer's width to their width."""
    get_shim(model).load()
    follow_weights(model)
