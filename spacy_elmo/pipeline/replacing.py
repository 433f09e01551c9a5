"""What `nlp.replace_listeners` makes of a listener: a language model of its own."""

from typing import Any, TypeAlias

from spacy.tokens import Doc
from thinc.api import Model
from thinc.types import Floats2d, Floats3d

from ..layers.bilm import BiLMShim, get_shim, join_tok2vec
from ..layers.listener import ElmoListener

LISTENER = "spacy-elmo.ElmoListener.v1"

BiLMModel: TypeAlias = Model[list[Doc], list[Floats3d]]


def enable_replacing(model: BiLMModel) -> None:
    """Give the model the two attributes that spaCy looks for.

    model (Model[List[Doc], List[Floats3d]]): The pipe's model.
    """
    model.attrs["replace_listener"] = replace_listener
    model.attrs["replace_listener_cfg"] = ReplacedConfig(get_shim(model))


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

    shim (BiLMShim): What knows the sizes of the language model, and its settings.
    """

    def __init__(self, shim: BiLMShim):
        self.shim = shim

    def __call__(self, bilm: dict[str, Any], tok2vec: dict[str, Any]) -> dict[str, Any]:
        """
        bilm (dict): Config of the pipe's model.
        tok2vec (dict): Config of the component's tok2vec: the listener, or
            something that contains it.
        RETURNS (dict): The config in place of the listener's.
        """
        return {
            "@architectures": "spacy-elmo.Tok2VecElmo.v1",
            "bilm": {**bilm, **self.shim.bilm.config.to_dict()},
            "mix": _find_listener(tok2vec).get("mix"),
            **self.shim.settings.tok2vec_config(),
        }

    def __deepcopy__(self, memo: object) -> "ReplacedConfig":
        return self  # a copied model must not copy the weights once more


def _find_listener(config: Any) -> dict[str, Any]:
    """The first config block of a listener, at any depth."""
    blocks = [config]
    for block in blocks:
        if isinstance(block, dict):
            if block.get("@architectures") == LISTENER:
                return block
            blocks.extend(block.values())
    raise ValueError(f"the component's model.tok2vec holds no {LISTENER}")
