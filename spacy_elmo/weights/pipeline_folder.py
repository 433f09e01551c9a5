"""Models as spaCy pipelines on disk."""

import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

import srsly

from ..bilm.model import BiLM
from ..bilm.softmax import Softmax
from ..bilm.vocabulary import Vocabulary
from .softmax_files import write_softmax

if TYPE_CHECKING:
    from spacy.language import Language

PIPE = "elmo"
DESCRIPTION = "An ELMo language model for spacy-elmo"
# What spaCy writes into meta.json where nobody named a pipeline.
_UNNAMED = {
    "name": "pipeline",
    "version": "0.0.0",
    "author": "",
    "email": "",
    "url": "",
    "license": "",
}


def write_pipeline(
    bilm: BiLM,
    folder: Path,
    prediction: Optional[tuple[Softmax, Vocabulary]],
    *,
    lang: str,
    provenance: dict[str, Any],
) -> None:
    """Write a spaCy pipeline with the single pipe `elmo` into a new folder.

    bilm (BiLM): The layers.
    folder (Path): The folder.
    prediction (Optional[Tuple[Softmax, Vocabulary]]): Softmax and vocabulary, to
        stand beside it.
    lang (str): Language of the pipeline.
    provenance (dict): How the model came about, as JSON.
    """
    _pipeline(bilm, lang, provenance).to_disk(folder)
    if prediction is not None:
        write_softmax(*prediction, folder)


def _pipeline(bilm: BiLM, lang: str, provenance: dict[str, Any]) -> "Language":
    import spacy

    nlp = spacy.blank(lang)
    sizes = {"@architectures": "spacy-elmo.BiLM.v1", **bilm.config.to_dict()}
    pipe = nlp.add_pipe("elmo", name=PIPE, config={"model": sizes, "weights": None})
    snapshot = copy.deepcopy(bilm)  # the pipe freezes what it holds
    snapshot.provenance = provenance
    pipe.set_bilm(snapshot)  # type: ignore[attr-defined]
    nlp.meta["description"] = DESCRIPTION
    nlp.meta["performance"] = provenance.get("perplexity", {})
    return nlp


def read_lang_and_extras(path: Path, *, pipe: str) -> tuple[Optional[str], list[str]]:
    """Read what a pipeline holds beside the weights of a pipe `elmo`.

    path (Path): Its folder.
    pipe (str): Name of the pipe.
    RETURNS (Tuple[Optional[str], List[str]]): Its language, and the extras, in words.
    RAISES (ValueError): A file cannot be read.
    """
    from spacy.util import load_config

    extras: list[str] = []
    config = load_config(path / "config.cfg", interpolate=False)
    others = [name for name in config.get("nlp", {}).get("pipeline", ()) if name != pipe]
    if others:
        extras.append(f"the other components ({', '.join(others)})")
    settings, defaults = config.get("components", {}).get(pipe, {}), _default_settings()
    changed = [name for name in defaults if settings.get(name, defaults[name]) != defaults[name]]
    if changed:
        extras.append(f"settings of the pipe '{pipe}' ({', '.join(changed)})")
    meta = _read_meta(path / "meta.json")
    names = [name for name, default in _UNNAMED.items() if meta.get(name, default) != default]
    if names:
        extras.append(f"entries of meta.json ({', '.join(names)})")
    if meta["vectors"].get("vectors"):
        extras.append("static vectors")
    return config.get("nlp", {}).get("lang"), extras


def _read_meta(path: Path) -> dict[str, Any]:
    try:
        meta = srsly.read_json(path) if path.is_file() else {}
        return {**meta, "vectors": dict(meta.get("vectors", {}))}
    except (ValueError, AttributeError, TypeError) as error:
        raise ValueError(f"{path} is no meta.json of a pipeline: {error}") from error


def _default_settings() -> dict[str, Any]:
    """The settings of a new pipe, as spaCy writes them: with those of registered functions."""
    import spacy

    nlp = spacy.blank("xx")
    nlp.add_pipe("elmo", config={"weights": None})
    settings = nlp.config["components"]["elmo"]
    return {name: value for name, value in settings.items() if name not in ("model", "weights")}
