"""ELMo (Peters et al. 2018) in spaCy: contextual vectors from characters."""

from pathlib import Path
from typing import Any, Union

__version__ = "0.1.0"


def pretrained(name_or_path: Union[str, Path]) -> dict[str, Any]:
    """Return a config of the `elmo` pipe for a pretrained language model.

    Example: `nlp.add_pipe("elmo", config=spacy_elmo.pretrained(PATH))`.

    name_or_path (Union[str, Path]): Path, name (such as "original" or "manylangs-fr") or
        `https://` URL of a model. If it is not a local path, the first use downloads the model.
    RETURNS (dict): The settings `weights` and `model`. `model` contains the sizes of the weights.
    RAISES (ValueError): The model does not exist, or its files are broken.
    RAISES (OSError): The model cannot be downloaded.
    """
    from .weights import read_weights

    config = read_weights(name_or_path).config
    return {
        "model": {"@architectures": "spacy-elmo.BiLM.v1", **config.to_dict()},
        "weights": str(name_or_path),
    }


__all__ = ["__version__", "pretrained"]


def __dir__() -> list[str]:
    """Return the public names of this module, without the names that it imports."""
    return __all__
