"""Config of a trial: a config of configs/training/ without ELMo, changed for the variant."""

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
from .trials import LANGUAGE_MODELS, NAMED_MODELS, TRANSFORMERS, Trial

CONFIGS = Path(__file__).parents[2] / "configs" / "training"
# Component that contains the encoder, by task.
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
# Tasks with their own encoders: the model argument for an ELMo listener at the output of the first
# encoder.
OUTPUTS = {"bcn": "elmo", "textpair": "output_tok2vec", "qa": "output_tok2vec"}
PAIRS = ("textpair", "qa")  # Tasks on two texts.

# Arguments of ScalarMix for a number of layers, by variant.
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
# Places of ELMo, by variant: concatenated with the embeddings ("input") or with the output of the
# encoder ("output"), between its layers ("between"), or instead of both ("alone").
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
    **dict.fromkeys((*MIXES, *LANGUAGE_MODELS, *NAMED_MODELS, *TRANSFORMERS), ("input",)),
    "taglm": ("between",),
}
STATIC = ("static", "static_input")  # Variants with static vectors.
FINE_TUNED = {"frozen": False, "learn_rate_factor": 0.1, "features": None}
FEATURES = {"@feature_caches": "spacy-elmo.memory.v1", "dtype": "float16"}
Block = dict[str, Any]


@dataclass(frozen=True)
class LanguageModel:
    """Language model on disk.

    weights (str): Path or name of the weights.
    sizes (dict): Config block of the sizes.
    n_layers (int): Number of layers, including the token layer.
    width (int): Width of a layer.
    checksum (str): Checksum of the weights.
    perplexity (Optional[float]): Held-out perplexity, if the weights record it.
    """

    weights: Union[str, Block]
    sizes: Block
    n_layers: int
    width: int
    checksum: str
    perplexity: Optional[float]


@dataclass(frozen=True)
class Inputs:
    """Pretrained inputs of a trial; None if the trial does not need one.

    model (Optional[LanguageModel]): The language model.
    vectors (Optional[Path]): Folder of a pipeline with static vectors.
    tok2vec (Optional[Path]): Weights written by `spacy pretrain`.
    """

    model: Optional[LanguageModel] = None
    vectors: Optional[Path] = None
    tok2vec: Optional[Path] = None


@spacy.registry.readers("spacy-elmo-project.share.v1")
def read_share(
    path: Path, share: float, seed: int, gold_preproc: bool = False, reader: str = CORPUS
) -> Callable[[Language], Iterator[Example]]:
    """Create a corpus with a share of the examples of a file.

    With the same seed, a larger share contains every smaller share. The file is read once, because
    spaCy calls a corpus several times and again in each epoch.

    path (Path): The file.
    share (float): Share of the examples, above 0 and at most 1.
    seed (int): Random seed of the choice.
    gold_preproc (bool): Argument of spaCy's reader.
    reader (str): Name of the reader in the registry.
    RETURNS (Callable): The corpus: a function from `nlp` to examples.
    """
    corpus = open_corpus(path, {"@readers": reader, "gold_preproc": gold_preproc})
    chosen: list[Example] = []

    def read(nlp: Language) -> Iterator[Example]:
        if not chosen:
            examples = list(corpus(nlp))
            chosen.extend(examples[i] for i in choose(len(examples), share, seed))
        yield from chosen

    return read


def choose(n_examples: int, share: float, seed: int) -> list[int]:
    """Return the indices of the chosen examples in ascending order, at least one."""
    order = Random(seed).sample(range(n_examples), n_examples)
    return sorted(order[: max(1, round(share * n_examples))])


def build_config(
    trial: Trial, train: Path, dev: Path, inputs: Inputs, limits: dict[str, int]
) -> Config:
    """Build the config of a trial.

    trial (Trial): The trial.
    train (Path): All training data. The config selects the trial's share of them.
    dev (Path): The dev data.
    inputs (Inputs): Pretrained inputs.
    limits (dict): Limits that replace those in the task's config: some of "max_steps", "patience"
        and "eval_frequency".
    RETURNS (Config): A config for `spacy.training.initialize.init_nlp`.
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
    """Return spaCy's default section `[pretraining]`, with one epoch."""
    block: Block = Config().from_disk(DEFAULT_CONFIG_PRETRAIN_PATH)["pretraining"]
    return {**block, "max_epochs": 1}


def _components(
    trial: Trial, plain: Block, dropout: float, model: Optional[LanguageModel]
) -> Block:
    """Return a config's components with the trial's encoder; `elmo` is the first if needed."""
    components = dict(plain)
    own = components[COMPONENTS[trial.task]]["model"]
    if trial.variant == "elmo" and trial.task == "tagger":  # One listener per component.
        assert model is not None
        del components["tok2vec"]
        for component in components.values():
            component["model"]["tok2vec"] = _listener(trial, model)
    elif trial.variant == "pretrained":  # `spacy pretrain` needs a component for it.
        width = own["tok2vec"]["encode"]["width"]
        tok2vec = {"factory": "tok2vec", "model": own["tok2vec"]}
        own["tok2vec"] = {"@architectures": "spacy.Tok2VecListener.v1", "width": width}
        components = {"tok2vec": tok2vec, **components}
    elif trial.task == "tagger":
        components["tok2vec"]["model"] = _tok2vec(trial, own, dropout, model)
    elif "encode" in own["tok2vec"]:
        own["tok2vec"] = _tok2vec(trial, own["tok2vec"], dropout, model)
    else:  # The task has its own encoders.
        own["tok2vec"] = _embed(trial, own["tok2vec"], model)
        if model is not None and "output" in PLACES[trial.variant]:  # Output of the first encoder.
            own[OUTPUTS[trial.task]] = _listener(trial, model)
    if trial.task == "coref":
        components["elmo_coref"]["singletons"] = trial.data == "litbank_coref"
        if trial.data == "ontogum_coref":  # 4 % of its mentions have more than 10 tokens.
            own["max_span_width"] = 20
    if model is None:
        return components
    elmo = _elmo(model)
    if trial.variant == "fine_tuned":
        elmo |= FINE_TUNED
    if trial.task in PAIRS:  # These corpora are large.
        elmo["features"] = {**FEATURES, "size": 4096.0}
    return {"elmo": elmo, **components}


def _elmo(model: LanguageModel) -> Block:
    """Return the config block of the `elmo` pipe."""
    return {
        "factory": "elmo",
        "weights": model.weights,
        "model": model.sizes,
        "set_vectors": False,
    }


def _tok2vec(trial: Trial, plain: Block, dropout: float, model: Optional[LanguageModel]) -> Block:
    """Return the trial's variant of a `tok2vec` that has an embedding and an encoder."""
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
            "dropout": 0.0,  # Dropout in addition to the training's lowers dev F.
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
    """Return the trial's embedding: `x`, or `[x ; ELMo]` for ELMo at the input.

    width (Optional[int]): Width to project to, if the encoder requires one. The tasks' own encoders
        learn faster without a projection.
    """
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
