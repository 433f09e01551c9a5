"""What ELMoForManyLangs' training leaves of its softmax, where it was asked to keep it:
`classifier.pkl`. Each of its three kinds is a full softmax in the end."""

from collections.abc import Sequence
from typing import Optional

import torch

from ..bilm.meta_device import on_meta_device
from ..bilm.model import BiLM
from ..bilm.softmax import LanguageModelSoftmax
from ..bilm.vocabulary import SPECIAL, InputVocabulary, Vocabulary
from .archives import File
from .bundle import Prediction
from .layout import plain, read_parameters
from .state_dict_file import StateDict, read_state_dict
from .vocabulary_files import read_dic

CLASSIFIER_FILE = "classifier.pkl"
THEIR_SPECIAL = ("<bos>", "<eos>", "<oov>")  # in the order of ours
PADDING = "<pad>"
# By kind, the tensor with a row a word. What a file says of its token encoder stands elsewhere.
KINDS = {
    "cnn_softmax": "corr.weight",
    "sampled_softmax": "column_emb.weight",
    "softmax": "hidden2tag.weight",
}


def read_classifier(folder: File, bilm: BiLM) -> Prediction:
    """Read a `classifier.pkl`. A CNN softmax (Jozefowicz et al. 2016, section 3.2) has a word's
    vector from its characters and a correction: `e_w = CNN(w) + M corr_w`, without a bias;
    the unknown word's is a column of its own in place of `CNN(w)`.

    folder (Union[Path, zipfile.Path]): The model's folder, with `word.dic`.
    bilm (BiLM): The model.
    RETURNS (Tuple[LanguageModelSoftmax, Vocabulary]): The softmax, and its words.
    RAISES (ValueError): It is no such file, or does not go with the model.
    """
    file = folder / CLASSIFIER_FILE
    stored = read_state_dict(file)
    kind = next((kind for kind, name in KINDS.items() if name in stored), None)
    if kind is None:
        raise ValueError(f"{file}: a classifier of an unknown kind, none of {', '.join(KINDS)}")
    shape = stored.shape(KINDS[kind])
    words = read_dic(folder / "word.dic", shape[0] if shape else 0, f"'{KINDS[kind]}' in {file}")
    missing = [word for word in THEIR_SPECIAL if word not in words]
    if missing:
        raise ValueError(f"{folder / 'word.dic'} has no {', '.join(missing)}")
    chosen = [words[word] for word in THEIR_SPECIAL]
    others = [i for i, word in enumerate(words.strings) if word not in (None, PADDING)]
    chosen += [i for i in others if i not in chosen[: len(SPECIAL)]]
    weight, bias = _rows(stored, kind, bilm, words)
    with on_meta_device():
        softmax = LanguageModelSoftmax(n_words=len(chosen), width=weight.shape[1])
    softmax.load_state_dict({"weight": weight[chosen], "bias": bias[chosen]}, assign=True)
    try:
        strings = [*SPECIAL, *(words.strings[i] or "" for i in chosen[len(SPECIAL) :])]
        vocabulary = Vocabulary(strings)
    except ValueError as error:
        raise ValueError(f"{folder / 'word.dic'}: {error}") from error
    return softmax.eval().requires_grad_(False), vocabulary


def _rows(
    stored: StateDict, kind: str, bilm: BiLM, words: InputVocabulary
) -> tuple[torch.Tensor, torch.Tensor]:
    """Weight and bias, a row an id of `word.dic`."""
    n_words, width = len(words), bilm.config.projection_dim
    sizes: dict[str, tuple[int, ...]]
    if kind == "softmax":
        sizes = {"hidden2tag.weight": (n_words, width), "hidden2tag.bias": (n_words,)}
        read = _read(stored, sizes)
        return read["hidden2tag.weight"], read["hidden2tag.bias"]
    if kind == "sampled_softmax":
        sizes = {"column_emb.weight": (n_words, width), "column_bias.weight": (n_words, 1)}
        read = _read(stored, sizes)
        return read["column_emb.weight"], read["column_bias.weight"][:, 0]
    shape = stored.shape("M") or (0, 0)
    correction_dim = shape[1] if len(shape) == 2 else 0
    sizes = {
        "M": (width, correction_dim),
        "corr.weight": (n_words, correction_dim),
        "oov_column": (width, 1),
    }
    read = _read(stored, sizes)
    weight = _token_vectors(bilm, words.strings)
    weight[words[THEIR_SPECIAL[2]]] = read["oov_column"][:, 0]
    return weight + read["corr.weight"] @ read["M"].T, torch.zeros(n_words)


def _token_vectors(bilm: BiLM, words: Sequence[Optional[str]]) -> torch.Tensor:
    with torch.no_grad():
        vectors = bilm.token_vectors(["" if word is None else word for word in words])
    bilm.cache.clear()
    return vectors.clone()


def _read(stored: StateDict, sizes: dict[str, tuple[int, ...]]) -> dict[str, torch.Tensor]:
    layout = [plain(name, shape, name) for name, shape in sizes.items()]
    return read_parameters(layout, stored, "word.dic and the model", ())
