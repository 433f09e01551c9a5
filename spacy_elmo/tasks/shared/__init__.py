"""Code that all tasks use: types, checks of settings, heads of models, and `log_sum_exp`."""

from collections.abc import Callable
from typing import TypeAlias

from spacy.tokens import Doc
from thinc.api import Model, get_array_module
from thinc.types import Floats2d, FloatsXd
from typing_extensions import Self

Vectors: TypeAlias = list[Floats2d]
Tok2Vec: TypeAlias = Model[list[Doc], Vectors]
Encoder: TypeAlias = Model[Vectors, Vectors]


def check_sizes(name: str, **sizes: float) -> None:
    """Raise an error if a size of the layer or component `name` is below 1."""
    for key, size in sizes.items():
        if size < 1:
            raise ValueError(f"{name}: {key} must be at least 1, got {size}")


def check_even(name: str, width: int) -> None:
    """Raise an error if a width is below 2 or odd. Each of two directions needs half of it."""
    if width < 2 or width % 2:
        raise ValueError(f"{name}: width must be even and at least 2, got {width}")


def check_rate(name: str, dropout: float) -> None:
    """Raise an error unless a dropout rate is at least 0 and below 1."""
    if not 0.0 <= dropout < 1.0:
        raise ValueError(f"{name}: dropout must be at least 0 and below 1, got {dropout}")


def resize_output(model: Model, nO: int) -> None:
    """Set the number of outputs of a component's model, before the model is initialized.

    Thinc refuses to change the number of outputs of a layer that has parameters. So the layers lose
    their parameters first: the component may have been initialized with other labels. The model's
    reference "output" is the layer that computes the scores.
    """
    output = model.get_ref("output")
    for node in model.walk():
        if output in node.walk() and node.has_dim("nO") is not False:
            for name in node.param_names:
                node.set_param(name, None)
            node.set_dim("nO", nO, force=True)


def clear_gradients(model: Model) -> None:
    """Set all gradients of an initialized model to zeros of the parameters' shapes.

    Thinc keeps the gradients of an earlier training, and adds the next ones to them.
    """
    for node in model.walk():
        for name in node.param_names:
            if node.has_grad(name):
                node.set_grad(name, model.ops.xp.zeros_like(node.get_param(name)))


class DocHead:
    """Callable that runs the head of a model: the layers after the token vectors.

    The vectors of a batch are computed once. But a component can call the head several times, for
    example once for each Doc. `d_vectors` sums the gradients from all these calls. A subclass
    defines `__call__`.

    head (Model): The layers after the vectors.
    vectors (List[Floats2d]): Vectors of the Docs. *Shape:* `(n_tokens, width)` each
    is_train (bool): Whether there will be a backward pass.
    """

    def __init__(self, head: Model, vectors: Vectors, is_train: bool):
        self.head = head
        self.vectors = vectors
        self.is_train = is_train
        self.d_vectors = [head.ops.xp.zeros_like(values) for values in vectors if is_train]

    @classmethod
    def forward(cls, model: Model, docs: list[Doc], is_train: bool) -> tuple[Self, Callable]:
        """Compute the vectors of Docs. Return an object of this class, and the backward pass.

        In training, call the object one or more times, and run the backward pass of each call. Then
        run the backward pass that this method returned, once, with the object as its argument.
        """
        vectors, backprop_tok2vec = model.get_ref("tok2vec")(docs, is_train)
        head = cls(model.get_ref("head"), vectors, is_train)
        return head, lambda finished: backprop_tok2vec(finished.d_vectors)


def log_sum_exp(scores: FloatsXd, axis: int) -> FloatsXd:
    """Compute `log sum exp` without overflow, and keep the axis with length 1.

    scores (FloatsXd): They may be -inf, but not all in one sum.
    """
    xp = get_array_module(scores)
    highest = scores.max(axis=axis, keepdims=True)
    return highest + xp.log(xp.exp(scores - highest).sum(axis=axis, keepdims=True))
