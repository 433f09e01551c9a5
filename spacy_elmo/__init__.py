"""ELMo (Peters et al. 2018) in spaCy: contextual vectors from characters."""

from pathlib import Path
from typing import Any, Union

__version__ = "0.1.0"


def pretrained(name_or_path: Union[str, Path]) -> dict[str, Any]:
    """Describe a pretrained language model as config of the `elmo` pipe.

    Example: `nlp.add_pipe("elmo", config=spacy_elmo.pretrained(PATH))`.

    name_or_path (Union[str, Path]): Path, name ("original", "manylangs-fr") or `https://`
        URL of a model. Published models are downloaded once.
    RETURNS (dict): The factory's config: sizes and weights.
    RAISES (ValueError): There is no such model, or its files are broken.
    RAISES (OSError): It cannot be downloaded.
    """
    from .weights import read_weights

    config = read_weights(name_or_path).config
    return {
        "model": {"@architectures": "spacy-elmo.BiLM.v1", **config.to_dict()},
        "weights": str(name_or_path),
    }


__all__ = ["__version__", "pretrained"]


def __dir__() -> list[str]:
    """Return the public names, without the imports of this module."""
    return __all__
