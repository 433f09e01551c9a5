"""Support for `nlp.replace_listeners`: a copy of the language model replaces a listener.

The user gives the paths of listeners in the component's config, such as `model.tok2vec`. spaCy
writes the new config to these paths, and replaces the listeners in the model. spaCy does not check
the paths. With a wrong path, config and model do not fit: the pipeline can be saved, but not
loaded. So we check the paths before spaCy changes anything.

spaCy passes neither the paths nor the component's config to its callbacks. We read them from the
local variables of `replace_listeners`. If a later version of spaCy changes that function, we check
nothing.
"""

from collections.abc import Iterator
from typing import Any

from spacy.language import Language
from spacy.tokens import Doc
from spacy.util import dot_to_object
from thinc.api import Model
from thinc.types import Floats2d

from ..layers.bilm import BiLMModel, get_shim, join_tok2vec
from ..layers.listener import ElmoListener
from .listening import Listening, variables_of

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
    RAISES (ValueError): The user gave the paths as an iterator, which spaCy has already consumed.
    """
    call = variables_of(Language.replace_listeners)
    if call is not None and isinstance(call["listeners"], Iterator):
        raise ValueError(
            f"replace_listeners of '{call['pipe_name']}': the paths are an iterator. Give a list."
        )
    for name in ("replace_listener", "replace_listener_cfg"):
        del model.attrs[name]  # Only the pipe's own model needs these callbacks.
    return join_tok2vec(model, listener.mix)


class ReplacedConfig:
    """Callback that makes the config of the Tok2VecElmo that replaces a listener.

    pipe (Elmo): The pipe that the listener reads.
    """

    def __init__(self, pipe: Listening):
        self.pipe = pipe

    def __call__(self, bilm: dict[str, Any], tok2vec: dict[str, Any]) -> dict[str, Any]:
        """Make the config that replaces the listener's config.

        bilm (dict): Config of the pipe's model.
        tok2vec (dict): Config of the component's tok2vec. spaCy passes no other part of the
            component's config.
        RETURNS (dict): The new config.
        RAISES (ValueError): A path in the call of `nlp.replace_listeners` is not the path of a
            listener to this pipe, or is given twice.
        """
        call = variables_of(Language.replace_listeners)
        if call is None:
            listener = next((block for _, block in self._listeners(tok2vec)), {})
        else:
            self._check_paths(call)
            listener = dot_to_object(call["pipe_cfg"], call["listener_path"])
        shim = get_shim(self.pipe.model)
        return {
            "@architectures": "spacy-elmo.Tok2VecElmo.v1",
            "bilm": {**bilm, **shim.bilm.config.to_dict()},
            "mix": listener.get("mix"),
            **shim.settings.tok2vec_config(),
        }

    def __deepcopy__(self, memo: object) -> "ReplacedConfig":
        return self  # A copy of the model must not copy the pipe and its weights.

    def _check_paths(self, call: dict[str, Any]) -> None:
        """Check the paths in the call of `nlp.replace_listeners`, before spaCy changes the config.

        RAISES (ValueError): A path is not the path of a listener to this pipe, or is given twice.
        """
        given = list(call["listeners"])
        if given[0] != call["listener_path"]:
            return
        listeners = [path for path, _ in self._listeners(call["pipe_cfg"])]
        # The user's own architecture may make listeners that have no block in the config.
        if len(listeners) < len(call["pipe_listeners"]):
            return
        if len(set(given)) < len(given) or not set(given) <= set(listeners):
            raise ValueError(
                f"replace_listeners of '{call['pipe_name']}': its listeners to '{self.pipe.name}' "
                f"are {listeners}, got {given}. Give these paths, each once."
            )

    def _listeners(self, config: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield path and config block of each listener to the pipe, also in nested blocks."""
        if not isinstance(config, dict):
            return
        upstream = config.get("upstream", "*")
        if config.get("@architectures") == LISTENER and upstream in ("*", self.pipe.name):
            yield path, config
        for name, block in config.items():
            yield from self._listeners(block, f"{path}.{name}" if path else name)
