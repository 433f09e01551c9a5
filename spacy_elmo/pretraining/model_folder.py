"""Models as spaCy pipelines on disk, each whole or not at all."""

import copy
import shutil
from pathlib import Path
from typing import Any

import spacy

from ..bilm.model import BiLM
from .language_model import LanguageModel


def save_model(
    model: LanguageModel, folder: Path, *, lang: str, provenance: dict[str, Any]
) -> None:
    """Write a spaCy pipeline with the single pipe `elmo`, and beside it softmax
    and vocabulary. What stood there before is there until the new one is whole.

    model (LanguageModel): The model.
    folder (Path): Where to.
    lang (str): Language of the pipeline.
    provenance (dict): How the model came about, as JSON.
    """
    unfinished = folder.with_name(folder.name + ".part")
    previous = folder.with_name(folder.name + ".old")
    if previous.exists() and not folder.exists():  # a kill between the two renames
        previous.rename(folder)
    for leftover in (unfinished, previous):
        shutil.rmtree(leftover, ignore_errors=True)
    try:
        _pipeline(model.bilm, lang, provenance).to_disk(unfinished)
        model.to_disk(unfinished)
        if folder.exists():
            folder.rename(previous)
        unfinished.rename(folder)
    finally:
        if previous.exists() and not folder.exists():
            previous.rename(folder)
        for leftover in (unfinished, previous):
            shutil.rmtree(leftover, ignore_errors=True)


def _pipeline(bilm: BiLM, lang: str, provenance: dict[str, Any]) -> spacy.Language:
    nlp = spacy.blank(lang)
    sizes = {"@architectures": "spacy-elmo.BiLM.v1", **bilm.config.to_dict()}
    pipe = nlp.add_pipe("elmo", config={"model": sizes, "weights": None})
    snapshot = copy.deepcopy(bilm)  # the pipe freezes what it holds
    snapshot.provenance = provenance
    pipe.set_bilm(snapshot)  # type: ignore[attr-defined]
    nlp.meta["description"] = "A language model pretrained by spacy-elmo"
    nlp.meta["performance"] = provenance.get("perplexity", {})
    return nlp
