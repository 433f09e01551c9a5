"""The biLM with its softmax and vocabulary: what is trained and evaluated."""

from collections.abc import Sequence
from pathlib import Path
from typing import Optional, Union

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from ..bilm.model import BiLM
from ..bilm.softmax import Softmax, make_softmax
from ..bilm.state import BiLMState
from ..weights import allennlp, allennlp_extras, locate, read_weights
from .batches import Window
from .vocabulary import Vocabulary

SOFTMAX_FILE = "softmax.safetensors"
VOCABULARY_FILE = "vocab.txt"

Prediction = tuple[Softmax, Vocabulary]


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
        used, inverse = np.unique(window.inputs, return_inverse=True)
        strings = [types[i] for i in used]
        vectors = self.bilm.token_vectors(strings, product_dtype=product_dtype)
        rows = torch.from_numpy(inverse.reshape(window.inputs.shape)).to(self.bilm.device)
        outputs, state = self.bilm(
            vectors,
            rows,
            window.batch_sizes,
            state,
            dropout=dropout,
            product_dtype=product_dtype,
        )
        return torch.cat([output[-1] for output in outputs]), state


class LanguageModel(torch.nn.Module):
    """A biLM that predicts words.

    bilm (BiLM): The layers.
    softmax (Softmax): The prediction, one for both directions.
    vocabulary (Vocabulary): Its words.
    """

    def __init__(self, bilm: BiLM, softmax: Softmax, vocabulary: Vocabulary):
        super().__init__()
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

    path (Union[str, Path]): The model, by name or path.
    RETURNS (LanguageModel): The model, in evaluation mode, its weights frozen.
    RAISES (ValueError): There is no model, no softmax, or they do not fit.
    """
    place = locate(path)
    bilm = read_weights(place)
    prediction = find_prediction(place, width=bilm.config.projection_dim)
    if prediction is None:
        raise ValueError(
            f"{place} holds no {_missing(place)}: without softmax and vocabulary a model "
            f"predicts no words. Use the folder that `python -m spacy elmo pretrain` wrote, with "
            f"{SOFTMAX_FILE} and {VOCABULARY_FILE}; or an .hdf5 file with softmax/W and "
            f"softmax/b, and {VOCABULARY_FILE} beside it."
        )
    return LanguageModel(bilm, *prediction).eval().requires_grad_(False)


def find_prediction(place: Path, *, width: int) -> Optional[Prediction]:
    """Read softmax and vocabulary of a model, if it has both.

    place (Path): Where a readable model is: a pipeline's folder, weights, an archive.
    width (int): Size of a context vector, P.
    RETURNS (Optional[Tuple[Softmax, Vocabulary]]): Both.
    RAISES (ValueError): They do not fit one another, or the width.
    """
    if has_softmax(place):
        return read_softmax(place, width=width)
    with allennlp_extras.opened_files(place) as files:
        if files is None or not allennlp_extras.has_vocabulary(files[1]):
            return None
        found = allennlp.read_softmax(files)
    if found is None:
        return None
    softmax, words = found
    try:
        return softmax, Vocabulary([word or "" for word in words.strings])
    except ValueError as error:
        raise ValueError(f"{VOCABULARY_FILE} of {place}: {error}") from error


def lacks_vocabulary(place: Path) -> bool:
    """RETURNS (bool): Whether an HDF5 file has a softmax whose words nobody knows."""
    with allennlp_extras.opened_files(place) as files:
        if files is None or allennlp_extras.has_vocabulary(files[1]):
            return False
        return allennlp_extras.has_softmax(files[1])


def _missing(place: Path) -> str:
    if (place / SOFTMAX_FILE).is_file() or lacks_vocabulary(place):
        return VOCABULARY_FILE
    return SOFTMAX_FILE if (place / "config.cfg").is_file() else "softmax"


def write_softmax(softmax: Softmax, vocabulary: Vocabulary, folder: Path) -> None:
    """Write softmax and vocabulary into an existing folder."""
    weights = {name: value.contiguous() for name, value in softmax.state_dict().items()}
    # Not by `save_file`: its errors are no OSError, and others may not read its file.
    (folder / SOFTMAX_FILE).write_bytes(save(weights))
    vocabulary.to_disk(folder / VOCABULARY_FILE)


def has_softmax(folder: Path) -> bool:
    """RETURNS (bool): Whether a model's folder holds softmax and vocabulary."""
    return all((folder / name).is_file() for name in (SOFTMAX_FILE, VOCABULARY_FILE))


def read_softmax(folder: Path, *, width: int) -> Prediction:
    """Read softmax and vocabulary from a model's folder.

    folder (Path): The folder.
    width (int): Size of a context vector, P.
    RETURNS (Tuple[Softmax, Vocabulary]): Both.
    RAISES (ValueError): They do not fit one another, or the width.
    """
    vocabulary = Vocabulary.from_disk(folder / VOCABULARY_FILE)
    try:
        weights = load_file(folder / SOFTMAX_FILE)
        kind = "full" if "weight" in weights else "adaptive"
        softmax = make_softmax(kind, n_words=len(vocabulary), width=width)
        softmax.load_state_dict(weights)
    except (SafetensorError, RuntimeError) as error:
        raise ValueError(
            f"{folder / SOFTMAX_FILE}: does not fit the {len(vocabulary)} words of "
            f"{VOCABULARY_FILE} and projection_dim {width}: {error}"
        ) from error
    return softmax, vocabulary
