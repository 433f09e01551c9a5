"""This module builds the config of a trial: a plain config of configs/training/, with what the
variant changes in it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Optional, Union

import spacy
from spacy.language import DEFAULT_CONFIG_PRETRAIN_PATH, Language
from spacy.training import Example
from spacy.util import set_dot_to_object
from thinc.api import Config

from .corpora import CORPUS, open_corpus
from .heads import BILSTM_DEPTH, own_settings
from .trials import LANGUAGE_MODELS, NAMED_MODELS, TRANSFORMER, Trial

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
# Tasks with encoders of their own: where these take a listener at the output of the first.
OUTPUTS = {"bcn": "elmo", "textpair": "output_tok2vec", "qa": "output_tok2vec"}
PAIRS = ("textpair", "qa")  # of two texts

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
    **dict.fromkeys((*MIXES, *LANGUAGE_MODELS, *NAMED_MODELS, TRANSFORMER), ("input",)),
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

    weights: Union[str, Block]
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


def build_config(
    trial: Trial, train: Path, dev: Path, inputs: Inputs, limits: dict[str, int]
) -> Config:
    """Build the config of a trial.

    trial (Trial): What is trained.
    train (Path): The training data, of which the trial may take a share.
    dev (Path): The data that choose the best model.
    inputs (Inputs): What it begins with.
    limits (dict): When training ends, where that is otherwise than in the config of the task:
        some of "max_steps", "patience" and "eval_frequency".
    RETURNS (Config): For `spacy.training.initialize.init_nlp`.
    """
    config = Config().from_disk(CONFIGS / f"{trial.task}.cfg", interpolate=False)
    config["training"] |= limits
    for place, value in own_settings(trial).items():
        set_dot_to_object(config, place, value)
    dropout = config["training"]["dropout"]
    config["components"] = _components(trial, config["components"], dropout, inputs.model)
    config["nlp"]["pipeline"] = list(config["components"])
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
    return config


def pretraining_block() -> Block:
    """RETURNS (dict): spaCy's defaults for `spacy pretrain` of the component `tok2vec`."""
    block: Block = Config().from_disk(DEFAULT_CONFIG_PRETRAIN_PATH)["pretraining"]
    return {**block, "max_epochs": 1}


def _components(
    trial: Trial, plain: Block, dropout: float, model: Optional[LanguageModel]
) -> Block:
    """The components of a plain config with another encoder, behind an `elmo` pipe if need be."""
    components = dict(plain)
    own = components[COMPONENTS[trial.task]]["model"]
    if trial.variant == "elmo" and trial.task == "tagger":  # each component listens for itself
        assert model is not None
        del components["tok2vec"]
        for component in components.values():
            component["model"]["tok2vec"] = _listener(trial, model)
    elif trial.variant == "pretrained":  # as `spacy pretrain` wants it, apart
        width = own["tok2vec"]["encode"]["width"]
        tok2vec = {"factory": "tok2vec", "model": own["tok2vec"]}
        own["tok2vec"] = {"@architectures": "spacy.Tok2VecListener.v1", "width": width}
        components = {"tok2vec": tok2vec, **components}
    elif trial.task == "tagger":
        components["tok2vec"]["model"] = _tok2vec(trial, own, dropout, model)
    elif "encode" in own["tok2vec"]:
        own["tok2vec"] = _tok2vec(trial, own["tok2vec"], dropout, model)
    else:  # which has encoders of its own
        own["tok2vec"] = _embed(trial, own["tok2vec"], model)
        if model is not None and "output" in PLACES[trial.variant]:  # of their first layer
            own[OUTPUTS[trial.task]] = _listener(trial, model)
    if trial.task == "coref":
        components["elmo_coref"]["singletons"] = trial.data == "litbank_coref"
        if trial.data == "ontogum_coref":  # whose mentions are longer: 4 % have more than 10 tokens
            own["max_span_width"] = 20
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


def _tok2vec(trial: Trial, plain: Block, dropout: float, model: Optional[LanguageModel]) -> Block:
    """Another encoder in place of a plain one, an embedding and an encoder of one width."""
    places = PLACES[trial.variant]
    if model is not None and places == ("alone",):
        return _listener(trial, model)
    width = plain["encode"]["width"]
    if model is not None and places == ("between",):
        return {
            "@architectures": "spacy-elmo.TagLMEncoder.v1",
            "width": width,
            "dropout": dropout,
            "embed": _embed(trial, plain["embed"], model, width),
            "elmo": _listener(trial, model),
        }
    tok2vec = {**plain, "embed": _embed(trial, plain["embed"], model, width)}
    if trial.variant == "bilstm":
        tok2vec["encode"] = {
            "@architectures": "spacy.TorchBiLSTMEncoder.v1",
            "width": width,
            "depth": BILSTM_DEPTH,
            "dropout": 0.0,  # that of the training is enough: more lowers dev F
        }
    if model is not None and "output" in places:
        return {
            "@architectures": "spacy-elmo.OutputConcat.v1",
            "tok2vec": tok2vec,
            "elmo": _listener(trial, model),
        }
    return tok2vec


def _embed(
    trial: Trial, plain: Block, model: Optional[LanguageModel], width: Optional[int] = None
) -> Block:
    """x, or `[x ; ELMo]`, brought to a width only where the encoder asks for one: the tasks'
    own encoders learn faster from the vectors as they are."""
    embed = {**plain, "include_static_vectors": trial.variant in STATIC}
    if model is not None and "input" in PLACES[trial.variant]:
        return {
            "@architectures": "spacy-elmo.ConcatEmbed.v1",
            "width": width,
            "maxout_pieces": 3,
            "embed": embed,
            "elmo": _listener(trial, model),
        }
    return embed


def _listener(trial: Trial, model: LanguageModel) -> Block:
    mix = MIXES.get(trial.variant, MIXES["lambda_0.001"])
    return {
        "@architectures": "spacy-elmo.ElmoListener.v1",
        "width": model.width,
        "mix": {
            "@architectures": "spacy-elmo.ScalarMix.v1",
            "n_layers": model.n_layers,
            "layer_norm": True,
            "dropout": 0.0,
            **mix(model.n_layers),
        },
    }
