"""Initial model of a run: a new model with random weights, or an existing model."""

from dataclasses import replace
from typing import Optional

import torch

from ..bilm.model import BiLM
from ..bilm.precision import has_bfloat16
from ..bilm.softmax import (
    AdaptiveSoftmax,
    LanguageModelSoftmax,
    Softmax,
    make_softmax,
    thaw_softmax,
)
from ..files.terminal import msg
from ..language_model.model import LanguageModel
from ..model.config import BiLMConfig
from ..model.vocabulary import InputVocabulary, Vocabularies, Vocabulary
from ..text.corpus import Corpus
from ..weights.formats import read_bundle
from ..weights.vocabulary_files import VOCABULARY_FILE
from .config import PretrainingConfig, TrainingSettings


def initial_model(config: PretrainingConfig, train: Corpus) -> tuple[LanguageModel, int]:
    """Make the model that a run starts from.

    The sizes of an existing model replace the sizes in the config.

    config (PretrainingConfig): The settings.
    train (Corpus): The training text, from which a new vocabulary is made.
    RETURNS (Tuple[LanguageModel, int]): The model, and the number of first steps that train only
        the softmax. It is 0 if the softmax is not new, or if the whole model is new.
    RAISES (ValueError): The initial model cannot be read, its softmax is not of the kind in
        `[training] softmax`, or a model of these sizes cannot be pretrained.
    """
    init, settings = config.pretraining.init, config.pretraining
    if init is None:
        _check_readable(config.bilm)
        sizes, vocabulary = config.bilm, _new_vocabulary(config, train)
        vocabularies = Vocabularies()
        if sizes.n_words:  # A model of words reads the words that it predicts.
            sizes = replace(sizes, n_words=len(vocabulary))
            vocabularies = Vocabularies(words=InputVocabulary(vocabulary.words))
        bilm = BiLM(sizes, vocabularies)
        return LanguageModel(bilm, _new_softmax(config, bilm, vocabulary), vocabulary), 0
    bundle = read_bundle(init)
    # Training changes the vectors, so the alignment would not fit them.
    bilm = BiLM.from_frozen(bundle.bilm.replace(alignment=None)).train()
    known = bundle.prediction and (thaw_softmax(bundle.prediction[0]), bundle.prediction[1])
    _check_trainable(init, bilm.config)
    if known is not None and settings.vocabulary == "keep":
        _check_kept(init, bilm, known[0], config.training)
        return LanguageModel(bilm, *known), 0
    if bundle.missing == VOCABULARY_FILE:
        msg.warn(f"{init} has a softmax, but no {VOCABULARY_FILE}: a new softmax replaces it")
    vocabulary = _new_vocabulary(config, train)
    softmax = _new_softmax(config, bilm, vocabulary)
    if known is not None:
        _copy_known_words(known, softmax, vocabulary)
    return LanguageModel(bilm, softmax, vocabulary), settings.softmax_warmup


def share_table(model: LanguageModel) -> None:
    """Make the word vectors and the softmax of a model share one table.

    bilm-tf's option `share_embedding_softmax` does the same.

    model (LanguageModel): The model. The shared table gets the weights of the softmax.
    RAISES (ValueError): The model does not read exactly the words that it predicts.
    """
    encoder, softmax = model.bilm.encoder, model.softmax
    read = encoder.indexer.vocabularies.words
    if encoder.words is None or encoder.embedding is not None or not encoder.uses_word_table:
        raise ValueError(
            "share_embedding_softmax is for models of words alone: char_embed_dim = 0 and n_words"
        )
    if isinstance(softmax, AdaptiveSoftmax):
        raise ValueError("share_embedding_softmax needs softmax = 'sampled' or 'full'")
    if read is None or list(read.strings) != model.vocabulary.words:
        raise ValueError("share_embedding_softmax: the model reads other words than it predicts")
    encoder.words.weight = softmax.weight


