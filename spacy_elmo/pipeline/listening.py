"""Connection of an `elmo` pipe with its listeners, with the methods of spaCy's own tok2vec pipe.

spaCy calls `find_listeners` of a pipe for every component after it, each time the pipeline changes,
but not when a disabled component is enabled again. So the pipe remembers all listeners that it has
seen, and connects the missing ones before it predicts or trains (`connect_lost_listeners`), as well
as those that another pipeline with the same component has connected to a pipe there.

spaCy does not say for which pipeline it connects pipes. A component that was added from another
pipeline (`source`) is in both, and still refers to the pipe there. `_is_elsewhere` finds this out
from the pipeline that the factory or `initialize` got, and from the pipes that spaCy connects now.
"""

import copy
import logging
import weakref
from typing import Any, Optional, cast
from weakref import WeakKeyDictionary, WeakSet, WeakValueDictionary

from spacy import util
from spacy.errors import Warnings
from spacy.language import Language
from spacy.pipeline.tok2vec import Tok2VecListener
from thinc.api import Model

from ..compat import init_residual
from ..embedding.settings import ElmoSettings
from ..layers.bilm import BiLMModel, get_shim
from ..layers.bilm_shim import BiLMShim
from ..layers.listener import ElmoListener, Upstream


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


class _Neighbors(WeakSet):
    """Pipes that spaCy connects together with a pipe. They are not copied with it."""

    def __reduce__(self) -> tuple:
        return type(self), ()


class _Home:
    """Weak reference to a pipeline. In a copy of the pipeline, it refers to the copy."""

    def __init__(self, nlp: Optional[Language] = None):
        self.get = (lambda: None) if nlp is None else weakref.ref(nlp)

    def __deepcopy__(self, memo: dict[int, Any]) -> "_Home":
        return _Home(memo.get(id(self.get())))

    def __reduce__(self) -> tuple:
        return _Home, ()  # A pickle of the pipe does not contain the pipeline.


