"""A model and all that stands with it, whatever the format."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional, Union

import spacy
import srsly
from spacy.util import load_config

from .bilm.model import BiLM
from .pretraining.language_model import VOCABULARY_FILE, Prediction, find_prediction
from .weights import (
    allennlp,
    allennlp_extras,
    find_named,
    locate,
    manylangs,
    read_weights,
    safetensors_file,
)
from .weights.archives import opened_place

SAFETENSORS, ALLENNLP, PIPELINE, MANYLANGS = FORMATS = (
    "safetensors",
    "allennlp",
    "pipeline",
    "manylangs",
)
# What spaCy writes into meta.json where nobody named a pipeline.
_UNNAMED = {
    "name": "pipeline",
    "version": "0.0.0",
    "author": "",
    "email": "",
    "url": "",
    "license": "",
}


@dataclass
class Content:
    """A model and all that stands with it.

    format (str): One of `FORMATS`.
    place (Path): The file or folder that it was read from.
    bilm (BiLM): The layers; their provenance is in it.
    prediction (Optional[Tuple[Softmax, Vocabulary]]): Softmax and vocabulary.
    lang (Optional[str]): The language, if it is known.
    rest (List[str]): What no other place has room for, in words.
    """

    format: str
    place: Path
    bilm: BiLM
    prediction: Optional[Prediction] = None
    lang: Optional[str] = None
    rest: list[str] = field(default_factory=list)


def read_content(source: Union[str, Path]) -> Content:
    """Read a model and all that stands with it, but no other component of a pipeline.

    source (Union[str, Path]): The model, by name or path.
    RETURNS (Content): The model.
    RAISES (ValueError): It cannot be read.
    """
    named = find_named(source)
    place = locate(source)
    bilm = read_weights(place)
    content = Content(
        _format_of(place),
        place,
        bilm,
        find_prediction(place, width=bilm.config.projection_dim),
        bilm.provenance.get("lang"),
    )
    if content.format == PIPELINE:
        _add_pipeline(content)
    elif content.format == ALLENNLP:
        with opened_place(place) as opened:
            files = allennlp.find(opened)
            assert files is not None
            _add_extras(content, files)
    elif content.format == MANYLANGS:
        with opened_place(place) as opened:
            folder = manylangs.find(opened)
            assert folder is not None
            _set_provenance(content, manylangs.read_provenance(folder))
    if named is not None:
        content.lang = named.lang
        urls = [file.url for file in named.files]
        known = {"name": named.name, "urls": urls, "licence": named.licence}
        bilm.provenance = {**known, **bilm.provenance}
    return content


def _format_of(place: Path) -> str:
    """The format of what could be read."""
    if (place / "config.cfg").is_file():
        return PIPELINE
    if place.exists() and safetensors_file.find(place) is not None:
        return SAFETENSORS
    with opened_place(place) as opened:
        return MANYLANGS if manylangs.find(opened) is not None else ALLENNLP


def _add_pipeline(content: Content) -> None:
    """Language of a pipeline, and what else it holds."""
    place, file = content.place, safetensors_file.find(content.place)
    assert file is not None
    pipe = file.parent.name
    config = load_config(place / "config.cfg", interpolate=False)
    content.lang = config.get("nlp", {}).get("lang")
    others = [name for name in config.get("nlp", {}).get("pipeline", ()) if name != pipe]
    if others:
        content.rest.append(f"the other components ({', '.join(others)})")
    settings, defaults = config.get("components", {}).get(pipe, {}), _default_settings()
    changed = [name for name in defaults if settings.get(name, defaults[name]) != defaults[name]]
    if changed:
        content.rest.append(f"settings of the pipe '{pipe}' ({', '.join(changed)})")
    meta = _read_meta(place / "meta.json")
    names = [name for name, default in _UNNAMED.items() if meta.get(name, default) != default]
    if names:
        content.rest.append(f"entries of meta.json ({', '.join(names)})")
    if meta["vectors"].get("vectors"):
        content.rest.append("static vectors")


def _read_meta(path: Path) -> dict[str, Any]:
    try:
        meta = srsly.read_json(path) if path.is_file() else {}
        return {**meta, "vectors": dict(meta.get("vectors", {}))}
    except (ValueError, AttributeError, TypeError) as error:
        raise ValueError(f"{path} is no meta.json of a pipeline: {error}") from error


def _default_settings() -> dict[str, Any]:
    """The settings of a new pipe, as spaCy writes them: with those of registered functions."""
    nlp = spacy.blank("xx")
    nlp.add_pipe("elmo", config={"weights": None})
    settings = nlp.config["components"]["elmo"]
    return {name: value for name, value in settings.items() if name not in ("model", "weights")}


def _add_extras(content: Content, files: allennlp.Files) -> None:
    """Provenance of an HDF5 file, and what else it holds."""
    weights = files[1]
    _set_provenance(content, allennlp_extras.read_provenance(weights))
    unknown = allennlp_extras.unknown_datasets(weights)
    if unknown:
        content.rest.append(f"datasets that are no part of a biLM ({', '.join(unknown)})")
    if content.prediction is None and allennlp_extras.has_softmax(weights):
        content.rest.append(f"the softmax, which has no {VOCABULARY_FILE} beside it")


def _set_provenance(content: Content, provenance: Optional[dict[str, Any]]) -> None:
    """What a file of another program's format says of itself, if spacy-elmo wrote it."""
    if provenance is not None:
        content.bilm.provenance, content.lang = provenance, provenance.get("lang")
