"""The biLM with its softmax and vocabulary: what is trained and evaluated."""

from pathlib import Path
from typing import Union

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from ..bilm.model import BiLM, BiLMState
from ..bilm.softmax import LanguageModelSoftmax
from ..weights import locate, read_weights
from .batches import Window
from .vocabulary import Vocabulary

SOFTMAX_FILE = "softmax.safetensors"
VOCABULARY_FILE = "vocab.txt"


class LanguageModel(torch.nn.Module):
    """A biLM that predicts words.

    bilm (BiLM): The layers.
    softmax (LanguageModelSoftmax): The prediction, one for both directions.
    vocabulary (Vocabulary): Its words.
    """

    def __init__(self, bilm: BiLM, softmax: LanguageModelSoftmax, vocabulary: Vocabulary):
        super().__init__()
        self.bilm = bilm
        self.softmax = softmax
        self.vocabulary = vocabulary

    def contexts(
        self, window: Window, types: list[str], state: BiLMState, *, dropout: float = 0.0
    ) -> tuple[tuple[Tensor, Tensor], BiLMState]:
        """Run a window; the character CNN reads each of its types once.

        window (Window): The token types.
        types (List[str]): Their strings.
        state (BiLMState): State to start from, a row a stream.
        dropout (float): Rate on every LSTM's input, in training mode.
        RETURNS (Tuple[Tuple[Tensor, Tensor], BiLMState]): The top layer forwards
            and backwards, *Shape:* `(n_items, P)`, and the state after.
        """
        used, inverse = np.unique(window.inputs, return_inverse=True)
        vectors = self.bilm.token_vectors([types[i] for i in used])
        rows = torch.from_numpy(inverse.reshape(window.inputs.shape)).to(self.bilm.device)
        outputs, state = self.bilm(vectors, rows, window.batch_sizes, state, dropout=dropout)
        return (outputs[0][-1], outputs[1][-1]), state

    def to_disk(self, folder: Path) -> None:
        """Write softmax and vocabulary into an existing folder."""
        weights = {name: value.contiguous() for name, value in self.softmax.state_dict().items()}
        save_file(weights, folder / SOFTMAX_FILE)
        self.vocabulary.to_disk(folder / VOCABULARY_FILE)


def read_language_model(path: Union[str, Path]) -> LanguageModel:
    """Read a model that `pretrain` wrote.

    path (Union[str, Path]): The pipeline's folder.
    RETURNS (LanguageModel): The model, in evaluation mode, its weights frozen.
    RAISES (ValueError): There is no model, no softmax, or they do not fit.
    """
    folder = locate(path)
    bilm = read_weights(path)
    for name in (SOFTMAX_FILE, VOCABULARY_FILE):
        if not (folder / name).is_file():
            raise ValueError(
                f"{folder} holds no {name}: without softmax and vocabulary there is no "
                f"perplexity. Use a model that `python -m spacy elmo pretrain` wrote."
            )
    vocabulary = Vocabulary.from_disk(folder / VOCABULARY_FILE)
    softmax = LanguageModelSoftmax(n_words=len(vocabulary), width=bilm.config.projection_dim)
    try:
        softmax.load_state_dict(load_file(folder / SOFTMAX_FILE))
    except (SafetensorError, RuntimeError) as error:
        raise ValueError(
            f"{folder / SOFTMAX_FILE}: does not fit the {len(vocabulary)} words of "
            f"{VOCABULARY_FILE} and projection_dim {bilm.config.projection_dim}: {error}"
        ) from error
    return LanguageModel(bilm, softmax, vocabulary).eval().requires_grad_(False)