class _FalseWarnings(logging.Filter):
    """Filter for two warnings of `spacy train` that are false for `elmo` pipes.

    W086: a component is trained, but the pipe that it listens to is excluded from the updates and
    does not annotate. This is no problem here, because our listeners request the layers.
    W087: a frozen component gets worse, because the pipe that it listens to is trained. This is
    false for frozen weights.
    """

    def __init__(self) -> None:
        super().__init__()
        # The pipe of each name that spaCy has connected last. `spacy train` warns about this pipe.
        self.pipes: WeakValueDictionary[str, Listening] = WeakValueDictionary()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return False for the two warnings about a listener of an `elmo` pipe."""
        message = record.getMessage()
        if not message.startswith(("[W086]", "[W087]")):
            return True
        return not any(message in pipe.false_warnings() for pipe in self.pipes.values())


_FALSE_WARNINGS = _FalseWarnings()
util.logger.addFilter(_FALSE_WARNINGS)


class Listening:
    """Base class of a pipe with listeners. It has the methods of spaCy's `ListenedToComponent`.

    It also records whether components after the pipe read the output of spaCy's own tok2vec pipe
    from `doc.tensor`, so that `elmo` does not overwrite it.
    """

    name: str
    model: BiLMModel

    def __init__(self) -> None:
        self._home = _Home()
        self._announced = _Neighbors()
        self.listener_map = {}
        # These include the listeners of disabled components, and listeners to other pipes.
        self._seen_listeners = _Existing()
        self._tensor_readers = _Existing()

    @property
    def home(self) -> Optional[Language]:
        """The pipeline that made or initialized the pipe; None if unknown.

        The pipe can be in other pipelines, too, if it was added to them with `source`.
        """
        return self._home.get()

    @home.setter
    def home(self, nlp: Language) -> None:
        self._home = _Home(nlp)

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
        enabled component after this pipe. Enabling a component is no such change, so this adds the
        listeners of components that were enabled since then, for `nlp.replace_listeners`.
        """
        nlp = self.home
        for name, component in () if nlp is None else nlp.pipeline:
            model = getattr(component, "model", None)
            if name not in self._listener_map and isinstance(model, Model):
                nodes = (node for node in model.walk() if isinstance(node, ElmoListener))
                if connected := [node for node in nodes if node.upstream is self]:
                    self._listener_map[name] = connected
        return self._listener_map

    @listener_map.setter
    def listener_map(self, listeners: dict[str, list[ElmoListener]]) -> None:
        self._listener_map = listeners
        # Before this, `find_listeners` of each earlier pipe has announced itself to this pipe.
        self._earlier_pipes, self._announced = self._announced, _Neighbors()
        self._later_pipes = _Neighbors()
        _FALSE_WARNINGS.pipes[self.name] = self

    @property
    def listeners(self) -> list[ElmoListener]:
        """Listeners of all components in `listener_map`."""
        return [node for nodes in self.listener_map.values() for node in nodes]

    @property
    def listening_components(self) -> list[str]:
        """Names of the components with connected listeners."""
        return list(self.listener_map)

    def false_warnings(self) -> list[str]:
        """Return the messages of spaCy's warnings that are false for this pipe."""
        codes = [Warnings.W086, Warnings.W087] if self.settings.frozen else [Warnings.W086]
        names = self.listening_components
        return [code.format(name=self.name, listener=name) for code in codes for name in names]

    def has_listeners(self) -> bool:
        """Check whether any component, enabled or disabled, has a listener to this pipe."""
        return bool(self.connected_listeners() or self._lost_listeners())

    def connected_listeners(self) -> list[ElmoListener]:
        """Return all listeners that are connected to this pipe.

        Unlike `listener_map`, they include those of a component that was disabled when spaCy
        connected the pipeline, and that may be enabled now.
        """
        return [node for node in list(self._seen_listeners) if node.upstream is self]

    def connect_lost_listeners(self) -> None:
        """Connect listeners of this pipe that have no pipe or another pipe now.

        Those without a pipe were loaded while this pipe was disabled, and spaCy does not call
        `find_listeners` when the pipe is enabled. Those with another pipe are also in a second
        pipeline, which has connected them last.
        """
        for node, component_name in self._lost_listeners():
            self.add_listener(node, component_name)
        if self._is_removed():
            return
        for component_name, nodes in list(self._listener_map.items()):
            for node in nodes:
                if node.upstream is not self:
                    self.add_listener(node, component_name)

    def _is_removed(self) -> bool:
        """Check whether the pipe was removed from its pipeline. It may still be in another one."""
        nlp = self.home
        return nlp is not None and all(one is not self for _, one in nlp.components)

    def take_name(self, name: str) -> None:
        """Use the name that the pipe has in the pipeline that is being saved.

        A pipe can have another name in a second pipeline, from which spaCy may have taken the name
        of the pipe. Listeners save this name.

        name (str): The name.
        """
        if name != self.name:
            self.name = name
            for node in self.connected_listeners():
                node.upstream = cast(Upstream, self)

    def _lost_listeners(self) -> list[tuple[ElmoListener, str]]:
        return [
            (node, component_name)
            for node, component_name in list(self._seen_listeners.items())
            if node.upstream is None and node.pipe_name == self.name
        ]

    def add_listener(self, listener: ElmoListener, component_name: str) -> None:
        """Connect a listener to this pipe.

        listener (ElmoListener): The listener.
        component_name (str): Name of the component that contains the listener.
        RAISES (ValueError): `store_layers` of this pipe is False.
        """
        if self.settings.store_layers is False:
            raise self._stores_nothing(component_name)
        nodes = self._listener_map.setdefault(component_name, [])
        if listener not in nodes:
            nodes.append(listener)
        self._seen_listeners[listener] = component_name
        listener.upstream = cast(Upstream, self)  # The subclass `Elmo` has all its methods.
        listener.component = component_name

    def remove_listener(self, listener: ElmoListener, component_name: str) -> bool:
        """Disconnect a listener from this pipe.

        listener (ElmoListener): The listener.
        component_name (str): Name of the component that contains the listener.
        RETURNS (bool): Whether it was connected.
        """
        nodes = self._listener_map.get(component_name, [])
        if listener not in nodes:
            return False
        listener.upstream = None
        self._seen_listeners.pop(listener, None)
        # Make a new list, because `Language.replace_listeners` iterates over the old one.
        self._listener_map[component_name] = [node for node in nodes if node is not listener]
        if not self._listener_map[component_name]:
            del self._listener_map[component_name]
        return True

    def find_listeners(self, component: Any) -> None:
        """Connect the listeners of a component to this pipe.

        A listener is connected in three cases: its `upstream` is the name of this pipe; or it was
        trained on this pipe; or its `upstream` is "*", it is not trained yet, and no other `elmo`
        pipe is between this pipe and the component.

        component (Callable[[Doc], Doc]): The component.
        """
        if isinstance(component, Listening):
            self._later_pipes.add(component)
            component._announced.add(self)
        model = getattr(component, "model", None)
        if not isinstance(model, Model):
            return
        for node in model.walk():
            if isinstance(node, ElmoListener):
                infer_residual_widths(model)
                self._seen_listeners[node] = component.name
                is_any = node.pipe_name == "*" and not self._later_pipes
                if is_any or node.upstream_name == self.name or node.is_trained_on(self):
                    self.add_listener(node, component.name)
                elif node.upstream is self or self._is_elsewhere(node.upstream, component):
                    node.upstream = None
            elif isinstance(node, Tok2VecListener) and node not in self._tensor_readers:
                self._tensor_readers[node] = component.name
                if self.settings.set_vectors:
                    self._leave_tensor_to(component.name)

    def _is_elsewhere(self, pipe: Optional[Upstream], component: Any) -> bool:
        """Check whether a component comes from another pipeline, and listens to a pipe only there.

        If spaCy connected the listeners of that other pipeline, it would also connect `pipe`,
        unless the pipe is disabled.
        """
        if not isinstance(pipe, Listening) or pipe in {*self._earlier_pipes, *self._later_pipes}:
            return False
        nlp = pipe.home
        if nlp is None or all(one is not component for _, one in nlp.components):
            return False
        return pipe.name not in nlp.disabled

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
    init_residual(model, X, X)
