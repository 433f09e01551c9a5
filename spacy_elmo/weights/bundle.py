"""A model and all that stands with it, whatever the format."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional, Union

from ..bilm.model import BiLM
from . import (
    allennlp,
    allennlp_extras,
    find_named,
    locate,
    manylangs,
    read_weights,
    safetensors_file,
)
from .archives import opened_path
from .pipeline_folder import read_lang_and_extras
from .softmax_files import VOCABULARY_FILE, Prediction, find_prediction

SAFETENSORS, ALLENNLP, PIPELINE, MANYLANGS = FORMATS = (
    "safetensors",
    "allennlp",
    "pipeline",
    "manylangs",
)


@dataclass
class ModelBundle:
    """A model and all that stands with it.

    format (str): One of `FORMATS`.
    path (Path): The file or folder that it was read from.
    bilm (BiLM): The layers; their provenance is in it.
    prediction (Optional[Tuple[Softmax, Vocabulary]]): Softmax and vocabulary.
    lang (Optional[str]): The language, if it is known.
    extras (List[str]): What no other place has room for, in words.
    """

    format: str
    path: Path
    bilm: BiLM
    prediction: Optional[Prediction] = None
    lang: Optional[str] = None
    extras: list[str] = field(default_factory=list)


def read_bundle(source: Union[str, Path]) -> ModelBundle:
    """Read a model and all that stands with it, but no other component of a pipeline.

    source (Union[str, Path]): The model, by name or path.
    RETURNS (ModelBundle): The model.
    RAISES (ValueError): It cannot be read.
    """
    named = find_named(source)
    path = locate(source)
    bilm = read_weights(path)
    bundle = ModelBundle(
        _format_of(path),
        path,
        bilm,
        find_prediction(path, width=bilm.config.projection_dim),
        bilm.provenance.get("lang"),
    )
    if bundle.format == PIPELINE:
        _add_pipeline(bundle)
    elif bundle.format == ALLENNLP:
        with opened_path(path) as opened:
            files = allennlp.find(opened)
            assert files is not None
            _add_extras(bundle, files)
    elif bundle.format == MANYLANGS:
        with opened_path(path) as opened:
            folder = manylangs.find(opened)
            assert folder is not None
            _set_provenance(bundle, manylangs.read_provenance(folder))
    if named is not None:
        bundle.lang = named.lang
        urls = [file.url for file in named.files]
        known = {"name": named.name, "urls": urls, "licence": named.licence}
        bilm.provenance = {**known, **bilm.provenance}
    return bundle


def _format_of(path: Path) -> str:
    """The format of what could be read."""
    if (path / "config.cfg").is_file():
        return PIPELINE
    if path.exists() and safetensors_file.find(path) is not None:
        return SAFETENSORS
    with opened_path(path) as opened:
        return MANYLANGS if manylangs.find(opened) is not None else ALLENNLP


def _add_pipeline(bundle: ModelBundle) -> None:
    """Language of a pipeline, and what else it holds."""
    file = safetensors_file.find(bundle.path)
    assert file is not None
    bundle.lang, extras = read_lang_and_extras(bundle.path, pipe=file.parent.name)
    bundle.extras.extend(extras)


def _add_extras(bundle: ModelBundle, files: allennlp.Files) -> None:
    """Provenance of an HDF5 file, and what else it holds."""
    weights = files[1]
    _set_provenance(bundle, allennlp_extras.read_provenance(weights))
    unknown = allennlp_extras.unknown_datasets(weights)
    if unknown:
        bundle.extras.append(f"datasets that are no part of a biLM ({', '.join(unknown)})")
    if bundle.prediction is None and allennlp_extras.has_softmax(weights):
        bundle.extras.append(f"the softmax, which has no {VOCABULARY_FILE} beside it")


def _set_provenance(bundle: ModelBundle, provenance: Optional[dict[str, Any]]) -> None:
    """What a file of another program's format says of itself, if spacy-elmo wrote it."""
    if provenance is not None:
        bundle.bilm.provenance, bundle.lang = provenance, provenance.get("lang")
