"""Connection of an `elmo` pipe with its listeners, with the methods of spaCy's own tok2vec pipe.

spaCy calls `find_listeners` of a pipe for every component after it, each time the pipeline changes,
but not when a disabled component is enabled again. So the pipe remembers all listeners that it has
seen, and connects the missing ones when it needs them (`has_listeners`).
"""

import copy
import inspect
from collections.abc import Callable
from typing import Any, Optional
from weakref import WeakKeyDictionary

from spacy import util
from spacy.language import Language
from spacy.pipeline.tok2vec import Tok2VecListener
from spacy.training.initialize import init_nlp
from thinc.api import Model
from thinc.layers.residual import init

from ..embedding.settings import ElmoSettings
from ..layers.bilm import BiLMModel, BiLMShim, get_shim
from ..layers.listener import ElmoListener


class _Existing(WeakKeyDictionary):
    """Dict from listeners to the names of their components, without listeners that were deleted.

    Unlike a WeakKeyDictionary, it can be pickled. In a copy of the pipeline, the dict contains the
    copied listeners.
    """

    def __reduce__(self) -> tuple:
        return type(self), (dict(self),)

    def __deepcopy__(self, memo: dict[int, Any]) -> "_Existing":
        for node in list(self):
            if isinstance(node, ElmoListener):
                # Copy the pipe first, so that the copied listener refers to the copied pipe.
                copy.deepcopy(node.upstream, memo)
        return type(self)(copy.deepcopy(dict(self), memo))


def variables_of(function: Callable) -> Optional[dict[str, Any]]:
    """Return the local variables of the spaCy function that called the current callback.

    spaCy does not pass all the values that a callback needs. The callback must call `variables_of`
    directly.

    function (Callable): The function of spaCy.
    RETURNS (Optional[dict]): The variables; None if another function called the callback.
    """
    frame = inspect.currentframe()
    for _ in range(2):
        frame = frame and frame.f_back
    if frame is None or frame.f_code is not function.__code__:
        return None
    return frame.f_locals


