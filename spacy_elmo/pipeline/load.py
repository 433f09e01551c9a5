"""Functions that load a pipeline, or make a pipeline from weights."""

from importlib.util import find_spec
from pathlib import Path
from typing import Optional

import spacy
from spacy.language import Language

from ..files import user_path
from .elmo import Elmo


def read_pipeline(name_or_path: str, lang: str = "xx") -> Language:
    """Load a pipeline, or make a pipeline from weights.

    name_or_path (str): Folder or package of a pipeline, or name or path of weights, as for
        `spacy_elmo.weights.read_weights`.
    lang (str): Language of a pipeline that is made from weights.
    RETURNS (Language): The pipeline. `elmo_pipe` returns its `elmo` pipe.
    RAISES (ValueError): There is no such model, or its files are broken.
    """
    if is_pipeline(name_or_path):
        path = user_path(name_or_path)
        return spacy.load(path if path.exists() else name_or_path)
    nlp = spacy.blank(lang)
    nlp.add_pipe("elmo", config={"weights": name_or_path})
    return nlp


def is_pipeline(name_or_path: str) -> bool:
    """Check whether a name or path is the folder or package of a pipeline, and not of weights."""
    path = user_path(name_or_path)
    if path.exists():
        return (path / "config.cfg").is_file()
    package = find_spec(name_or_path) if spacy.util.is_package(name_or_path) else None
    folders = (package and package.submodule_search_locations) or ()
    return any(Path(folder, "meta.json").is_file() for folder in folders)


def language_of(nlp: Language, name_or_path: str) -> Optional[str]:
    """Return the language of a pipeline or of weights, as a code such as "en".

    nlp (Language): The result of `read_pipeline`.
    name_or_path (str): The argument of `read_pipeline`.
    RETURNS (Optional[str]): The language; None for weights that do not contain it.
    RAISES (ValueError): The weights cannot be read.
    """
    if is_pipeline(name_or_path):
        return nlp.lang
    lang = elmo_pipe(nlp).bilm.provenance.get("lang")
    return lang if isinstance(lang, str) else None


def elmo_pipe(nlp: Language) -> Elmo:
    """Return the pipe that the factory `elmo` made. Its name in the pipeline does not matter.

    nlp (Language): The pipeline.
    RETURNS (Elmo): The pipe.
    RAISES (ValueError): The pipeline has no such pipe, or more than one.
    """
    pipes = {name: pipe for name, pipe in nlp.components if isinstance(pipe, Elmo)}
    if not pipes:
        names = ", ".join(nlp.component_names) or "no component"
        raise ValueError(
            f"the pipeline has no 'elmo' pipe; it has {names}. Add one with nlp.add_pipe('elmo')."
        )
    if len(pipes) > 1:
        raise ValueError(
            f"the pipeline has several 'elmo' pipes: {', '.join(pipes)}. Give the weights of one, "
            f"such as PIPELINE/{next(iter(pipes))}/model.safetensors."
        )
    return next(iter(pipes.values()))
