"""The layer that brings the language model into a task's model."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any, Optional, Protocol

from spacy.tokens import Doc
from thinc.api import Model
from thinc.types import Floats3d

from ..embedding.doc_layers import get_layers
from ..embedding.vectors import has_hooks
from .finite import check_loss
from .scalar_mix import Layers, Vectors

Report = Callable[[Layers], None]

TRAINED_ON = "trained_on"  # attribute of the model, which is saved: name of the pipe


class Upstream(Protocol):
    """The pipe that a listener listens to."""

    name: str

    @property
    def sizes(self) -> tuple[int, int]:
        """Layers of the language model, L + 1, and their width, 2P."""

    def annotate(self, docs: Sequence[Doc]) -> Layers:
        """The layers of Docs, which they have or get."""

    def training_layers(
        self, docs: Sequence[Doc], listener: "ElmoListener"
    ) -> tuple[Layers, Optional[Report]]:
        """The layers of Docs in an update, and where to report their gradient, if anywhere."""


class _Link:
    """A reference that copies of a listener share: copying a component's model
    must not copy the language model behind it. In a copy of a whole pipeline
    it refers to the copied pipe."""

    def __init__(self) -> None:
        self.upstream: Optional[Upstream] = None
        self.name = ""  # of the pipe, when it was connected

    def __deepcopy__(self, memo: dict[int, Any]) -> "_Link":
        upstream = memo.get(id(self.upstream))
        if upstream is None:
            return self
        link = _Link()
        link.upstream, link.name = upstream, self.name
        return link


class ElmoListener(Model):
    """Reads the layers that a pipe stored and learns its own mix of them, from Docs to
    `(n_tokens, width)` each. In training it reports the gradient of the layers
    to the pipe, which runs one backward pass for all its listeners.

    mix (Model[List[Floats3d], List[Floats2d]]): The mix, a ScalarMix.
    width (Optional[int]): Width of the language model, 2P; None for that of the pipe,
        when it is initialised.
    upstream_name (str): Name of the pipe, or "*" for the nearest before the component. What the
        listener is trained on is saved with its weights: then it asks for that pipe by name.
    grad_factor (float): Multiplies the gradient that is reported.
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
        self.component = self.name  # in whose model it is; the pipe says so
        self._link = _Link()

    @property
    def upstream(self) -> Optional[Upstream]:
        """RETURNS (Optional[Elmo]): The pipe, if there is one."""
        return self._link.upstream

    @upstream.setter
    def upstream(self, upstream: Optional[Upstream]) -> None:
        if upstream is not None and self.is_trained_on(upstream):
            self.attrs[TRAINED_ON] = upstream.name
        self._link.upstream = upstream
        self._link.name = "" if upstream is None else upstream.name

    @property
    def pipe_name(self) -> str:
        """RETURNS (str): Name of the pipe that is asked for, or "*" for the nearest."""
        return self.attrs.get(TRAINED_ON, "*") if self.upstream_name == "*" else self.upstream_name

    def is_trained_on(self, pipe: Upstream) -> bool:
        """RETURNS (bool): Whether no pipe is named in the config, and it was trained on this one,
        which may have another name since."""
        name = self.pipe_name
        is_renamed = self._link.upstream is pipe and self._link.name == name
        return self.upstream_name == "*" and (is_renamed or pipe.name == name)

    @property
    def mix(self) -> Model[Layers, Vectors]:
        """RETURNS (Model[List[Floats3d], List[Floats2d]]): The mix."""
        return self.layers[0]


def forward(
    model: ElmoListener, docs: Sequence[Doc], is_train: bool
) -> tuple[Vectors, Callable[[Vectors], list[Doc]]]:
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
        layers, report = model.upstream.training_layers(docs, model)
    for doc, values in zip(docs, layers):
        check_layers(doc, values, width=model.get_dim("nO"))
    vectors, bp_mix = model.mix([model.ops.asarray3f(values) for values in layers], is_train)

    def backprop(d_vectors: Vectors) -> list[Doc]:
        # Only the taggers of spaCy's own components look at their loss.
        check_loss(float(sum((d**2).sum() for d in d_vectors)), model.component)
        d_layers = bp_mix(d_vectors)
        if report is not None:
            report([d * model.grad_factor for d in d_layers])
        return []

    return vectors, backprop


def init(model: ElmoListener, X: Optional[list[Doc]] = None, Y: object = None) -> None:
    if model.upstream is None:
        raise no_upstream(model)
    model.attrs[TRAINED_ON] = model.upstream.name
    n_layers, width = model.upstream.sizes
    if model.has_dim("nO") is None:
        model.set_dim("nO", width)
    layers = [model.ops.alloc3f(n_layers, 0, width)]
    if X:  # the layers after this one want to see real input
        layers = model.upstream.annotate(X)
    model.mix.initialize(X=layers)


def no_upstream(model: ElmoListener) -> ValueError:
    """RETURNS (ValueError): What is wrong where no pipe stands before the component."""
    name = "elmo" if model.pipe_name == "*" else model.pipe_name
    return ValueError(
        f"a component listens to '{name}', but no pipe of that name with factory 'elmo' stands "
        f'before it: write pipeline = ["{name}", ...] in [nlp], the components that listen '
        f"after '{name}'"
    )


def check_layers(doc: Doc, layers: Floats3d, *, width: int) -> None:
    """Check that layers belong to a Doc as it is now.

    doc (Doc): The Doc.
    layers (Floats3d): Its layers. *Shape:* `(L + 1, n_tokens, 2P)`
    width (int): The width that the listener was made for.
    RAISES (ValueError): They do not.
    """
    if layers.shape[1] != len(doc):
        raise ValueError(
            f"a Doc has {len(doc)} tokens, but ELMo layers for {layers.shape[1]}: it was "
            f"retokenized after 'elmo'. Put 'elmo' after the component that does so."
        )
    if layers.shape[2] != width:
        raise ValueError(
            f"the listener has width = {width}, but the language model's layers are "
            f"{layers.shape[2]} wide: set width = {layers.shape[2]} in the listener's config"
        )


def _read(model: ElmoListener, docs: Sequence[Doc]) -> Optional[Layers]:
    """The layers that the pipe stored; None, with a warning, where it did not run."""
    name = model.pipe_name
    if model.upstream is not None:
        # span.as_doc() keeps hooks and loses layers: spaCy's entity_linker reads such Docs.
        model.upstream.annotate([d for d in docs if d._.elmo is None and has_hooks(d)])
        name = model.upstream.name
    layers = [doc._.elmo if name == "*" else get_layers(doc, name) for doc in docs]
    absent = sum(values is None for values in layers)
    if not absent:
        return layers
    if absent < len(docs):
        raise ValueError(
            f"{absent} of {len(docs)} Docs have no ELMo layers, the others do: run 'elmo' "
            f"over all Docs, or over none"
        )
    if not model.has_warned and any(len(doc) for doc in docs):
        model.has_warned = True
        warnings.warn(
            f"no ELMo layers on the Docs: the pipe '{name}' that this component listens to "
            f"is disabled, has another name, or stands after it. It predicts from zeros.",
            stacklevel=2,
        )
    return None
