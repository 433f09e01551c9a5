"""A language model of its own in place of a listener (`nlp.replace_listeners`).

spaCy writes the new config wherever the user's path points, and replaces the listeners of the
model without a look at it. A path that is no listener leaves a config that does not belong to the
model: the pipeline is saved, and cannot be loaded. spaCy passes its callbacks neither the paths
nor the config of the component, so they are read from the variables of `replace_listeners`,
before it changes anything. If that function is another one in a later spaCy, nothing is checked.
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


def enable_replacing(pipe: Listening) -> None:
    """Give the model of a pipe the two attributes that spaCy looks for.

    pipe (Elmo): The pipe.
    """
    pipe.model.attrs["replace_listener"] = replace_listener
    pipe.model.attrs["replace_listener_cfg"] = ReplacedConfig(pipe)


def replace_listener(
    model: BiLMModel, listener: ElmoListener, pipe: object
) -> Model[list[Doc], list[Floats2d]]:
    """Join a copy of the pipe's model with the mix that the listener learned.

    model (Model[List[Doc], List[Floats3d]]): The copy.
    listener (ElmoListener): The listener to replace.
    pipe (Elmo): The pipe.
    RETURNS (Model[List[Doc], List[Floats2d]]): A Tok2VecElmo.
    RAISES (ValueError): The paths are an iterator, which spaCy has read before it used them.
    """
    call = variables_of(Language.replace_listeners)
    if call is not None and isinstance(call["listeners"], Iterator):
        raise ValueError(f"replace_listeners of '{call['pipe_name']}': give a list of paths")
    for name in ("replace_listener", "replace_listener_cfg"):
        del model.attrs[name]  # they belong to the pipe
    return join_tok2vec(model, listener.mix)


class ReplacedConfig:
    """Writes the config of the Tok2VecElmo that replaces a listener.

    pipe (Elmo): The pipe that is listened to.
    """

    def __init__(self, pipe: Listening):
        self.pipe = pipe

    def __call__(self, bilm: dict[str, Any], tok2vec: dict[str, Any]) -> dict[str, Any]:
        """
        bilm (dict): Config of the pipe's model.
        tok2vec (dict): Config of the component's tok2vec. spaCy shows no other place of a
            component.
        RETURNS (dict): The config in place of the listener's.
        RAISES (ValueError): A path to replace is no listener to this pipe.
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
        return self  # a copied model must not copy the weights once more

    def _check_paths(self, call: dict[str, Any]) -> None:
        """Check all paths while the config is as it was."""
        given = list(call["listeners"])
        if given[0] != call["listener_path"]:
            return
        listeners = [path for path, _ in self._listeners(call["pipe_cfg"])]
        # A user's own architecture may make listeners that no block of the config shows.
        if len(listeners) < len(call["pipe_listeners"]):
            return
        if len(set(given)) < len(given) or not set(given) <= set(listeners):
            raise ValueError(
                f"replace_listeners of '{call['pipe_name']}': its listeners to '{self.pipe.name}' "
                f"are {listeners}. Give each of these paths once, got {given}."
            )

    def _listeners(self, config: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield path and config block of the listeners to the pipe, at any depth."""
        if not isinstance(config, dict):
            return
        upstream = config.get("upstream", "*")
        if config.get("@architectures") == LISTENER and upstream in ("*", self.pipe.name):
            yield path, config
        for name, block in config.items():
            yield from self._listeners(block, f"{path}.{name}" if path else name)
