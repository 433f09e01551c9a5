"""spaCy's protocol of a component that others listen to."""

import copy
import inspect
from collections.abc import Callable
from typing import Any, Optional, cast
from weakref import WeakKeyDictionary

from spacy import util
from spacy.pipeline.tok2vec import Tok2VecListener
from spacy.training.initialize import init_nlp
from thinc.api import Model

from ..embedding.settings import ElmoSettings
from ..layers.bilm import BiLMModel, BiLMShim, get_shim
from ..layers.listener import ElmoListener, Upstream
from ..layers.residual import infer_residual_widths


class _Existing(WeakKeyDictionary):
    """Listeners as long as something else holds them, and the names of their components. Unlike
    a WeakKeyDictionary it can be pickled, and in a copied pipeline it has the copies."""

    def __reduce__(self) -> tuple:
        return type(self), (dict(self),)

    def __deepcopy__(self, memo: dict[int, Any]) -> "_Existing":
        for node in list(self):
            if isinstance(node, ElmoListener):
                copy.deepcopy(node.upstream, memo)  # before the listener, which then refers to it
        return type(self)(copy.deepcopy(dict(self), memo))


def variables_of(function: Callable) -> Optional[dict[str, Any]]:
    """Find what spaCy does not pass on to what it calls.

    function (Callable): A function of spaCy.
    RETURNS (Optional[dict]): Its variables, if it called the caller of this function.
    """
    frame = inspect.currentframe()
    for _ in range(2):
        frame = frame and frame.f_back
    if frame is None or frame.f_code is not function.__code__:
        return None
    return frame.f_locals


class Listening:
    """Keeps the listeners of a pipe (spaCy's `ListenedToComponent`), and the
    components that read `doc.tensor` as spaCy's own tok2vec wrote it."""

    name: str
    model: BiLMModel

    def __init__(self) -> None:
        self.listener_map = {}
        # They stay as long as they exist: in a disabled component, and those of other pipes, too.
        self._seen_listeners = _Existing()
        self._tensor_readers = _Existing()

    @property
    def settings(self) -> ElmoSettings:
        """RETURNS (ElmoSettings): The settings of the pipe."""
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
    def sizes(self) -> tuple[int, int]:
        """RETURNS (Tuple[int, int]): Layers of the language model, L + 1, and their width, 2P.
        RAISES (ValueError): It has no weights, or they cannot be read."""
        return self._shim.sizes

    @property
    def listener_map(self) -> dict[str, list[ElmoListener]]:
        """RETURNS (Dict[str, List[ElmoListener]]): The listeners by component. spaCy empties it
        and then calls `find_listeners` for what follows and is enabled; what is disabled may
        be enabled again without another call."""
        return self._listener_map

    @listener_map.setter
    def listener_map(self, listeners: dict[str, list[ElmoListener]]) -> None:
        self._listener_map = listeners
        self._is_nearest = True

    @property
    def listeners(self) -> list[ElmoListener]:
        """RETURNS (List[ElmoListener]): All listeners."""
        return [node for nodes in self.listener_map.values() for node in nodes]

    @property
    def listening_components(self) -> list[str]:
        """RETURNS (List[str]): Names of the components that listen."""
        # `spacy train` would warn that a frozen pipe gives no layers (W086), and that a frozen
        # component becomes worse (W087). Listeners ask for layers, and frozen weights stay.
        train = variables_of(init_nlp)
        if train and (self.settings.frozen or self.name in train["frozen_components"]):
            return []
        return list(self.listener_map)

    def has_listeners(self) -> bool:
        """RETURNS (bool): Whether anything listens, if only in a disabled component. Listeners
        that were trained on this pipe are connected: it may have been disabled when they were
        loaded, and nothing is called when it is enabled."""
        for node, component_name in list(self._seen_listeners.items()):
            if node.upstream is None and node.pipe_name == self.name:
                self.add_listener(node, component_name)
        return any(node.upstream is self for node in self._seen_listeners)

    def add_listener(self, listener: ElmoListener, component_name: str) -> None:
        """Connect a listener.

        listener (ElmoListener): The listener.
        component_name (str): The component that it belongs to.
        """
        if self.settings.store_layers is False:
            raise self._stores_nothing(component_name)
        nodes = self.listener_map.setdefault(component_name, [])
        if listener not in nodes:
            nodes.append(listener)
        self._seen_listeners[listener] = component_name
        listener.upstream = cast(Upstream, self)
        listener.component = component_name

    def remove_listener(self, listener: ElmoListener, component_name: str) -> bool:
        """Disconnect a listener.

        listener (ElmoListener): The listener.
        component_name (str): The component that it belongs to.
        RETURNS (bool): Whether it was connected.
        """
        nodes = self.listener_map.get(component_name, [])
        if listener not in nodes:
            return False
        listener.upstream = None
        self._seen_listeners.pop(listener, None)
        # A new list: `Language.replace_listeners` is running over the old one.
        self.listener_map[component_name] = [node for node in nodes if node is not listener]
        if not self.listener_map[component_name]:
            del self.listener_map[component_name]
        return True

    def find_listeners(self, component: Any) -> None:
        """Connect the listeners of a component that ask for this pipe or, where no other
        language model stands nearer, for any and were trained on none.

        component (Callable[[Doc], Doc]): The component.
        """
        if isinstance(component, Listening):
            self._is_nearest = False
        model = getattr(component, "model", None)
        if not isinstance(model, Model):
            return
        for node in model.walk():
            if isinstance(node, ElmoListener):
                infer_residual_widths(model)
                self._seen_listeners[node] = component.name
                this = cast(Upstream, self)
                is_any = node.pipe_name == "*" and self._is_nearest
                if is_any or node.upstream_name == self.name or node.is_trained_on(this):
                    self.add_listener(node, component.name)
                elif node.upstream is this:
                    node.upstream = None
            elif isinstance(node, Tok2VecListener) and node not in self._tensor_readers:
                self._tensor_readers[node] = component.name
                if self.settings.set_vectors:
                    self._leave_tensor_to(component.name)

    def _stores_nothing(self, component_name: str) -> ValueError:
        return ValueError(
            f"'{component_name}' listens to '{self.name}', which has store_layers = false: "
            f"set it to true or 'auto'"
        )

    def _leave_tensor_to(self, component_name: str) -> None:
        """Log that this component reads spaCy's vectors in `doc.tensor`, which is one slot."""
        util.logger.warning(
            "'%s' stands before '%s', which reads the vectors of spaCy's own tok2vec from "
            "doc.tensor: '%s' leaves doc.tensor alone, and .vector is not contextual. To change "
            "that put '%s' after '%s'; to silence this, set_vectors = false.",
            *(self.name, component_name, self.name, self.name, component_name),
        )
