"""Loading of a pipeline, or of weights as a pipeline."""

from typing import Optional

import spacy
from spacy.language import Language

from ..files import user_path
from .elmo import Elmo


def read_pipeline(name_or_path: str, lang: str = "xx") -> Language:
    """Read a pipeline, or put weights into a new one.

    name_or_path (str): Folder or package of a pipeline, or weights that
        `spacy_elmo.weights.read_weights` can read.
    lang (str): Language of a new pipeline.
    RETURNS (Language): A pipeline; `elmo_pipe` finds the language model.
    RAISES (ValueError): There is no such model, or its files are broken.
    """
    if is_pipeline(name_or_path):
        path = user_path(name_or_path)
        return spacy.load(path if path.exists() else name_or_path)
    nlp = spacy.blank(lang)
    nlp.add_pipe("elmo", config={"weights": name_or_path})
    return nlp


def is_pipeline(name_or_path: str) -> bool:
    """Check whether this is a folder or package of a pipeline, not weights."""
    path = user_path(name_or_path)
    if path.exists():
        return (path / "config.cfg").is_file()
    return spacy.util.is_package(name_or_path)


def language_of(nlp: Language, name_or_path: str) -> Optional[str]:
    """Find the language of a model's text.

    nlp (Language): The result of `read_pipeline`.
    name_or_path (str): Its argument.
    RETURNS (Optional[str]): The language; None if the weights do not name it.
    RAISES (ValueError): The weights cannot be read.
    """
    if is_pipeline(name_or_path):
        return nlp.lang
    lang = elmo_pipe(nlp).bilm.provenance.get("lang")
    return lang if isinstance(lang, str) else None


def elmo_pipe(nlp: Language) -> Elmo:
    """Find the `elmo` pipe of a pipeline, whatever its name.

    nlp (Language): The pipeline.
    RETURNS (Elmo): The pipe.
    RAISES (ValueError): There is none, or there are several.
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
