"""spaCy's protocol of a component that others listen to."""

from typing import Any, cast
from weakref import WeakSet

from spacy import util
from spacy.pipeline.tok2vec import Tok2VecListener
from thinc.api import Model

from ..embedding.settings import ElmoSettings
from ..layers.bilm import BiLMModel, BiLMShim, get_shim
from ..layers.listener import ElmoListener, Upstream


class _Existing(WeakSet):
    """Things as long as something else holds them; unlike a WeakSet it can be pickled."""

    def __reduce__(self) -> tuple:
        return type(self), (list(self),)


class Listening:
    """Keeps the listeners of a pipe (spaCy's `ListenedToComponent`), and the
    components that read `doc.tensor` as spaCy's own tok2vec wrote it."""

    name: str
    model: BiLMModel

    def __init__(self) -> None:
        self.listener_map = {}
        # As long as they exist: in a disabled component, too.
        self._known_listeners = _Existing()
        self._tensor_readers = _Existing()

    @property
    def settings(self) -> ElmoSettings:
        """RETURNS (ElmoSettings): The settings of the pipe."""
        return self._shim.settings

    @settings.setter
    def settings(self, settings: ElmoSettings) -> None:
        self._shim.settings = settings

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
        return list(self.listener_map)

    def add_listener(self, listener: ElmoListener, component_name: str) -> None:
        """Connect a listener.

        listener (ElmoListener): The listener.
        component_name (str): The component that it belongs to.
        """
        if self.settings.store_layers is False:
            raise ValueError(
                f"'{component_name}' listens to '{self.name}', which has store_layers = false: "
                f"set it to true or 'auto'"
            )
        nodes = self.listener_map.setdefault(component_name, [])
        if listener not in nodes:
            nodes.append(listener)
        self._known_listeners.add(listener)
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
        self._known_listeners.discard(listener)
        # A new list: `Language.replace_listeners` is running over the old one.
        self.listener_map[component_name] = [node for node in nodes if node is not listener]
        if not self.listener_map[component_name]:
            del self.listener_map[component_name]
        return True

    def find_listeners(self, component: Any) -> None:
        """Connect the listeners of a component that ask for this pipe or, where no other
        language model stands nearer, for any.

        component (Callable[[Doc], Doc]): The component.
        """
        if isinstance(component, Listening):
            self._is_nearest = False
        model = getattr(component, "model", None)
        if not isinstance(model, Model):
            return
        for node in model.walk():
            if isinstance(node, ElmoListener):
                if node.upstream_name == self.name or (
                    self._is_nearest and node.upstream_name == "*"
                ):
                    self.add_listener(node, component.name)
                else:
                    self._known_listeners.discard(node)  # it may have been this pipe's until now
            elif isinstance(node, Tok2VecListener) and self.settings.set_vectors:
                self._leave_tensor_to(node, component.name)

    def _leave_tensor_to(self, node: Model, component_name: str) -> None:
        """`doc.tensor` is one slot, and this component reads spaCy's vectors there."""
        if node in self._tensor_readers:
            return
        self._tensor_readers.add(node)
        util.logger.warning(
            "'%s' stands before '%s', which reads the vectors of spaCy's own tok2vec from "
            "doc.tensor: '%s' leaves doc.tensor alone, and .vector is not contextual. To change "
            "that put '%s' after '%s'; to silence this, set_vectors = false.",
            *(self.name, component_name, self.name, self.name, component_name),
        )
