"""What a run starts from: random weights, or a model that exists."""

from typing import Optional

import torch
from wasabi import msg

from ..bilm.config import BiLMConfig
from ..bilm.model import BiLM
from ..bilm.precision import has_bfloat16
from ..bilm.softmax import AdaptiveSoftmax, LanguageModelSoftmax, Softmax, make_softmax
from ..bilm.vocabulary import Vocabulary
from ..language_model.model import LanguageModel
from ..text.corpus import Corpus
from ..weights.bundle import Prediction
from ..weights.formats import read_bundle
from ..weights.vocabulary_files import VOCABULARY_FILE
from .config import PretrainingConfig


def initial_model(config: PretrainingConfig, train: Corpus) -> tuple[LanguageModel, int]:
    """Make the model that a run starts from. The sizes of a model to go on from
    take the place of the config's.

    config (PretrainingConfig): The settings.
    train (Corpus): The text, for a new vocabulary.
    RETURNS (Tuple[LanguageModel, int]): The model, and the steps in which its
        softmax alone is trained, because it is new and the biLM is not.
    RAISES (ValueError): The model to go on from cannot be read, its softmax is of
        another kind, or models of such sizes cannot be pretrained.
    """
    init, settings = config.pretraining.init, config.pretraining
    if init is None:
        _check_sizes("[model]", config.bilm)
        bilm = BiLM(config.bilm)
        softmax, vocabulary = _new_softmax(config, train, bilm.config.projection_dim)
        return LanguageModel(bilm, softmax, vocabulary), 0
    bundle = read_bundle(init)
    bilm, known = bundle.bilm.requires_grad_(True), bundle.prediction
    _check_sizes(init, bilm.config)
    if known is not None and settings.vocabulary == "keep":
        _check_kind(init, known[0], config.training.softmax)
        return LanguageModel(bilm, known[0].requires_grad_(True), known[1]), 0
    if bundle.missing == VOCABULARY_FILE:
        msg.warn(f"{init} has a softmax, but no {VOCABULARY_FILE}: a new one takes its place")
    softmax, vocabulary = _new_softmax(config, train, bilm.config.projection_dim)
    if known is not None:
        _copy_known_words(known, softmax, vocabulary)
    return LanguageModel(bilm, softmax, vocabulary), settings.softmax_warmup


def _check_sizes(source: str, sizes: BiLMConfig) -> None:
    """That the model reads bytes, in both directions: others can be used, not pretrained."""
    reads_bytes = sizes.token_encoder == "bilm-tf" and sizes.n_characters and not sizes.n_words
    if not reads_bytes or not sizes.bidirectional:
        raise ValueError(
            f"{source}: only models of two directions that read characters as UTF-8 bytes can be "
            f"pretrained; this has token_encoder = '{sizes.token_encoder}', n_characters = "
            f"{sizes.n_characters}, n_words = {sizes.n_words}, bidirectional = "
            f"{str(sizes.bidirectional).lower()}"
        )


def _new_softmax(config: PretrainingConfig, train: Corpus, width: int) -> Prediction:
    vocabulary = Vocabulary.from_counts(
        train.types, train.counts(), **config.vocabulary.model_dump()
    )
    kind = config.training.softmax
    return make_softmax(kind, n_words=len(vocabulary), width=width), vocabulary


def _check_kind(init: str, softmax: Softmax, kind: str) -> None:
    if isinstance(softmax, AdaptiveSoftmax) != (kind == "adaptive"):
        found = "an adaptive softmax" if kind != "adaptive" else "no adaptive softmax"
        raise ValueError(
            f"{init} has {found}, but [training] softmax is '{kind}': change it, or set "
            f'[pretraining] vocabulary = "new" for a new softmax'
        )


@torch.no_grad()
def _copy_known_words(known: Prediction, softmax: Softmax, vocabulary: Vocabulary) -> None:
    """Words that the old softmax has start from its rows."""
    old, old_vocabulary = known
    if not isinstance(old, LanguageModelSoftmax) or not isinstance(softmax, LanguageModelSoftmax):
        return
    sources = torch.from_numpy(old_vocabulary.ids_of(vocabulary.words))
    is_known = torch.tensor([word in old_vocabulary for word in vocabulary.words])
    softmax.weight[is_known] = old.weight[sources[is_known]]
    softmax.bias[is_known] = old.bias[sources[is_known]]


def product_dtype(precision: str, device: torch.device) -> Optional[torch.dtype]:
    """In which type matrix products of the training are computed.

    precision (str): "float32", "bf16" or "auto": bfloat16 where the processor or
        GPU has instructions for it.
    device (torch.device): Where the model is trained.
    RETURNS (Optional[torch.dtype]): The type; None for the weights' own.
    """
    wanted = precision == "bf16" or (precision == "auto" and has_bfloat16(device))
    return torch.bfloat16 if wanted else None
