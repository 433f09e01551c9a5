"""Reader of CoVe's encoder (McCann et al. 2017), a state dict of an LSTM over word vectors."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..frozen.model import FrozenBiLM
from ..model.config import NO_CHARACTERS, BiLMConfig, swapped_gates
from ..model.vocabulary import SPECIAL, InputVocabulary, Vocabularies
from .layout import Entry, build, plain, read_parameters, without_forget_bias
from .state_dict_file import StateDict, read_state_dict

SECOND = "_hh"  # PyTorch's LSTM has two biases, which are added, because `FrozenBiLM` has one.


class WordVectors(NamedTuple):
    """Word vectors, such as GloVe.

    table (numpy.ndarray): The vector of each word. *Shape:* `(n_words, width)`
    """

    words: Sequence[str]
    table: np.ndarray


def read_cove(file: Path, vectors: WordVectors) -> FrozenBiLM:
    """Read CoVe's encoder as a biLM, whose layer 0 is the word vectors.

    The state dict has the parameter names of PyTorch's bidirectional LSTM (`weight_ih_l0`,
    `weight_ih_l0_reverse` and so on), with or without a prefix. The vectors of unknown words are
    zeros.

    vectors (WordVectors): The word vectors that the encoder was trained with.
    RAISES (ValueError): The file is not the state dict of an encoder, or the encoder reads vectors
        of another width.
    """
    stored = _without_prefix(read_state_dict(file))
    shape, width = stored.shape("weight_ih_l0"), vectors.table.shape[1]
    if shape is None or shape[1:] != (width,):
        raise ValueError(
            f"{file}: not an encoder of CoVe for vectors of width {width}: the shape of "
            f"'weight_ih_l0' is {shape}. Give its state dict, and the vectors of its training"
        )
    config = BiLMConfig(
        lstm_dim=width,
        projection_dim=width,
        n_layers=sum(bool(re.fullmatch(r"weight_ih_l\d+", name)) for name in stored),
        cell_clip=None,
        proj_clip=None,
        use_skip_connections=False,
        **NO_CHARACTERS,
        n_words=len(vectors.words) + len(SPECIAL),
        word_embed_dim=width,
        joined_directions=True,
        sentence_marks=False,
    )
    parameters = read_parameters(_layout(config), stored, "the width of the vectors")
    for name in [name for name in parameters if name.endswith(".bias")]:
        parameters[name] = without_forget_bias(parameters[name] + parameters.pop(name + SECOND))
    # Sentence marks and unknown words get rows of zeros before the table.
    words = [None if word in SPECIAL else word for word in vectors.words]
    zeros = np.zeros((len(SPECIAL), width), dtype="float32")
    table = np.concatenate([zeros, vectors.table.astype("float32")])
    parameters = {"encoder.words.weight": table, **parameters}
    vocabularies = Vocabularies(words=InputVocabulary([*SPECIAL, *words]))
    return build(config, vocabularies, parameters, source=file)


def _without_prefix(stored: StateDict) -> StateDict:
    """Remove the prefix of the LSTM's parameters from all names."""
    first = next((name for name in stored if name.endswith("weight_ih_l0")), "")
    prefix = first.removesuffix("weight_ih_l0")
    tensors = {name.removeprefix(prefix): tensor for name, tensor in stored.items()}
    return StateDict(tensors, stored.source)


def _layout(config: BiLMConfig) -> Iterator[Entry]:
    gates = 4 * config.lstm_dim
    for layer in range(config.n_layers):
        shape = (gates, config.width if layer else config.projection_dim)
        for d, suffix in enumerate(("", "_reverse")):
            theirs, ours = f"l{layer}{suffix}", f"stacks.{d}.{layer}"
            yield plain(f"weight_ih_{theirs}", shape, f"{ours}.input_weight", swapped_gates)
            state = (gates, config.lstm_dim)
            yield plain(f"weight_hh_{theirs}", state, f"{ours}.state_weight", swapped_gates)
            yield plain(f"bias_ih_{theirs}", (gates,), f"{ours}.bias")
            yield plain(f"bias_hh_{theirs}", (gates,), f"{ours}.bias{SECOND}")
