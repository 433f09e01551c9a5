"""Command `python -m spacy elmo init-training`: writes a config for `spacy train`."""

import shlex
from pathlib import Path
from typing import Any, Optional

import typer
from thinc.api import Config

from ..files import atomic_write, check_regular
from ..files.terminal import echo, msg
from ..tasks.shared.task_files import READERS
from ..text.reading import blank_pipeline
from .errors import check_new
from .options import FORCE

# spaCy's `lemmatizer` uses rules and tables, and cannot be trained.
TRAINABLE = {"lemmatizer": "trainable_lemmatizer"}
PAIRS = ("elmo_textpair", "elmo_qa")
# These components have recurrent layers, and learn faster without spaCy's encoder.
WITH_ENCODER = (*PAIRS, "elmo_srl", "elmo_coref")
# These components learn entities, also from the TSV files of HIPE.
ENTITIES = ("ner", "elmo_crf")
HIPE = "spacy-elmo.HIPECorpus.v1"
PAGE = "https://spacy.io/api#architecture-pipeline"


def init_training_cli(
    output: Path = typer.Argument(..., help="Config to write; '-' prints it"),
    pipeline: str = typer.Option(
        "ner",
        "--pipeline",
        "-p",
        help="Trainable components, separated by commas: ner, textcat, tagger, morphologizer, "
        "parser, spancat, senter, lemmatizer (the trainable one) and others with a tok2vec",
    ),
    lang: Optional[str] = typer.Option(
        None, "--lang", "-l", help="Language of the pipeline; default: the weights' language"
    ),
    weights: str = typer.Option(
        "en_small", help="Language model: a path, an https:// URL, or the name of a published model"
    ),
    train: Optional[Path] = typer.Option(
        None,
        exists=True,
        help="Training data: .spacy, .tsv of HIPE for entities, or .jsonl for elmo_srl and others",
    ),
    dev: Optional[Path] = typer.Option(
        None, exists=True, help="Development data in the same formats"
    ),
    force: bool = FORCE,
) -> None:
    """Write a config for `spacy train` with ELMo.

    Each component uses ELMo in addition to its own embeddings, and learns its own mix of layers.
    The config lists all settings.

    Example: python -m spacy elmo init-training config.cfg --pipeline ner,textcat
    --weights pretraining/model-best --train train.spacy --dev dev.spacy
    """
    from ..weights import language_of_weights

    check_new(output, force=force)
    for path in filter(None, (train, dev)):
        check_regular(path)
    names = [name.strip() for name in pipeline.split(",") if name.strip()]
    lang = lang or language_of_weights(weights)
    if lang is None:
        raise ValueError(f"the language of '{weights}' is unknown. Give it with --lang, such as en")
    config, idle = training_config(names, lang=lang, weights=weights)
    config["paths"].update(train=train and str(train), dev=dev and str(dev))
    reader = reader_of(names, [path for path in (train, dev) if path])
    if reader is not None:
        column = {"column": "NE-COARSE-LIT"} if reader == HIPE else {}
        for split in ("train", "dev"):
            given = f"${{paths.{split}}}"
            config["corpora"][split] = {"@readers": reader, "path": given, **column}
    if str(output) == "-":
        echo(config.to_str())
        return
    atomic_write(output, config.to_str() + "\n")
    for name in idle:
        msg.warn(f"'{name}' has no tok2vec: it runs without ELMo")
    given = "" if train and dev else " --paths.train train.spacy --paths.dev dev.spacy"
    config_file = shlex.quote(str(output))
    msg.good(f"Wrote {output}", f"python -m spacy train {config_file} --output training{given}")


def reader_of(names: list[str], paths: list[Path]) -> Optional[str]:
    """Return the name of the reader for the components' training data.

    spaCy's reader is for .spacy files, a component's own reader is for other files. If a component
    learns entities, .tsv files are read as HIPE's. There are two exceptions for .spacy files.
    Components for pairs of texts use their own reader. `elmo_coref`
    uses its own reader if it is the only component, to keep the sentences of the Docs.

    names (List[str]): Names of the components' factories.
    paths (List[Path]): The files of training and dev data that the user gave; may be empty.
    RETURNS (Optional[str]): The name of a reader; None for spaCy's reader.
    RAISES (ValueError): The components need different files, or no reader fits.
    """
    own = [name for name in names if name in READERS]
    others = [path for path in paths if path.is_file() and path.suffix != ".spacy"]
    if others and set(names) <= set(ENTITIES) and all(".tsv" in path.suffixes for path in paths):
        return HIPE
    if not (others or set(own).intersection(PAIRS) or names == ["elmo_coref"]):
        return None
    if not own:
        raise ValueError(
            f"{others[0]}: data for {', '.join(names)} must be a .spacy file. Make one with "
            f"`spacy convert`"
        )
    if len(names) > 1:
        raise ValueError(
            f"--pipeline: {' and '.join(names)} learn from files of different kinds. Write a "
            f"config for each, and combine them with `source`"
        )
    return READERS[own[0]]


