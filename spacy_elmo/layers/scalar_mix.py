"""Scalar mix: a learned weighted sum of a language model's layers."""

from collections.abc import Callable, Sequence
from typing import Any, Optional, cast

import numpy as np
from thinc.api import Model
from thinc.types import Floats1d, Floats2d, Floats3d

LAYER_NORM_EPSILON = 1e-12
MIN_WEIGHT = 1e-8  # This replaces an initial weight of 0, which has no logarithm.

Layers = list[Floats3d]  # All layers of each Doc, `(L + 1, n_tokens, 2P)`.
Vectors = list[Floats2d]  # The mixed vectors of each Doc, `(n_tokens, 2P)`.


def ScalarMix(
    n_layers: Optional[int] = None,
    *,
    layer_norm: bool = False,
    dropout: float = 0.0,
    l2: float = 0.0,
    initial: Optional[list[float]] = None,
    trainable: bool = True,
    learn_rate_factor: float = 1.0,
) -> Model[Layers, Vectors]:
    """Make a learned mix of the layers, `gamma * sum_j softmax(w)_j h_j`.

    See Peters et al. 2018, equation 1.

    n_layers (Optional[int]): Number of layers including the token layer, L + 1. Default: the
        number in the first input.
    layer_norm (bool): Whether to normalize every token of every layer to mean 0 and
        variance 1 first.
    dropout (float): Dropout rate of the mixed vectors in training.
    l2 (float): Strength of the penalty `l2 * |w|^2` on the raw weights w (section 3.3). A larger
        value keeps the mix closer to the average.
    initial (Optional[List[float]]): Initial weights, which sum to 1. Default: equal weights.
    trainable (bool): Whether weights and gamma are learned.
    learn_rate_factor (float): Factor for the learning rate of the raw weights, if the optimizer is
        Adam. Set it above 1 if training hardly changes the mix.
    RETURNS (Model[List[Floats3d], List[Floats2d]]): From `(L + 1, n_tokens, 2P)` to
        `(n_tokens, 2P)` per Doc.
    RAISES (ValueError): A value is invalid.
    """
    if n_layers is None and initial is not None:
        n_layers = len(initial)
    if n_layers is not None:
        _starting_weights(n_layers, initial)  # Raises an error if a value is invalid.
    if not 0.0 <= dropout < 1.0:
        raise ValueError(f"ScalarMix: dropout must be at least 0 and below 1, got {dropout}")
    if l2 < 0.0:
        raise ValueError(f"ScalarMix: l2 must be at least 0, got {l2}")
    if learn_rate_factor <= 0.0:
        raise ValueError(f"ScalarMix: learn_rate_factor must be above 0, got {learn_rate_factor}")
    model: Model[Layers, Vectors] = Model(
        "elmo_scalar_mix",
        forward,
        init=init,
        params={"weights": None, "gamma": None},
        # The attribute is not named dropout_rate, because spaCy overwrites attributes of that name.
        attrs={
            "layer_norm": layer_norm,
            "dropout": dropout,
            "l2": l2,
            "trainable": trainable,
            "learn_rate_factor": learn_rate_factor,
            "place": "alone",
            "n_layers": n_layers,
            "initial": initial,
        },
    )
    init(model)
    return model


def init(
    model: Model[Layers, Vectors], X: Optional[Layers] = None, Y: Optional[Vectors] = None
) -> None:
    """Set the initial weights and gamma = 1, also if the mix has learned other values.

    If the number of layers is not set, it is the number in the first input. Without an input, the
    mix keeps the number of layers that it has.
    """
    n_layers = model.attrs["n_layers"]
    if n_layers is None and X:
        n_layers = len(X[0])
    elif n_layers is None and model.has_param("weights"):
        n_layers = len(model.get_param("weights"))
    if n_layers is not None:
        weights = _starting_weights(n_layers, model.attrs["initial"])
        factor = model.attrs["learn_rate_factor"]
        # The parameter is w / factor. Adam's steps do not depend on the size of gradients, so w
        # moves `factor` times as far.
        model.set_param("weights", model.ops.asarray1f(weights) / factor)
    model.set_param("gamma", model.ops.alloc1f(1) + 1)


def forward(model: Model[Layers, Vectors], X: Layers, is_train: bool) -> tuple[Vectors, Callable]:
    """Return the mix of each Doc's layers, `(n_tokens, 2P)`."""
    if not X:
        return [], lambda dY: []
    xp = model.ops.xp
    # A language model returns NumPy's arrays on a GPU, too, but the mix is on the GPU.
    X = [model.ops.asarray3f(layers) for layers in X]
    if not model.has_param("weights"):
        init(model, X)
    _check_layers(model, X)
    weights, gamma = mix_weights(model), model.get_param("gamma")
    normed = [_layer_norm(xp, layers) for layers in X] if model.attrs["layer_norm"] else None
    mixable = [values for values, _ in normed] if normed is not None else X
    mixed = [xp.tensordot(weights, layers, axes=1) for layers in mixable]
    outputs = [gamma * Y for Y in mixed]
    masks: Optional[Vectors] = None
    if is_train and model.attrs["dropout"]:
        masks = [model.ops.get_dropout_mask(Y.shape, model.attrs["dropout"]) for Y in mixed]
        outputs = [Y * mask for Y, mask in zip(outputs, masks)]

    def backprop(dY: Vectors) -> Layers:
        if masks is not None:
            dY = [d * mask for d, mask in zip(dY, masks)]
        if model.attrs["trainable"]:
            _accumulate(model, mixable, mixed, weights, dY)

        def gradient(i: int) -> Floats3d:
            d_mixable = gamma * weights[:, None, None] * dY[i][None]
            return d_mixable if normed is None else _backprop_norm(xp, d_mixable, *normed[i])

        return cast(Layers, _OnDemand(len(dY), gradient))

    return outputs, backprop


