"""The biattentive classification network as a model of spaCy's `textcat`."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Optional, TypeAlias

import numpy as np
from spacy.tokens import Doc
from thinc.api import Model
from thinc.types import Floats2d

from ..embedding.batches import by_padded
from ..layers.finite import check_loss
from ..layers.scalar_mix import set_place
from ..registry import registry
from .torch_module import ModuleShim, get_module_shim, run_module

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

Tok2Vec: TypeAlias = Model[list[Doc], list[Floats2d]]
Classifier: TypeAlias = Model[list[Doc], Floats2d]


@registry.architectures("spacy-elmo.BCN.v1")
def build_bcn(
    tok2vec: Tok2Vec,
    elmo: Optional[Tok2Vec] = None,
    exclusive_classes: bool = True,
    hidden_width: int = 64,
    maxout_widths: Sequence[int] = [128, 64],
    maxout_pieces: int = 4,
    dropout: float = 0.2,
    max_batch_tokens: int = 4096,
    nO: Optional[int] = None,
) -> Classifier:
    """The biattentive classification network (McCann et al. 2017, section 5), which Peters et
    al. 2018 measured ELMo with: a `model` of `textcat` or `textcat_multilabel`. The published
    sizes are 300, and 1200 and 600 for the maxout layers.

    tok2vec (Model[List[Doc], List[Floats2d]]): Vectors of the tokens.
    elmo (Optional[Model[List[Doc], List[Floats2d]]]): A second listener, or a Tok2VecElmo, whose
        vectors join the integrator's output (Peters et al. 2018, section 3.3).
    exclusive_classes (bool): Whether a Doc has one class: a softmax in place of a sigmoid for
        each class.
    hidden_width (int): Width of the layer before the encoder, and of each direction of the LSTMs.
    maxout_widths (Sequence[int]): Widths of the two maxout layers before the last.
    maxout_pieces (int): Their pieces.
    dropout (float): Rate on the vectors and between layers, in training.
    max_batch_tokens (int): Most tokens that are read at a time, padding included, unless one Doc
        has more. The attention of a Doc takes memory by the square of its length.
    nO (Optional[int]): Number of classes.
    RETURNS (Model[List[Doc], Floats2d]): Probabilities. *Shape:* `(n_docs, nO)`
    RAISES (ValueError): A value is impossible.
    """
    sizes = [hidden_width, maxout_pieces, max_batch_tokens, *maxout_widths]
    if min(sizes) < 1:
        raise ValueError(
            f"BCN: hidden_width, maxout_widths, maxout_pieces and max_batch_tokens must be at "
            f"least 1, got {hidden_width}, {list(maxout_widths)}, {maxout_pieces} and "
            f"{max_batch_tokens}"
        )
    if not 0.0 <= dropout < 1.0:
        raise ValueError(f"BCN: dropout must be at least 0 and below 1, got {dropout}")
    if elmo is not None:
        set_place(elmo, "output")
    build = partial(
        build_module,
        hidden_width=hidden_width,
        maxout_widths=list(maxout_widths),
        maxout_pieces=maxout_pieces,
        dropout=dropout,
    )
    return Model(
        "elmo_bcn",
        forward,
        init=init,
        dims={"nO": nO},
        layers=[tok2vec] if elmo is None else [tok2vec, elmo],
        shims=[ModuleShim(build)],
        refs={"tok2vec": tok2vec},
        attrs={"multi_label": not exclusive_classes, "max_batch_tokens": max_batch_tokens},
    )


def build_module(**sizes: Any) -> "Module":
    """RETURNS (Module): A BiattentiveClassifier."""
    from .bcn_module import BiattentiveClassifier

    return BiattentiveClassifier(**sizes)


def forward(model: Classifier, docs: list[Doc], is_train: bool) -> tuple[Floats2d, Callable]:
    """The backward pass takes the gradient of the logits, the difference of probabilities and
    truth: that of the cross-entropy, as spaCy's `textcat` computes it for a softmax."""
    ops = model.ops
    runs = [layer(docs, is_train) for layer in model.layers]
    squash = ops.sigmoid if model.attrs["multi_label"] else ops.softmax
    found, passes = [], []
    batches = list(by_padded([[len(doc)] for doc in docs], model.attrs["max_batch_tokens"]))
    order = [i for batch in batches for i in batch]
    for batch in batches:
        inputs = [vectors[i] for vectors, _ in runs for i in batch]
        (logits,), backprop = run_module(model, inputs, is_train, _by_layer(len(batch)))
        found.append(squash(logits))
        passes.append((batch, backprop))

    def backprop_docs(d_logits: Floats2d) -> list[Doc]:
        check_loss(float((d_logits**2).sum()), model.name)  # spaCy's `textcat` does not
        by_place: dict[tuple[int, int], Any] = {}
        for batch, backprop in passes:
            gradients = backprop([d_logits[ops.asarray1i(batch)]])
            places = [(layer, i) for layer in range(len(runs)) for i in batch]
            by_place.update(zip(places, gradients))
        for layer, (_, backprop_layer) in enumerate(runs):
            backprop_layer([by_place[layer, i] for i in range(len(docs))])
        return []

    return ops.xp.concatenate(found)[ops.asarray1i(np.argsort(order))], backprop_docs


def _by_layer(n_docs: int) -> Callable:
    def compute(module: "Module", tensors: "list[Tensor]") -> "Tensor":
        logits: Tensor = module(tensors[:n_docs], tensors[n_docs:])
        return logits

    return compute


def init(model: Classifier, X: Optional[list[Doc]] = None, Y: Optional[Floats2d] = None) -> None:
    if Y is not None and model.has_dim("nO") is None:
        model.set_dim("nO", Y.shape[1])
    widths = []
    for layer in model.layers:
        layer.initialize(X=X)
        widths.append(layer.predict((X or [])[:1])[0].shape[1])
    nI, nE = [*widths, 0][:2]
    get_module_shim(model).create(nI=nI, nE=nE, nO=model.get_dim("nO"))
