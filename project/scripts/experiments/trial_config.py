"""This module builds the config of a trial: a plain config of configs/training/, with the head that
was chosen for the task and with what the variant changes in it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Optional

import spacy
from spacy.language import DEFAULT_CONFIG_PRETRAIN_PATH, Language
from spacy.training import Example
from thinc.api import Config

from .corpora import CORPUS, open_corpus
from .heads import Head, Limits, head_of
from .trials import LANGUAGE_MODELS, Trial

CONFIGS = Path(__file__).parents[2] / "configs" / "training"
# Where the encoder is.
COMPONENTS = {
    "ner": "ner",
    "textcat": "textcat",
    "tagger": "tok2vec",
    "srl": "elmo_srl",
    "crf": "elmo_crf",
    "bcn": "textcat",
    "textpair": "elmo_textpair",
    "qa": "elmo_qa",
    "coref": "elmo_coref",
}
PAIRS = ("textpair", "qa")  # of two texts
ROWS = {"NORM": 5000, "PREFIX": 1000, "SUFFIX": 2500, "SHAPE": 2500}

# How the layers are mixed: the argument names are those of ScalarMix.
MIXES: dict[str, Callable[[int], dict[str, Any]]] = {
    **dict.fromkeys(
        ("top", "taglm"), lambda n: {"initial": [0.0] * (n - 1) + [1.0], "trainable": False}
    ),
    "layer_0": lambda n: {"initial": [1.0] + [0.0] * (n - 1), "trainable": False},
    "layer_1": lambda n: {"initial": [0.0, 1.0] + [0.0] * (n - 2), "trainable": False},
    "average": lambda n: {"trainable": False},
    "lambda_1": lambda n: {"l2": 1.0},
    "lambda_0.001": lambda n: {"l2": 0.001},
    "rate_10": lambda n: {"l2": 0.001, "learn_rate_factor": 10.0},
    "dropout_0.5": lambda n: {"l2": 0.001, "dropout": 0.5},
}
# Where ELMo stands: beside the embeddings, beside the encoder's output, between its layers, or
# alone.
PLACES = {
    "tok2vec": (),
    "bilstm": (),
    "input": ("input",),
    "output": ("output",),
    "input_output": ("input", "output"),
    "elmo": ("alone",),
    "crf_input": ("input",),
    "static": (),
    "static_input": ("input",),
    "pretrained": (),
    "fine_tuned": ("input",),
    **dict.fromkeys((*MIXES, *LANGUAGE_MODELS), ("input",)),
    "taglm": ("between",),
}
STATIC = ("static", "static_input")  # beside static vectors
FINE_TUNED = {"frozen": False, "learn_rate_factor": 0.1, "features": None}
FEATURES = {"@feature_caches": "spacy-elmo.memory.v1", "dtype": "float16"}
Block = dict[str, Any]


@dataclass(frozen=True)
class LanguageModel:
    """A language model on disk: its path, the config of its sizes, how many layers of which width
    it has, by which checksum it is known, and its held-out perplexity, if it says."""

    weights: str
    sizes: Block
    n_layers: int
    width: int
    checksum: str
    perplexity: Optional[float]


@dataclass(frozen=True)
class Inputs:
    """What a trial begins with, as far as it needs it: a language model, static vectors (a
    pipeline's folder), a `tok2vec` that `spacy pretrain` wrote."""

    model: Optional[LanguageModel] = None
    vectors: Optional[Path] = None
    tok2vec: Optional[Path] = None


@spacy.registry.readers("spacy-elmo-project.share.v1")
def read_share(
    path: Path, share: float, seed: int, gold_preproc: bool = False, reader: str = CORPUS
) -> Callable[[Language], Iterator[Example]]:
    """Read a share of the examples of a .spacy file, by spaCy's reader or another. The shares of a
    seed are nested: each is a part of every larger one. The file is read once: spaCy asks several
    times, and each epoch again."""
    corpus = open_corpus(path, {"@readers": reader, "gold_preproc": gold_preproc})
    chosen: list[Example] = []

    def read(nlp: Language) -> Iterator[Example]:
        if not chosen:
            examples = list(corpus(nlp))
            chosen.extend(examples[i] for i in choose(len(examples), share, seed))
        yield from chosen

    return read


def choose(n_examples: int, share: float, seed: int) -> list[int]:
    """RETURNS (List[int]): The chosen examples' numbers, at least one, in order."""
    order = Random(seed).sample(range(n_examples), n_examples)
    return sorted(order[: max(1, round(share * n_examples))])


def build_config(trial: Trial, train: Path, dev: Path, inputs: Inputs, limits: Limits) -> Config:
    """Build the config of a trial.

    trial (Trial): What is trained.
    train (Path): The training data, of which the trial may take a share.
    dev (Path): The data that choose the best model.
    inputs (Inputs): What it begins with.
    limits (Limits): When training ends.
    RETURNS (Config): For `spacy.training.initialize.init_nlp`.
    """
    head = head_of(trial)
    config = Config().from_disk(CONFIGS / f"{trial.task}.cfg", interpolate=False)
    config["components"] = _components(trial, config["components"], head, inputs.model)
    pipeline = list(config["components"])
    config["nlp"]["pipeline"] = pipeline
    reader = config["corpora"]["train"]
    is_corpus = reader["@readers"] == CORPUS
    own = {"gold_preproc": reader["gold_preproc"]} if is_corpus else {"reader": reader["@readers"]}
    config["corpora"]["train"] = {
        "@readers": "spacy-elmo-project.share.v1",
        "path": str(train),
        "share": trial.share,
        "seed": trial.seed,
        **own,
    }
    config["paths"]["dev"] = str(dev)
    config["paths"]["vectors"] = inputs.vectors and str(inputs.vectors)
    config["paths"]["init_tok2vec"] = inputs.tok2vec and str(inputs.tok2vec)
    if inputs.tok2vec:
        config["pretraining"] = pretraining_block()
    config["system"]["seed"] = trial.seed
    training = config["training"]
    training["dropout"] = head.dropout
    training["max_steps"] = limits.max_steps
    training["patience"] = limits.patience
    training["eval_frequency"] = limits.eval_frequency
    training["batcher"]["size"] = head.batch_words
    training["optimizer"]["learn_rate"] = head.learn_rate
    return config


def pretraining_block() -> Block:
    """RETURNS (dict): spaCy's defaults for `spacy pretrain` of the component `tok2vec`."""
    block: Block = Config().from_disk(DEFAULT_CONFIG_PRETRAIN_PATH)["pretraining"]
    return {**block, "max_epochs": 1}


def _components(trial: Trial, plain: Block, head: Head, model: Optional[LanguageModel]) -> Block:
    """The components of a plain config with another encoder, behind an `elmo` pipe if need be."""
    components = dict(plain)
    if trial.task == "ner":
        components["ner"]["model"]["hidden_width"] = head.hidden_width
    if trial.variant == "elmo" and trial.task == "tagger":  # each component listens for itself
        assert model is not None
        del components["tok2vec"]
        for name in components:
            components[name]["model"]["tok2vec"] = _listener(trial, head, model)
    elif trial.variant == "pretrained":  # as `spacy pretrain` wants it, apart
        listener = {"@architectures": "spacy.Tok2VecListener.v1", "width": head.width}
        components[COMPONENTS[trial.task]]["model"]["tok2vec"] = listener
        tok2vec = {"factory": "tok2vec", "model": _tok2vec(trial, head, model)}
        components = {"tok2vec": tok2vec, **components}
    elif trial.task == "tagger":
        components["tok2vec"]["model"] = _tok2vec(trial, head, model)
        for name in ("tagger", "morphologizer"):
            components[name]["model"]["tok2vec"]["width"] = head.width
    elif trial.task == "srl":  # which has an encoder of its own behind it
        components["elmo_srl"]["model"]["tok2vec"] = _embed(trial, head, model)
        components["elmo_srl"]["model"]["encode"] |= {"width": head.width, "depth": head.depth}
    elif trial.task == "bcn":  # which has encoders of its own
        components["textcat"]["model"]["tok2vec"] = _embed(trial, head, model)
        if model is not None and "output" in PLACES[trial.variant]:
            components["textcat"]["model"]["elmo"] = _listener(trial, head, model)
    elif trial.task in PAIRS:  # whose output is that of their own first layer
        pair_model = components[COMPONENTS[trial.task]]["model"]
        pair_model["tok2vec"] = _embed(trial, head, model)
        if model is not None and "output" in PLACES[trial.variant]:
            pair_model["output_tok2vec"] = _listener(trial, head, model)
    elif trial.task == "coref":  # likewise
        components["elmo_coref"]["model"]["tok2vec"] = _embed(trial, head, model)
        components["elmo_coref"]["singletons"] = trial.data == "litbank_coref"
        if trial.data == "ontogum_coref":  # whose mentions are longer: 4 % have more than 10 tokens
            components["elmo_coref"]["model"]["max_span_width"] = 20
    else:
        components[COMPONENTS[trial.task]]["model"]["tok2vec"] = _tok2vec(trial, head, model)
    if model is None:
        return components
    elmo = _elmo(model)
    if trial.variant == "fine_tuned":
        elmo |= FINE_TUNED
    if trial.task in PAIRS:  # these corpora are large
        elmo["features"] = {**FEATURES, "size": 4096.0}
    return {"elmo": elmo, **components}


def _elmo(model: LanguageModel) -> Block:
    """The pipe, which keeps the layers of a sentence for the next epochs."""
    return {
        "factory": "elmo",
        "weights": model.weights,
        "model": model.sizes,
        "set_vectors": False,
    }


def _tok2vec(trial: Trial, head: Head, model: Optional[LanguageModel]) -> Block:
    places = PLACES[trial.variant]
    if model is not None and places == ("alone",):
        return _listener(trial, head, model)
    if model is not None and places == ("between",):
        return {
            "@architectures": "spacy-elmo.TagLMEncoder.v1",
            "width": head.width,
            "dropout": head.dropout,
            "embed": _embed(trial, head, model, head.width),
            "elmo": _listener(trial, head, model),
        }
    tok2vec: Block = {
        "@architectures": "spacy.Tok2Vec.v2",
        "embed": _embed(trial, head, model, head.width),
        "encode": _encoder("bilstm" if trial.variant == "bilstm" else head.encoder, head),
    }
    if model is not None and "output" in places:
        return {
            "@architectures": "spacy-elmo.OutputConcat.v1",
            "tok2vec": tok2vec,
            "elmo": _listener(trial, head, model),
        }
    return tok2vec


def _embed(
    trial: Trial, head: Head, model: Optional[LanguageModel], width: Optional[int] = None
) -> Block:
    """x, or `[x ; ELMo]`, brought to a width only where the encoder asks for one: the tasks'
    own encoders learn faster from the vectors as they are."""
    embed: Block = {
        "@architectures": "spacy.MultiHashEmbed.v2",
        "width": head.width,
        "attrs": list(ROWS),
        "rows": list(ROWS.values()),
        "include_static_vectors": trial.variant in STATIC,
    }
    if model is not None and "input" in PLACES[trial.variant]:
        embed = {
            "@architectures": "spacy-elmo.ConcatEmbed.v1",
            "width": width,
            "maxout_pieces": 3,
            "embed": embed,
            "elmo": _listener(trial, head, model),
        }
    return embed


def _encoder(kind: str, head: Head) -> Block:
    recurrent = {"bilstm": "spacy.TorchBiLSTMEncoder.v1", "birnn": "spacy-elmo.BiRNN.v1"}
    if kind in recurrent:
        return {
            "@architectures": recurrent[kind],
            "width": head.width,
            "depth": head.depth,
            "dropout": 0.0,  # that of the training is enough: more lowers dev F
        }
    return {
        "@architectures": "spacy.MaxoutWindowEncoder.v2",
        "width": head.width,
        "depth": head.depth,
        "window_size": 1,
        "maxout_pieces": 3,
    }


def _listener(trial: Trial, head: Head, model: LanguageModel) -> Block:
    mix = MIXES.get(trial.variant, MIXES["lambda_0.001"])
    return {
        "@architectures": "spacy-elmo.ElmoListener.v1",
        "width": model.width,
        "mix": {
            "@architectures": "spacy-elmo.ScalarMix.v1",
            "n_layers": model.n_layers,
            "layer_norm": True,
            "dropout": head.elmo_dropout,
            **mix(model.n_layers),
        },
    }