class _OnDemand(Sequence[Floats3d]):
    """Sequence of gradients that are computed when they are read.

    If the language model is frozen, nothing reads the gradients, so they cost no time.
    """

    def __init__(self, length: int, compute: Callable[[int], Floats3d]):
        self._length = length
        self._compute = compute

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, i: Any) -> Any:
        return self._compute(range(self._length)[i])


def mixes_of(model: object) -> list[Model[Layers, Vectors]]:
    """Return all ScalarMix layers in a component's model. Without a Thinc model, there are none."""
    nodes = model.walk() if isinstance(model, Model) else ()
    return [node for node in nodes if node.name == "elmo_scalar_mix"]


def set_place(model: Model, place: str) -> None:
    """Record where a listener or Tok2VecElmo's component reads the mixed vectors.

    `learned_mixes` shows it.

    place (str): "input" or "output" of an encoder. Default in a new mix: "alone".
    """
    for mix in mixes_of(model):
        mix.attrs["place"] = place


def mix_weights(model: Model[Layers, Vectors]) -> Floats1d:
    """Return the weight of each layer in a mix. The weights sum to 1."""
    raw = _raw_weights(model)
    shifted = model.ops.xp.exp(raw - raw.max())
    return shifted / shifted.sum()


def _raw_weights(model: Model[Layers, Vectors]) -> Floats1d:
    return cast(Floats1d, model.attrs["learn_rate_factor"] * model.get_param("weights"))


def _accumulate(
    model: Model[Layers, Vectors], X: Layers, mixed: Vectors, weights: Floats1d, dY: Vectors
) -> None:
    """Add the gradients of gamma and the raw weights to the model; once per update, the penalty."""
    xp = model.ops.xp
    gamma = model.get_param("gamma")
    d_gamma = xp.zeros_like(gamma)
    d_weights = xp.zeros_like(weights)
    for Y, d in zip(mixed, dY):
        d_gamma += (Y * d).sum()
    for layers, d in zip(X, dY):
        d_weights += gamma * (layers * d[None]).sum(axis=(1, 2))
    d_raw = weights * (d_weights - (weights * d_weights).sum())
    model.inc_grad("gamma", d_gamma)
    # An update can add the gradients of several batches (accumulate_gradient), but has one penalty.
    # An update sets the gradient to 0, so only the first batch after it finds 0.
    if not model.has_grad("weights") or not model.get_grad("weights").any():
        d_raw += 2.0 * model.attrs["l2"] * _raw_weights(model)
    model.inc_grad("weights", model.attrs["learn_rate_factor"] * d_raw)


def _layer_norm(xp, layers: Floats3d) -> tuple[Floats3d, Floats3d]:  # type: ignore[no-untyped-def]
    """Normalize each token's vector in each layer. Also return the inverse standard deviations."""
    centred = layers - layers.mean(axis=2, keepdims=True)
    variance = (centred**2).mean(axis=2, keepdims=True)
    inverse = 1.0 / xp.sqrt(variance + LAYER_NORM_EPSILON)
    return centred * inverse, inverse


def _backprop_norm(  # type: ignore[no-untyped-def]
    xp, d_normed: Floats3d, normed: Floats3d, inverse: Floats3d
) -> Floats3d:
    along = (d_normed * normed).mean(axis=2, keepdims=True)
    return inverse * (d_normed - d_normed.mean(axis=2, keepdims=True) - normed * along)


def _check_layers(model: Model[Layers, Vectors], X: Layers) -> None:
    n_layers = len(model.get_param("weights"))
    for layers in X:
        if layers.shape[0] != n_layers:
            raise ValueError(
                f"ScalarMix has n_layers = {n_layers}, but the language model has "
                f"{layers.shape[0]} layers (LSTM layers and token layer). Set n_layers in the "
                f"mix's config to {layers.shape[0]}, or to null to take the model's number."
            )


def _starting_weights(n_layers: int, initial: Optional[Sequence[float]]) -> np.ndarray:
    if n_layers < 1:
        raise ValueError(f"ScalarMix: n_layers must be at least 1, got {n_layers}")
    if initial is None:
        return np.zeros(n_layers, dtype="float32")
    weights = np.asarray(initial, dtype="float64")
    if weights.shape != (n_layers,) or (weights < 0).any() or abs(weights.sum() - 1) > 1e-3:
        raise ValueError(
            f"ScalarMix: initial must be {n_layers} weights of at least 0 that sum to 1, "
            f"got {list(initial)}"
        )
    return np.log(np.maximum(weights, MIN_WEIGHT)).astype("float32")
