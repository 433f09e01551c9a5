"""Support for `nlp.replace_listeners`: a copy of the language model replaces a listener.

The user gives the paths of listeners in the component's config, such as `model.tok2vec`. spaCy
first calls `ReplacedConfig` for each path and writes the new config there, then calls
`replace_listener` for each listener in the model. spaCy does not check the paths. With a wrong
path, config and model do not fit: the pipeline can be saved, but not loaded.

spaCy passes neither the paths nor the component to the first callback. So the new configs are
checked, and get the settings of their mixes, when spaCy calls the second one. If a path was wrong,
the component's config is restored before the error is raised. Two cases remain. An error of spaCy
between the callbacks (E886) leaves the config changed, as with spaCy's own tok2vec. And if the pipe
does not know the pipeline (`Listening.home`), wrong paths are not found.
"""

import copy
from collections.abc import Iterator
from typing import Any, Optional

from spacy.tokens import Doc
from spacy.util import dot_to_object
from thinc.api import Config, Model
from thinc.types import Floats2d

from ..layers.bilm import BiLMModel, get_shim, join_tok2vec
from ..layers.listener import ElmoListener
from .listening import Listening

LISTENER = "spacy-elmo.ElmoListener.v1"


def replace_listener(
    model: BiLMModel, listener: ElmoListener, pipe: object
) -> Model[list[Doc], list[Floats2d]]:
    """Make the model that replaces a listener: a copy of the pipe's model, and the listener's mix.

    `nlp.replace_listeners` calls this function.

    model (Model[List[Doc], List[Floats3d]]): A copy of the pipe's model, which spaCy has made.
    listener (ElmoListener): The listener to replace.
    pipe (Elmo): The pipe.
    RETURNS (Model[List[Doc], List[Floats2d]]): A Tok2VecElmo.
    RAISES (ValueError): The paths in the call of `nlp.replace_listeners` are not the paths of the
        component's listeners to this pipe, or are an iterator.
    """
    model.attrs["replace_listener_cfg"].finish(listener)
    for name in ("replace_listener", "replace_listener_cfg"):
        del model.attrs[name]  # Only the pipe's own model needs these callbacks.
    return join_tok2vec(model, listener.mix)


class ReplacedConfig:
    """Callback that makes the config of the Tok2VecElmo that replaces a listener.

    pipe (Elmo): The pipe that the listener reads.
    """

    def __init__(self, pipe: Listening):
        self.pipe = pipe
        self._change: Optional[_Change] = None
        self._unfinished: list[ElmoListener] = []

    def __call__(self, bilm: dict[str, Any], tok2vec: dict[str, Any]) -> dict[str, Any]:
        """Make the config that replaces the listener's config.

        bilm (dict): Config of the pipe's model.
        tok2vec (dict): Config of the component's tok2vec. spaCy passes no other part of the
            component's config.
        RETURNS (dict): The new config. `finish` checks its path, and adds the settings of the mix.
        """
        config = self._config_with(tok2vec)
        if self._change is None or self._change.config is not config:
            self._change = _Change(config)
        made = self._change.made
        # The mix may be the one of another listener. If so, `finish` replaces it.
        blocks = [*dict(self._listeners(tok2vec)).values(), *made]
        shim = get_shim(self.pipe.model)
        block = {
            "@architectures": "spacy-elmo.Tok2VecElmo.v1",
            "bilm": {**bilm, **shim.bilm.config.to_dict()},
            "mix": copy.deepcopy(blocks[0].get("mix")) if blocks else None,
            **shim.settings.tok2vec_config(),
        }
        made.append(block)
        return block

    def finish(self, listener: ElmoListener) -> None:
        """Check the new configs of a component, before its first listener is replaced.

        listener (ElmoListener): The next listener that will be replaced.
        RAISES (ValueError): A path in the call of `nlp.replace_listeners` is not the path of a
            listener to this pipe, or is given twice, or the paths are an iterator.
        """
        if listener in self._unfinished:
            self._unfinished.remove(listener)
            return
        change, self._change = self._change, None
        name = listener.component
        if change is None:  # spaCy has only counted the paths, which consumes an iterator.
            raise ValueError(
                f"replace_listeners of '{name}': the paths are an iterator. Give a list."
            )
        listeners = self.pipe.listener_map[name]
        if change.config is not None:
            self._check_paths(change, name, len(listeners))
        self._unfinished = [one for one in listeners if one is not listener]

    def __deepcopy__(self, memo: object) -> "ReplacedConfig":
        return self  # A copy of the model must not copy the pipe and its weights.

    def _check_paths(self, change: "_Change", name: str, n_listeners: int) -> None:
        """Check that new configs are at the paths of listeners only, and add the mixes.

        spaCy has checked the number of paths. Blocks with `upstream = "*"` may be more, because
        they can belong to another pipe.
        """
        blocks = dict(self._listeners(change.before))
        # The user's own architecture may make listeners that have no block in the config.
        if len(blocks) < n_listeners:
            return
        new = {path: made for path in blocks if (made := change.made_at(path)) is not None}
        if len(new) < n_listeners:
            change.undo()
            raise ValueError(
                f"replace_listeners of '{name}': its listeners to '{self.pipe.name}' are "
                f"{list(blocks)}. Give these paths, each once."
            )
        for path, block in new.items():
            block["mix"] = blocks[path].get("mix")

    def _config_with(self, tok2vec: dict[str, Any]) -> Optional[Config]:
        """Return the config of the component that contains this config; None if it is unknown."""
        nlp = self.pipe.home
        if nlp is None:
            return None
        for name in nlp.component_names:
            config = nlp.get_pipe_config(name)
            model = config.get("model")
            if isinstance(model, dict) and model.get("tok2vec") is tok2vec:
                return config
        return None

    def _listeners(self, config: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield path and config block of each listener to the pipe, also in nested blocks."""
        if not isinstance(config, dict):
            return
        upstream = config.get("upstream", "*")
        if config.get("@architectures") == LISTENER and upstream in ("*", self.pipe.name):
            yield path, config
        for name, block in config.items():
            yield from self._listeners(block, f"{path}.{name}" if path else name)


class _Change:
    """Change of a component's config.

    config (Optional[Config]): The config, which spaCy changes. None if it is unknown.
    """

    def __init__(self, config: Optional[Config]):
        self.config = config
        self.before = copy.deepcopy(config)
        self.made: list[dict[str, Any]] = []

    def undo(self) -> None:
        """Restore the config."""
        if self.config is not None:
            self.config.clear()
            self.config.update(self.before)

    def made_at(self, path: str) -> Optional[dict[str, Any]]:
        """Return the new block at a path; None if there is none."""
        try:
            block = dot_to_object(self.config, path)
        except KeyError:
            return None
        return next((one for one in self.made if one is block), None)
