"""spaCy's protocol of a component that others listen to."""

from typing import Any, cast

from spacy import util
from spacy.pipeline.tok2vec import Tok2VecListener
from thinc.api import Model

from .layers.listener import ElmoListener, Upstream


class Listening:
    """Keeps the listeners of a pipe (spaCy's `ListenedToComponent`), and the
    components that read `doc.tensor` as spaCy's own tok2vec wrote it."""

    name: str
    set_vectors: bool

    @property
    def listener_map(self) -> dict[str, list[ElmoListener]]:
        """RETURNS (Dict[str, List[ElmoListener]]): Listeners by component."""
        return self._listener_map

    @listener_map.setter
    def listener_map(self, listener_map: dict[str, list[ElmoListener]]) -> None:
        # spaCy empties it and then calls `find_listeners` for what follows.
        self._listener_map = listener_map
        self._tensor_readers: set[str] = set()

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
        nodes = self.listener_map.setdefault(component_name, [])
        if listener not in nodes:
            nodes.append(listener)
        listener.upstream = cast(Upstream, self)

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
        # A new list: `Language.replace_listeners` is running over the old one.
        self.listener_map[component_name] = [node for node in nodes if node is not listener]
        if not self.listener_map[component_name]:
            del self.listener_map[component_name]
        return True

    def find_listeners(self, component: Any) -> None:
        """Connect the listeners of a component that ask for this pipe or any.

        component (Callable[[Doc], Doc]): The component.
        """
        model = getattr(component, "model", None)
        if not isinstance(model, Model):
            return
        for node in model.walk():
            if isinstance(node, ElmoListener) and node.upstream_name in ("*", self.name):
                self.add_listener(node, component.name)
            elif isinstance(node, Tok2VecListener) and self.set_vectors:
                self._leave_tensor_to(component.name)

    def _leave_tensor_to(self, component_name: str) -> None:
        """`doc.tensor` is one slot, and this component reads spaCy's vectors there."""
        self._tensor_readers.add(component_name)
        util.logger.warning(
            "'%s' stands before '%s', which reads the vectors of spaCy's own tok2vec from "
            "doc.tensor: '%s' leaves doc.tensor alone, and .vector is not contextual. To change "
            "that put '%s' after '%s'; to silence this, set_vectors = false.",
            *(self.name, component_name, self.name, self.name, component_name),
        )
