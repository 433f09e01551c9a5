"""Reader of `classifier.pkl`, the softmax that ELMoForManyLangs' training can save.

ELMoForManyLangs has three kinds of softmax, which are all converted to a full softmax.
"""

from collections.abc import Mapping

import numpy as np

from ..frozen.model import FrozenBiLM
from ..model.vocabulary import SPECIAL, InputVocabulary
from .archives import File
from .bundle import Prediction
from .layout import plain, read_parameters
from .softmax_file import make_prediction
from .state_dict_file import StateDict, read_state_dict
from .vocabulary_files import read_dic

CLASSIFIER_FILE = "classifier.pkl"
THEIR_SPECIAL = ("<bos>", "<eos>", "<oov>")  # ELMoForManyLangs' marks, in the order of `SPECIAL`.
PADDING = "<pad>"
# Names of the weight and bias tensors, by kind of softmax.
KINDS = {
    "cnn_softmax": ("corr.weight",),
    "sampled_softmax": ("column_emb.weight", "column_bias.weight"),
    "softmax": ("hidden2tag.weight", "hidden2tag.bias"),
}


def read_classifier(folder: File, bilm: FrozenBiLM) -> Prediction:
    """Read the softmax in `classifier.pkl`, and its words in `word.dic`.

    A CNN softmax (Jozefowicz et al. 2016, section 3.2) has no bias. It computes the vector of a
    word from its characters and a correction: `e_w = CNN(w) + M corr_w`. For unknown words, a
    parameter replaces `CNN(w)`.

    RAISES (ValueError): The file is not a classifier, or does not belong to the model.
    """
    file, words_of = folder / CLASSIFIER_FILE, folder / "word.dic"
    stored = read_state_dict(file)
    kind = next((kind for kind, names in KINDS.items() if names[0] in stored), None)
    if kind is None:
        raise ValueError(f"{file}: unknown kind of classifier. Known kinds are {', '.join(KINDS)}")
    table = KINDS[kind][0]
    shape = stored.shape(table)
    words = read_dic(words_of, shape[0] if shape else 0, f"'{table}' in {file}")
    missing = [word for word in THEIR_SPECIAL if word not in words]
    if missing:
        raise ValueError(f"{words_of}: {', '.join(missing)} missing. Use the file of this model")
    chosen = [words[word] for word in THEIR_SPECIAL]
    others = [i for i, word in enumerate(words.strings) if word not in (None, PADDING)]
    chosen += [i for i in others if i not in chosen[: len(SPECIAL)]]
    weight, bias = (rows[chosen] for rows in _rows(stored, kind, bilm, words))
    strings = [*SPECIAL, *(words.strings[i] or "" for i in chosen[len(SPECIAL) :])]
    tensors = {"weight": weight, "bias": bias}
    return make_prediction(tensors, strings, weight.shape[1], file, words_of)


def _rows(
    stored: StateDict, kind: str, bilm: FrozenBiLM, words: InputVocabulary
) -> tuple[np.ndarray, np.ndarray]:
    """Convert any softmax to the weight and bias of a full softmax, with a row per word id."""
    n_words, width = len(words), bilm.config.projection_dim
    if kind != "cnn_softmax":
        of_bias = (n_words, 1) if kind == "sampled_softmax" else (n_words,)
        weight, bias = _read(stored, dict(zip(KINDS[kind], ((n_words, width), of_bias))))
        return weight, bias.flatten()
    shape = stored.shape("M") or (0, 0)
    dim = shape[1] if len(shape) == 2 else 0
    sizes = {"M": (width, dim), "corr.weight": (n_words, dim), "oov_column": (width, 1)}
    to_width, correction, unknown = _read(stored, sizes)
    # Disable the cache, because a whole vocabulary would replace all other tokens in it.
    weight = bilm.replace(cache=0).token_vectors([word or "" for word in words.strings])
    weight[words[THEIR_SPECIAL[2]]] = unknown[:, 0]
    return weight + correction @ to_width.T, np.zeros(n_words, dtype="float32")


def _read(stored: StateDict, sizes: Mapping[str, tuple[int, ...]]) -> list[np.ndarray]:
    layout = [plain(name, shape, name) for name, shape in sizes.items()]
    return list(read_parameters(layout, stored, "word.dic and the model", ()).values())
