"""What `nlp.replace_listeners` makes of a listener: a language model of its own."""

from typing import Any

from spacy.tokens import Doc
from thinc.api import Model
from thinc.types import Floats2d

from ..layers.bilm import BiLMModel, get_shim, join_tok2vec
from ..layers.listener import ElmoListener
from .listening import Listening

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
    """
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
        tok2vec (dict): Config of the component's tok2vec: the listener, or
            something that contains it. spaCy shows no other place of a component.
        RETURNS (dict): The config in place of the listener's. The mix of a listener at
            another place gets the default settings, until what was saved is loaded.
        """
        shim = get_shim(self.pipe.model)
        return {
            "@architectures": "spacy-elmo.Tok2VecElmo.v1",
            "bilm": {**bilm, **shim.bilm.config.to_dict()},
            "mix": _find_listener(tok2vec, self.pipe.name).get("mix"),
            **shim.settings.tok2vec_config(),
        }

    def __deepcopy__(self, memo: object) -> "ReplacedConfig":
        return self  # a copied model must not copy the weights once more


def _find_listener(config: Any, pipe: str) -> dict[str, Any]:
    """The first config block of a listener to a pipe, at any depth; empty where there is none."""
    blocks = [config]
    for block in blocks:
        if isinstance(block, dict):
            upstream = block.get("upstream", "*")
            if block.get("@architectures") == LISTENER and upstream in ("*", pipe):
                return block
            blocks.extend(block.values())
    return {}
