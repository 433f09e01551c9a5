"""Models as spaCy pipelines on disk, each whole or not at all."""

import copy
from pathlib import Path
from typing import Any, Optional

import spacy

from ..bilm.model import BiLM
from ..bilm.softmax import Softmax
from ..output import whole_folder
from .language_model import LanguageModel, write_softmax
from .vocabulary import Vocabulary

PIPE = "elmo"
DESCRIPTION = "An ELMo language model for spacy-elmo"


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
    with whole_folder(folder) as unfinished:
        prediction = (model.softmax, model.vocabulary)
        write_pipeline(model.bilm, unfinished, prediction, lang=lang, provenance=provenance)


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


def _pipeline(bilm: BiLM, lang: str, provenance: dict[str, Any]) -> spacy.Language:
    nlp = spacy.blank(lang)
    sizes = {"@architectures": "spacy-elmo.BiLM.v1", **bilm.config.to_dict()}
    pipe = nlp.add_pipe("elmo", name=PIPE, config={"model": sizes, "weights": None})
    snapshot = copy.deepcopy(bilm)  # the pipe freezes what it holds
    snapshot.provenance = provenance
    pipe.set_bilm(snapshot)  # type: ignore[attr-defined]
    nlp.meta["description"] = DESCRIPTION
    nlp.meta["performance"] = provenance.get("perplexity", {})
    return nlp
