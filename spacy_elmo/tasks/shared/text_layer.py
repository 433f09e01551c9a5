"""Thinc layers with a PyTorch module that reads one or two texts of a Doc.

An item is the input of the module: the texts of one Doc, or windows of them. Items of similar
length, also from different Docs, share a batch, so that padding is small.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from typing import Any, Optional

from spacy.tokens import Doc
from thinc.api import Model
from thinc.types import Floats2d, FloatsXd

from ...layers.scalar_mix import set_place
from . import Tok2Vec
from .torch_module import ModuleShim, get_module_shim, run_module

Texts = tuple[int, tuple[slice, ...]]  # An item: index of the Doc, and the tokens of each text.


def TextLayer(
    name: str,
    forward: Callable,
    init: Callable,
    build: Callable,
    tok2vec: Tok2Vec,
    output_tok2vec: Optional[Tok2Vec],
    *,
    nO: Optional[int] = None,
    **attrs: object,
) -> Model:
    """Build a Thinc layer that runs a PyTorch module over the one or two texts of each Doc.

    forward (Callable): The forward pass, which calls `run_texts`.
    init (Callable): The initialization, which calls `create_module`.
    build (Callable[..., Module]): Makes the PyTorch module from its sizes.
    tok2vec (Model[List[Doc], List[Floats2d]]): Vectors for the input of the module.
    output_tok2vec (Optional[Model[List[Doc], List[Floats2d]]]): Vectors that the module
        concatenates with the output of a recurrent layer (Peters et al. 2018, section 3.3).
    attrs (object): Attributes of the layer. `run_texts` needs `max_batch_tokens`.
    """
    refs = {"tok2vec": tok2vec, "output_tok2vec": output_tok2vec}
    if output_tok2vec is not None:
        set_place(output_tok2vec, "output")
    dims, shims = {"nO": nO}, [ModuleShim(build)]
    layers = [layer for layer in refs.values() if layer is not None]
    return Model(
        name, forward, init=init, dims=dims, layers=layers, shims=shims, refs=refs, attrs=attrs
    )


def create_module(model: Model, X: Optional[list[Doc]] = None, Y: Any = None, **sizes: int) -> None:
    """Initialize a layer with sample Docs: infer the widths of its vectors, and create its module.

    The module gets the widths as `nI` (of `tok2vec`) and `nE` (of `output_tok2vec`, or 0), in
    addition to `sizes`.
    """
    widths = []
    for layer in model.layers:
        layer.initialize(X=X)
        widths.append(layer.predict((X or [])[:1])[0].shape[1])
    nI, nE = [*widths, 0][:2]
    get_module_shim(model).create(nI=nI, nE=nE, **sizes)


def init_classifier(model: Model, X: Optional[list[Doc]] = None, Y: Any = None) -> None:
    """Initialize a layer with an output per label. Y is an array with a column for each label."""
    if Y is not None and model.has_dim("nO") is None:
        model.set_dim("nO", Y.shape[1])
    create_module(model, X, nO=model.get_dim("nO"))


def run_texts(
    model: Model, docs: list[Doc], items: Sequence[Texts], is_train: bool
) -> tuple[list[FloatsXd], Callable[[Sequence[FloatsXd]], list[Doc]]]:
    """Run the module of a layer over texts, in batches of items of similar length.

    A batch has at most `max_batch_tokens` tokens, including padding. A batch of one item may have
    more.

    docs (List[Doc]): Their vectors are computed once.
    items (Sequence[Tuple[int, Tuple[slice, ...]]]): Index of the Doc, and the tokens of each text.
    RETURNS (Tuple[List[FloatsXd], Callable]): An array for each item, and the backward pass, which
        takes the gradients of these arrays.
    """
    runs = [layer(docs, is_train) for layer in model.layers]
    d_vectors = [[model.ops.xp.zeros_like(x) for x in found if is_train] for found, _ in runs]
    outputs: dict[int, FloatsXd] = {}
    passes = []
    lengths = [[tokens.stop - tokens.start for tokens in texts] for _, texts in items]
    for batch in by_padded(lengths, model.attrs["max_batch_tokens"]):
        # The module has an argument for each layer and text: a list with an array per item.
        order = product(range(len(runs)), range(len(items[0][1])), batch)
        places = [(layer, items[i][0], items[i][1][text]) for layer, text, i in order]
        parts = [runs[layer][0][doc][tokens] for layer, doc, tokens in places]
        found, backprop = run_module(model, parts, is_train, partial(_run_groups, size=len(batch)))
        outputs.update(zip(batch, found))
        passes.append((batch, places, backprop))

    def backprop_texts(d_outputs: Sequence[FloatsXd]) -> list[Doc]:
        for batch, places, backprop in passes:
            gradients = backprop([d_outputs[i] for i in batch])
            for (layer, doc, tokens), gradient in zip(places, gradients):
                d_vectors[layer][doc][tokens] += gradient
        for (_, backprop_layer), gradients in zip(runs, d_vectors):
            backprop_layer(gradients)
        return []

    return [outputs[i] for i in range(len(items))], backprop_texts


def _run_groups(module: Callable, tensors: list, *, size: int) -> Sequence:
    """Split tensors into lists of `size` tensors. Call a module with these lists as arguments."""
    return module(*(tensors[i : i + size] for i in range(0, len(tensors), size)))


def classify(
    model: Model, docs: list[Doc], items: Sequence[Texts], is_train: bool, squash: Callable
) -> tuple[Floats2d, Callable]:
    """Compute the probabilities of the labels of each Doc.

    items (Sequence[Tuple[int, Tuple[slice, ...]]]): For each Doc, its index and the tokens of its
        one or two texts.
    squash (Callable[[Floats2d], Floats2d]): Converts logits to probabilities.
    RETURNS (Tuple[Floats2d, Callable]): The probabilities, `(n_docs, n_labels)`, and the backward
        pass, which takes the gradient of the logits.
    """
    if not docs:
        return model.ops.alloc2f(0, model.get_dim("nO")), lambda d_scores: []
    logits, backprop = run_texts(model, docs, items, is_train)
    return squash(model.ops.xp.stack(logits)), backprop


def by_padded(lengths: Sequence[Sequence[int]], max_tokens: int) -> Iterator[list[int]]:
    """Group items of similar length, so that padding is small.

    lengths (Sequence[Sequence[int]]): Lengths of the sequences of each item, the same number for
        all items. In a group, all first sequences are padded to the longest first sequence, all
        second sequences to the longest second sequence, and so on.
    max_tokens (int): Maximum number of tokens in a group, including padding. A group of one item
        may have more.
    YIELDS (List[int]): Indices of the items of a group, the longest first.
    """
    group: list[int] = []
    longest: tuple[int, ...] = ()
    for i in sorted(range(len(lengths)), key=lambda i: sum(lengths[i]), reverse=True):
        widest = tuple(map(max, zip(longest, lengths[i]))) if group else tuple(lengths[i])
        if group and sum(widest) * (len(group) + 1) > max_tokens:
            yield group
            group, widest = [], tuple(lengths[i])
        group.append(i)
        longest = widest
    if group:
        yield group