def updated_pipeline() -> Optional[Language]:
    """Return the pipeline whose `update` is running; None if no pipeline is updated."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_code is not Language.update.__code__:
        frame = frame.f_back
    return None if frame is None else frame.f_locals["self"]


class Listening:
    """Base class of a pipe with listeners. It has the methods of spaCy's `ListenedToComponent`.

    It also records whether components after the pipe read the output of spaCy's own tok2vec pipe
    from `doc.tensor`, so that `elmo` does not overwrite it.
    """

    name: str
    model: BiLMModel

    def __init__(self) -> None:
        self.listener_map = {}
        # These include the listeners of disabled components, and listeners to other pipes.
        self._seen_listeners = _Existing()
        self._tensor_readers = _Existing()

    @property
    def settings(self) -> ElmoSettings:
        """Settings of the pipe."""
        return self._shim.settings

    @settings.setter
    def settings(self, settings: ElmoSettings) -> None:
        if settings.store_layers is False and self.has_listeners():
            raise self._stores_nothing(next(iter(self._seen_listeners.values())))
        sets_vectors = settings.set_vectors and not self.settings.set_vectors
        self._shim.settings = settings
        if sets_vectors:
            for component_name in self._tensor_readers.values():
                self._leave_tensor_to(component_name)

    @property
    def _shim(self) -> BiLMShim:
        return get_shim(self.model)

    @property
    def listener_map(self) -> dict[str, list[ElmoListener]]:
        """Dict from the name of a component to its listeners that are connected to this pipe.

        When the pipeline changes, spaCy empties the dict, and calls `find_listeners` for each
        enabled component after this pipe. Enabling a component is no such change.
        """
        return self._listener_map

    @listener_map.setter
    def listener_map(self, listeners: dict[str, list[ElmoListener]]) -> None:
        self._listener_map = listeners
        self._is_nearest = True

    @property
    def listeners(self) -> list[ElmoListener]:
        """Listeners of all components in `listener_map`."""
        return [node for nodes in self.listener_map.values() for node in nodes]

    @property
    def listening_components(self) -> list[str]:
        """Names of the components with connected listeners.

        While `spacy train` starts, the list is empty for a frozen pipe, to prevent wrong warnings.
        """
        # `spacy train` would warn that a frozen pipe sets no layers (W086), and that a frozen
        # component gets worse (W087). Neither is true: listeners request layers, and frozen
        # weights do not change.
        train = variables_of(init_nlp)
        if train and (self.settings.frozen or self.name in train["frozen_components"]):
            return []
        return list(self.listener_map)

    def has_listeners(self) -> bool:
        """Check whether any component, enabled or disabled, has a listener to this pipe.

        First, this connects listeners that were trained on this pipe, but have no pipe now: they
        were loaded while this pipe was disabled, and spaCy does not call `find_listeners` when the
        pipe is enabled.
        """
        for node, component_name in list(self._seen_listeners.items()):
            if node.upstream is None and node.pipe_name == self.name:
                self.add_listener(node, component_name)
        return any(node.upstream is self for node in self._seen_listeners)

    def add_listener(self, listener: ElmoListener, component_name: str) -> None:
        """Connect a listener to this pipe.

        listener (ElmoListener): The listener.
        component_name (str): Name of the component that contains the listener.
        RAISES (ValueError): `store_layers` of this pipe is False.
        """
        if self.settings.store_layers is False:
            raise self._stores_nothing(component_name)
        nodes = self.listener_map.setdefault(component_name, [])
        if listener not in nodes:
            nodes.append(listener)
        self._seen_listeners[listener] = component_name
        listener.upstream = self
        listener.component = component_name

    def remove_listener(self, listener: ElmoListener, component_name: str) -> bool:
        """Disconnect a listener from this pipe.

        listener (ElmoListener): The listener.
        component_name (str): Name of the component that contains the listener.
        RETURNS (bool): Whether it was connected.
        """
        nodes = self.listener_map.get(component_name, [])
        if listener not in nodes:
            return False
        listener.upstream = None
        self._seen_listeners.pop(listener, None)
        # Make a new list, because `Language.replace_listeners` iterates over the old one.
        self.listener_map[component_name] = [node for node in nodes if node is not listener]
        if not self.listener_map[component_name]:
            del self.listener_map[component_name]
        return True

    def find_listeners(self, component: Any) -> None:
        """Connect the listeners of a component to this pipe.

        A listener is connected in three cases: its `upstream` is the name of this pipe; or it was
        trained on this pipe; or its `upstream` is "*", it is not trained yet, and no other `elmo`
        pipe is between this pipe and the component.

        component (Callable[[Doc], Doc]): The component.
        """
        linking = variables_of(Language._link_components)
        pipes = [pipe for _, pipe in linking["self"]._components] if linking else None
        if isinstance(component, Listening):
            self._is_nearest = False
        model = getattr(component, "model", None)
        if not isinstance(model, Model):
            return
        for node in model.walk():
            if isinstance(node, ElmoListener):
                infer_residual_widths(model)
                self._seen_listeners[node] = component.name
                is_any = node.pipe_name == "*" and self._is_nearest
                if is_any or node.upstream_name == self.name or node.is_trained_on(self):
                    self.add_listener(node, component.name)
                # A component from another pipeline (`source`) still refers to the pipe there.
                elif node.upstream is self or (pipes and node.upstream not in pipes):
                    node.upstream = None
            elif isinstance(node, Tok2VecListener) and node not in self._tensor_readers:
                self._tensor_readers[node] = component.name
                if self.settings.set_vectors:
                    self._leave_tensor_to(component.name)

    def _stores_nothing(self, component_name: str) -> ValueError:
        return ValueError(
            f"'{component_name}' listens to '{self.name}', which has store_layers = false. "
            f"Set it to true or 'auto'."
        )

    def _leave_tensor_to(self, component_name: str) -> None:
        """Warn that this pipe does not set `doc.tensor`.

        component_name (str): The component that reads spaCy's own tok2vec from `doc.tensor`.
        """
        util.logger.warning(
            "'%s' comes before '%s', which reads the vectors of spaCy's own tok2vec from "
            "doc.tensor. So '%s' does not set doc.tensor, and .vector is not contextual. To get "
            "contextual vectors, move '%s' after '%s'. To silence this warning, set "
            "set_vectors = false.",
            *(self.name, component_name, self.name, self.name, component_name),
        )


def infer_residual_widths(model: Model) -> None:
    """Let the input decide the width of each residual layer that has no width yet.

    Thinc would use the width of the component's output, which is wrong in `spacy.EntityLinker.v2`.

    model (Model): The component's model.
    """
    for node in model.walk():
        if node.name.startswith("residual(") and node.has_dim("nO") is None:
            node.init = init_as_wide_as_input


def init_as_wide_as_input(model: Model, X: Any = None, Y: Any = None) -> None:
    """Initialize a residual layer with the width of its input X instead of its target Y."""
    init(model, X=X, Y=X)