def training_config(names: list[str], *, lang: str, weights: str) -> tuple[Config, list[str]]:
    """Make a config for `spacy train`: the config of `spacy init config`, and a pipe `elmo`.

    Each component has its own tok2vec. Its encoder reads `[x ; ELMo]`: its own embedding x,
    concatenated with the ELMo vector (section 3.3 of the paper).

    names (List[str]): Names of the components' factories.
    lang (str): Language of the pipeline.
    weights (str): Name, path or URL of the language model.
    RETURNS (Tuple[Config, List[str]]): The filled config, and the components without a tok2vec.
    RAISES (ValueError): There is no such component or model, or no component has a tok2vec.
    """
    from spacy.cli.init_config import init_config
    from spacy.util import load_model_from_config

    names = [TRAINABLE.get(name, name) for name in names]
    language = blank_pipeline(lang)
    unknown = [name for name in names if not language.has_factory(name)]
    if unknown or not names:
        raise ValueError(
            f"--pipeline: spaCy has no component '{', '.join(unknown)}'. Give names of trainable "
            f"components separated by commas, such as ner,textcat: {PAGE}"
        )
    elmo = _elmo(weights)
    tok2vec = _beside_elmo(init_config(lang=lang, pipeline=["tagger"])["components"]["tok2vec"])
    config = init_config(lang=lang, pipeline=names)
    components = {name: config["components"][name] for name in names}
    idle = []
    for name, component in components.items():
        own = {**tok2vec["embed"], "width": None} if name in WITH_ENCODER else tok2vec
        if not _reads(component, own, language.get_factory_meta(name).default_config):
            idle.append(name)
    if len(idle) == len(names):
        raise ValueError(f"no component of {', '.join(names)} has a tok2vec, which ELMo needs")
    config["paths"]["elmo"] = weights
    config["nlp"]["pipeline"] = ["elmo", *names]
    config["components"] = {"elmo": elmo, **components}
    return load_model_from_config(config, auto_fill=True).config, idle


def _reads(component: dict[str, Any], tok2vec: dict[str, Any], default: dict[str, Any]) -> bool:
    """Replace the tok2vec in a component's config with `tok2vec`. Return whether it has a tok2vec.

    `default` is spaCy's default config of the component. If the component's model has no tok2vec,
    but the model in `default` has one, the component gets the model in `default`. An example is the
    text classifier of `spacy init config`.
    """
    models = (component.get("model", {}), default.get("model", {}))
    model = next((model for model in models if "tok2vec" in model), None)
    if model is not None:
        component["model"] = {**model, "tok2vec": tok2vec}
    return model is not None


def _elmo(weights: str) -> dict[str, Any]:
    """Return the config of the pipe `elmo` for weights, with their sizes.

    Nothing is downloaded. If the weights are not in the cache, the config has default sizes, which
    training replaces.
    """
    from .. import pretrained
    from ..weights import find_named

    named = find_named(weights)
    is_here = named is None or named.is_cached
    sizes = {"model": pretrained(weights)["model"]} if is_here else {}
    return {"factory": "elmo", **sizes, "weights": "${paths.elmo}"}


def _beside_elmo(component: dict[str, Any]) -> dict[str, Any]:
    """Return the model of a `tok2vec` component, changed so that its encoder reads `[x ; ELMo]`."""
    model = component["model"]
    width = model["encode"]["width"]
    mix = {"@architectures": "spacy-elmo.ScalarMix.v1", "layer_norm": True, "l2": 0.001}
    embed = {
        "@architectures": "spacy-elmo.ConcatEmbed.v1",
        "width": width,
        "embed": {**model["embed"], "width": width},
        "elmo": {"@architectures": "spacy-elmo.ElmoListener.v1", "upstream": "elmo", "mix": mix},
    }
    return {**model, "embed": embed}