def _check_kept(init: str, bilm: BiLM, softmax: Softmax, settings: TrainingSettings) -> None:
    """Check that the settings allow to continue with the softmax of the initial model.

    RAISES (ValueError): The softmax is of another kind, or its weights differ from the word vectors
        although both should share one table.
    """
    if isinstance(softmax, AdaptiveSoftmax) != (settings.softmax == "adaptive"):
        found = "no adaptive softmax" if settings.softmax == "adaptive" else "an adaptive softmax"
        raise ValueError(
            f"{init} has {found}, but [training] softmax is '{settings.softmax}'. Change it, or "
            f'set [pretraining] vocabulary = "new" for a new softmax.'
        )
    words = bilm.encoder.words if settings.share_embedding_softmax else None
    if words is None or not isinstance(softmax, LanguageModelSoftmax):
        return
    if not torch.equal(words.weight, softmax.weight):
        raise ValueError(
            f"{init} reads and predicts words by two tables, which share_embedding_softmax cannot "
            f"join. Set it to false."
        )


def _check_readable(sizes: BiLMConfig) -> None:
    """Check that a new model of these sizes reads either UTF-8 bytes or words.

    Other models need vocabularies that pretraining does not make.

    RAISES (ValueError): The model reads code points, or both characters and words.
    """
    if sizes.token_encoder != "bilm-tf" or (sizes.n_words and sizes.n_characters):
        raise ValueError(
            f"[model]: a new model reads characters as UTF-8 bytes, or words; this has "
            f"token_encoder = '{sizes.token_encoder}', n_characters = {sizes.n_characters}, "
            f"n_words = {sizes.n_words}. Give an initial model as [pretraining] init."
        )


def _check_trainable(source: str, sizes: BiLMConfig) -> None:
    """Check that training can change all weights of the model.

    RAISES (ValueError): The model reads characters, but has fixed vectors for some words.
    """
    if sizes.token_encoder == "bilm-tf" and sizes.n_words and sizes.n_characters:
        raise ValueError(
            f"{source}: a model with ready-made vectors of words beside its characters cannot be "
            f"trained: n_words = {sizes.n_words}, n_characters = {sizes.n_characters}"
        )


def _new_vocabulary(config: PretrainingConfig, train: Corpus) -> Vocabulary:
    settings, n_words = config.vocabulary.model_dump(), config.bilm.n_words
    if config.pretraining.init is None and n_words:
        settings["max_size"] = min(settings["max_size"], n_words)
    return Vocabulary.from_counts(train.types, train.counts(), **settings)


def _new_softmax(config: PretrainingConfig, bilm: BiLM, vocabulary: Vocabulary) -> Softmax:
    kind, width = config.training.softmax, bilm.config.projection_dim
    return make_softmax(kind, n_words=len(vocabulary), width=width)


@torch.no_grad()
def _copy_known_words(
    known: tuple[Softmax, Vocabulary], softmax: Softmax, vocabulary: Vocabulary
) -> None:
    """Copy to the new softmax the weights of all words that both vocabularies contain."""
    old, old_vocabulary = known
    if not isinstance(old, LanguageModelSoftmax) or not isinstance(softmax, LanguageModelSoftmax):
        return
    sources = torch.from_numpy(old_vocabulary.ids_of(vocabulary.words))
    is_known = torch.tensor([word in old_vocabulary for word in vocabulary.words])
    softmax.weight[is_known] = old.weight[sources[is_known]]
    softmax.bias[is_known] = old.bias[sources[is_known]]


def product_dtype(precision: str, device: torch.device) -> Optional[torch.dtype]:
    """Choose the dtype of matrix products in training.

    precision (str): "float32", "bf16" or "auto". "auto" is bf16 if the processor or the GPU has
        instructions for it, and otherwise float32.
    device (torch.device): Device of the training.
    RETURNS (Optional[torch.dtype]): The dtype; None for the dtype of the weights.
    """
    enabled = precision == "bf16" or (precision == "auto" and has_bfloat16(device))
    return torch.bfloat16 if enabled else None
