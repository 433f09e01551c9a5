"""Listener: the layer through which a component reads the layers of an `elmo` pipe.

In prediction, the listener reads the layers that the pipe has stored on the Docs. In training, it
asks the pipe for them. In its backward pass it reports their gradient to the pipe, and returns no
gradient itself. The pipe adds up the reports of all listeners (`pipeline/training.py`).

spaCy connects listeners to pipes by name, each time the pipeline changes. If the config gives no
name (`upstream = "*"`), the listener saves the name of the pipe on which it was trained. After
loading, it is connected only to a pipe with that name, because the component has learned from the
vectors of that pipe's language model. It also saves the checksum of frozen weights, and warns once
if it reads layers of other weights: the sizes can be equal, but a component has learned nothing
about their vectors.
"""

import warnings
from collections.abc import Callable, Sequence
from typing import Any, Optional, Protocol

from spacy.tokens import Doc
from thinc.api import Model
from thinc.types import Floats3d

from ..embedding.doc_layers import get_layers, last_layers
from ..embedding.settings import ElmoSettings
from ..embedding.vectors import has_hooks
from .bilm import BiLMModel, get_shim
from .finite import check_loss
from .fitting import AnyBiLM
from .scalar_mix import Layers, Vectors

Report = Callable[[Layers], None]

# Attributes of the model, which are saved: names of the pipe and of the component, and the checksum
# of the frozen weights that it was trained on ("" for weights that are fine-tuned).
TRAINED_ON, COMPONENT, WEIGHTS = "trained_on", "component", "weights"


class Upstream(Protocol):
    """Pipe that listeners read: the part of `pipeline.elmo.Elmo` that this folder may know."""

    name: str
    model: BiLMModel

    @property
    def settings(self) -> ElmoSettings:
        """Settings of the pipe."""

    @property
    def bilm(self) -> AnyBiLM:
        """The language model."""

    def annotate(self, docs: Sequence[Doc]) -> Layers:
        """Return the layers of Docs. Compute and store layers that are missing or outdated."""

    def training_layers(
        self, docs: Sequence[Doc], listener: "ElmoListener"
    ) -> tuple[Layers, Optional[Report]]:
        """Return the layers that a listener reads in an update, and the function for its report."""


class _Link:
    """Reference from a listener to its pipe.

    Copies of a listener refer to the same pipe, so a copy of a component's model does not copy the
    language model. But in a copy of the whole pipeline, the listener refers to the copied pipe.
    """

    def __init__(self) -> None:
        self.upstream: Optional[Upstream] = None
        self.name = ""  # The name that the pipe had when it was connected.

    def __deepcopy__(self, memo: dict[int, Any]) -> "_Link":
        upstream = memo.get(id(self.upstream))
        if upstream is None:
            return self
        link = _Link()
        link.upstream, link.name = upstream, self.name
        return link


class ElmoListener(Model):
    """Layer that reads the layers of a pipe and learns a mix of them, `(n_tokens, width)` per Doc.

    In training, it reports the gradient of the layers to the pipe, which runs one backward pass for
    all its listeners.

    width (Optional[int]): Width of the language model, 2P. Default: the pipe's width.
    upstream_name (str): Name of the pipe. "*": the nearest pipe before the component. Training
        saves the name of this pipe, which then replaces "*".
    grad_factor (float): Factor for the reported gradient.
    """

    name = "elmo_listener"

    def __init__(
        self,
        mix: Model[Layers, Vectors],
        *,
        width: Optional[int] = None,
        upstream_name: str = "*",
        grad_factor: float = 1.0,
    ):
        super().__init__(self.name, forward, init=init, dims={"nO": width}, layers=[mix])
        self.upstream_name = upstream_name
        self.grad_factor = grad_factor
        self.has_warned = False
        self.has_warned_in_training = False
        self.checked_weights = ""  # Checksum of the weights that prediction has used last.
        self._link = _Link()

    @property
    def upstream(self) -> Optional[Upstream]:
        """The connected pipe; None if there is none."""
        return self._link.upstream

    @upstream.setter
    def upstream(self, upstream: Optional[Upstream]) -> None:
        if upstream is not None and self.is_trained_on(upstream):
            self.attrs[TRAINED_ON] = upstream.name
        self._link.upstream = upstream
        self._link.name = "" if upstream is None else upstream.name

    @property
    def component(self) -> str:
        """Name of the component that contains the listener, for messages. The pipe sets it."""
        return self.attrs.get(COMPONENT, self.name)

    @component.setter
    def component(self, name: str) -> None:
        self.attrs[COMPONENT] = name

    @property
    def pipe_name(self) -> str:
        """Name of the `elmo` pipe to connect to; "*" for the nearest one before the component."""
        return self.attrs.get(TRAINED_ON, "*") if self.upstream_name == "*" else self.upstream_name

    def is_trained_on(self, pipe: Any) -> bool:
        """Check whether the listener was trained on this pipe, even if the pipe has a new name now.

        If the config of the listener contains a name (`upstream` is not "*"), the result is False:
        then only this name decides about the connection.
        """
        name = self.pipe_name
        is_renamed = self._link.upstream is pipe and self._link.name == name
        return self.upstream_name == "*" and (is_renamed or pipe.name == name)

    @property
    def mix(self) -> Model[Layers, Vectors]:
        """The mix, a ScalarMix."""
        return self.layers[0]


