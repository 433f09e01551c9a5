"""What the models of two texts share: from Docs to a PyTorch module that reads batches of
pairs."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Optional, TypeAlias

from spacy.tokens import Doc
from thinc.api import Model
from thinc.types import Floats2d, FloatsXd

from ..embedding.batches import by_padded
from ..layers.scalar_mix import set_place
from .torch_module import ModuleShim, get_module_shim, run_module

Tok2Vec: TypeAlias = Model[list[Doc], list[Floats2d]]


class Pair(NamedTuple):
    """Tokens that the module reads at once.

    doc (int): Number of the Doc in its batch.
    first (slice): Tokens of the first text.
    second (slice): Tokens of the second text, or some of them.
    """

    doc: int
    first: slice
    second: slice


def PairLayer(
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
    """Make a layer for `run_pairs`.

    name (str): Name of the layer.
    forward (Callable): Its forward pass.
    init (Callable): Its initialization, which calls `init_pairs`.
    build (Callable[..., Module]): Makes the module from its sizes.
    tok2vec (Model[List[Doc], List[Floats2d]]): Vectors at the input of the first recurrent
        layer.
    output_tok2vec (Optional[Model[List[Doc], List[Floats2d]]]): Vectors beside its output.
    nO (Optional[int]): Width of the output, if it is known.
    attrs (object): Settings; of these `max_batch_tokens` is needed here.
    RETURNS (Model): The layer.
    """
    refs = {"tok2vec": tok2vec, "output_tok2vec": output_tok2vec}
    if output_tok2vec is not None:
        set_place(output_tok2vec, "output")
    return Model(
        name,
        forward,
        init=init,
        dims={"nO": nO},
        layers=[layer for layer in refs.values() if layer is not None],
        shims=[ModuleShim(build)],
        refs=refs,
        attrs=attrs,
    )


def init_pairs(model: Model, docs: Optional[list[Doc]], **sizes: int) -> None:
    """Make the module, for the width of the vectors: `nI` at the input, `nE` beside the
    output of the first recurrent layer, 0 for none.

    model (Model): The layer.
    docs (Optional[List[Doc]]): Some Docs.
    sizes (int): What the module is told besides.
    """
    widths = []
    for layer in model.layers:
        layer.initialize(X=docs)
        widths.append(layer.predict((docs or [])[:1])[0].shape[1])
    nI, nE = [*widths, 0][:2]
    get_module_shim(model).create(nI=nI, nE=nE, **sizes)


def run_pairs(
    model: Model, docs: list[Doc], pairs: Sequence[Pair], is_train: bool
) -> tuple[list[FloatsXd], Callable[[Sequence[FloatsXd]], list[Doc]]]:
    """Run the module over pairs, those of like length together, no more tokens at once than
    `max_batch_tokens`, padding included, or one pair.

    model (Model): The layer.
    docs (List[Doc]): The Docs, whose vectors are computed once.
    pairs (Sequence[Pair]): The pairs.
    is_train (bool): Whether there will be a backward pass.
    RETURNS (Tuple[List[FloatsXd], Callable]): One array a pair, and the backward pass from
        their gradients.
    """
    runs = [layer(docs, is_train) for layer in model.layers]
    d_vectors = [[model.ops.xp.zeros_like(x) for x in found if is_train] for found, _ in runs]
    outputs: dict[int, FloatsXd] = {}
    passes = []
    lengths = [[tokens.stop - tokens.start for tokens in pair[1:]] for pair in pairs]
    for batch in by_padded(lengths, model.attrs["max_batch_tokens"]):
        # By layer, then by text, then by pair.
        places = [
            (layer, pairs[i].doc, pairs[i][text])
            for layer in range(len(runs))
            for text in (1, 2)
            for i in batch
        ]
        parts = [runs[layer][0][doc][tokens] for layer, doc, tokens in places]
        found, backprop = run_module(model, parts, is_train, _in_groups(len(batch)))
        outputs.update(zip(batch, found))
        passes.append((batch, places, backprop))

    def backprop_pairs(d_outputs: Sequence[FloatsXd]) -> list[Doc]:
        for batch, places, backprop in passes:
            gradients = backprop([d_outputs[i] for i in batch])
            for (layer, doc, tokens), gradient in zip(places, gradients):
                d_vectors[layer][doc][tokens] += gradient
        for (_, backprop_layer), gradients in zip(runs, d_vectors):
            backprop_layer(gradients)
        return []

    return [outputs[i] for i in range(len(pairs))], backprop_pairs


def _in_groups(size: int) -> Callable:
    """Call a module with lists of so many tensors."""

    def compute(module: Callable, tensors: list) -> object:
        return module(*(tensors[i : i + size] for i in range(0, len(tensors), size)))

    return compute
