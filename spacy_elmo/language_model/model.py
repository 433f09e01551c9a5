"""The biLM with its softmax and vocabulary: what is trained and evaluated."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Optional, Union

import numpy as np
import torch
from torch import Tensor

from ..bilm.model import BiLM
from ..bilm.softmax import Softmax
from ..bilm.state import BiLMState
from ..frozen.vocabulary import Vocabulary
from ..text.corpus import END_ID, START_ID
from ..weights.bundle import ModelBundle
from ..weights.formats import read_model
from ..weights.pipeline_folder import PipelineFolder
from ..weights.softmax_file import SOFTMAX_FILE
from ..weights.vocabulary_files import VOCABULARY_FILE
from .windows import Window


class Contexts(torch.nn.Module):
    """Runs windows of token types through a biLM.

    bilm (BiLM): The layers.
    """

    def __init__(self, bilm: BiLM):
        super().__init__()
        self.bilm = bilm

    def forward(
        self,
        window: Window,
        types: Sequence[str],
        state: BiLMState,
        dropout: float = 0.0,
        product_dtype: Optional[torch.dtype] = None,
    ) -> tuple[Tensor, BiLMState]:
        """Run a window; the character CNN reads each of its types once.

        window (Window): The token types.
        types (Sequence[str]): Their strings.
        state (BiLMState): State to start from, a row a stream.
        dropout (float): Rate on every LSTM's input, in training mode.
        product_dtype (Optional[torch.dtype]): Type of the LSTMs' matrix products
            in training, if not the weights' own.
        RETURNS (Tuple[Tensor, BiLMState]): The top layer, the forward items and
            then the backward ones, if any, *Shape:* `(n_directions * n_items, P)`, and
            the state after.
        """
        inputs = window.inputs[: self.bilm.config.n_directions]
        used, inverse = np.unique(inputs, return_inverse=True)
        marks = dict(zip((START_ID, END_ID), self.bilm.encoder.indexer.marks))
        strings = [marks.get(i, types[i]) for i in used.tolist()]
        vectors = self.bilm.token_vectors(strings, product_dtype=product_dtype)
        rows = torch.from_numpy(inverse.reshape(inputs.shape)).to(self.bilm.device)
        outputs, state = self.bilm(
            vectors, rows, window.batch_sizes, state, dropout=dropout, product_dtype=product_dtype
        )
        return torch.cat([output[-1] for output in outputs]), state


class LanguageModel(torch.nn.Module):
    """A biLM that predicts words.

    bilm (BiLM): The layers.
    softmax (Softmax): The prediction, one for both directions.
    vocabulary (Vocabulary): Its words.
    RAISES (ValueError): The layers see the words that they would have to predict.
    """

    def __init__(self, bilm: BiLM, softmax: Softmax, vocabulary: Vocabulary):
        super().__init__()
        if bilm.config.joined_directions or not bilm.config.sentence_marks:
            raise ValueError(
                "a language model needs joined_directions = false and sentence_marks = true: "
                "each direction predicts words that the other has read"
            )
        self.bilm = bilm
        self.softmax = softmax
        self.vocabulary = vocabulary

    @property
    def device(self) -> torch.device:
        """RETURNS (torch.device): Where the weights are."""
        return self.bilm.device


def read_language_model(path: Union[str, Path]) -> LanguageModel:
    """Read a model that predicts words: what `pretrain` wrote, or AllenNLP's and
    bilm-tf's weights with a softmax and a vocabulary.

    path (Union[str, Path]): The model, by name, path or URL.
    RETURNS (LanguageModel): The model, in evaluation mode, its weights frozen.
    RAISES (ValueError): There is no model, no softmax, or they do not fit.
    """
    stored, bundle = read_model(path)
    if bundle.prediction is None:
        raise ValueError(
            f"{stored.path} holds no {bundle.missing}: without softmax and vocabulary a model "
            f"predicts no words. Use the folder that `python -m spacy elmo pretrain` wrote, with "
            f"{SOFTMAX_FILE} and {VOCABULARY_FILE}; or an .hdf5 file with softmax/W and "
            f"softmax/b, and {VOCABULARY_FILE} beside it."
        )
    return LanguageModel(bundle.bilm, *bundle.prediction).eval().requires_grad_(False)


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
    prediction = (model.softmax, model.vocabulary)
    PipelineFolder.write(ModelBundle(model.bilm, prediction, lang, provenance), folder)