def forward(
    model: ElmoListener, docs: Sequence[Doc], is_train: bool
) -> tuple[Vectors, Callable[[Vectors], list[Doc]]]:
    """Return the mix of each Doc's layers. In prediction, return zeros if no Doc has layers."""
    report: Optional[Report] = None
    if not is_train:
        layers = _read(model, docs)
        if layers is None:
            zeros = [model.ops.alloc2f(len(doc), model.get_dim("nO")) for doc in docs]
            return zeros, lambda d_vectors: []
    elif model.upstream is None:
        raise no_upstream(model)
    else:
        model.attrs[TRAINED_ON] = model.upstream.name
        model.attrs[WEIGHTS] = _checksum(model.upstream)
        layers, report = model.upstream.training_layers(docs, model)
    for doc, values in zip(docs, layers):
        check_layers(doc, values, width=model.get_dim("nO"))
    vectors, bp_mix = model.mix(layers, is_train)

    def backprop(d_vectors: Vectors) -> list[Doc]:
        # Only spaCy's taggers check their loss, so check it here for all components.
        check_loss(float(sum((d**2).sum() for d in d_vectors)), model.component)
        # The mix learns in this call. The gradients of the layers are computed when they are read,
        # so they cost no time if the pipe is frozen and `report` is None.
        d_layers = bp_mix(d_vectors)
        if report is not None:
            report([d * model.grad_factor for d in d_layers])
        return []

    return vectors, backprop


def init(model: ElmoListener, X: Optional[list[Doc]] = None, Y: object = None) -> None:
    """Set the width from the pipe, and initialize the mix.

    RAISES (ValueError): The listener is not connected.
    """
    if model.upstream is None:
        raise no_upstream(model)
    model.attrs[TRAINED_ON] = model.upstream.name
    model.attrs.pop(WEIGHTS, None)  # The mix forgets what it has learned.
    config = model.upstream.bilm.config
    if model.has_dim("nO") is None:
        model.set_dim("nO", config.width)
    layers = [model.ops.alloc3f(config.n_layers + 1, 0, config.width)]
    if X:  # The component's next layers infer their sizes from real vectors.
        layers = model.upstream.annotate(X)
    model.mix.initialize(X=layers)


def no_upstream(model: ElmoListener) -> ValueError:
    """Make the error for a component that has a listener, but no `elmo` pipe before it."""
    name = "elmo" if model.pipe_name == "*" else model.pipe_name
    return ValueError(
        f"a component listens to '{name}', but there is no pipe of that name with factory 'elmo' "
        f'before it. Write pipeline = ["{name}", ...] in [nlp], and put components that listen '
        f"after '{name}'."
    )


def check_layers(doc: Doc, layers: Floats3d, *, width: int) -> None:
    """Check that layers have the shape that the Doc and the listener need.

    layers (Floats3d): *Shape:* `(n_layers, n_tokens, width)`
    RAISES (ValueError): The number of tokens or the width differs.
    """
    if layers.shape[1] != len(doc):
        raise ValueError(
            f"a Doc has {len(doc)} tokens, but ELMo layers for {layers.shape[1]}: it was "
            f"retokenized after 'elmo'. Put 'elmo' after the component that retokenizes."
        )
    if layers.shape[2] != width:
        raise ValueError(
            f"the listener has width = {width}, but the language model's layers are "
            f"{layers.shape[2]} wide. Set width = {layers.shape[2]} in the listener's config."
        )


def _checksum(pipe: Upstream) -> str:
    """Return the checksum of a pipe's weights; "" if they are fine-tuned."""
    return get_shim(pipe.model).checksum() if pipe.settings.frozen else ""


def _check_weights(model: ElmoListener, pipe: Upstream) -> None:
    """Warn once if the weights of the pipe are not those that the listener was trained on."""
    trained_on, now = model.attrs.get(WEIGHTS, ""), _checksum(pipe)
    if now == model.checked_weights:
        return
    model.checked_weights = now
    if trained_on and now and trained_on != now:
        warnings.warn(
            f"'{model.component}' was trained with other weights than '{pipe.name}' has now, so it "
            f"will predict badly. Train it again, or load the weights of its training.",
            stacklevel=2,
        )


def _read(model: ElmoListener, docs: Sequence[Doc]) -> Optional[Layers]:
    """Return the layers stored on Docs; None, with a warning, if no Doc has layers.

    RAISES (ValueError): Some Docs have layers, the others do not.
    """
    name = model.pipe_name
    if model.upstream is not None:
        # Docs from span.as_doc() have hooks but no layers. spaCy's entity_linker reads such Docs,
        # so compute their layers.
        model.upstream.annotate([d for d in docs if last_layers(d) is None and has_hooks(d)])
        name = model.upstream.name
        _check_weights(model, model.upstream)
    layers = [last_layers(doc) if name == "*" else get_layers(doc, name) for doc in docs]
    absent = sum(values is None for values in layers)
    if not absent:
        return layers
    if absent < len(docs):
        raise ValueError(
            f"{absent} of {len(docs)} Docs have no ELMo layers, the others do. Run 'elmo' "
            f"on all Docs, or on none."
        )
    if not model.has_warned and any(len(doc) for doc in docs):
        model.has_warned = True
        warnings.warn(
            f"the Docs have no ELMo layers, so '{model.component}' predicts from zeros. The pipe "
            f"'{name}' that it listens to is missing or disabled, was renamed, or comes after it.",
            stacklevel=2,
        )
    return None
