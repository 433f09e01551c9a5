"""Command `python -m spacy elmo init-pretraining`."""

import shlex
import warnings
from pathlib import Path
from typing import Any, Optional, Union

import typer
from thinc.api import Config

from ..files import atomic_write
from ..files.terminal import echo, msg
from ..pretraining.budget import FEW_TOKENS, Choice, choose, parse_budget
from ..pretraining.config import SECTIONS, CorpusSettings, check_config
from .errors import check_new
from .options import FORCE, FORMAT

LITTLE_READ = 0.1  # Share of the text below which a budget was probably a mistake.
NOTES = (
    "All settings are listed; see docs/pretraining.md. The first of max_epochs, max_steps,",
    "max_tokens and max_minutes that is reached ends the run; 0 is no limit.",
)


def init_pretraining_cli(
    output: Path = typer.Argument(..., help="Config to write; '-' prints it"),
    corpus: list[str] = typer.Option(
        ..., help="Training text: a file, folder, glob or prepared corpus; may be repeated"
    ),
    dev: list[str] = typer.Option(..., help="Held-out text; may be repeated"),
    budget: str = typer.Option(
        ..., help='Budget of the run: "2 cores, 60 minutes", "1 GPU, 1 day" or "the paper"'
    ),
    format: str = FORMAT,
    lang: Optional[str] = typer.Option(
        None,
        help="Language of the text, such as en; required for running text. Default: xx "
        "(any language)",
    ),
    force: bool = FORCE,
) -> None:
    """Write a config for `spacy elmo pretrain`.

    The sizes fit the text and the budget. The config lists all settings. If the budget is for this
    machine, the command runs ten steps to measure the speed.

    Example: python -m spacy elmo init-pretraining pretrain.cfg --corpus books/ --dev dev.txt
    --budget "2 cores, 60 minutes"
    """
    from ..pretraining.speed import is_this_machine, measure_speed
    from ..text.reading import check_text_format, find_files
    from ..text.size import estimate_tokens

    check_new(output, force=force)
    check_text_format(format, lang)
    parsed = parse_budget(budget)
    for inputs in (corpus, dev):
        if len(inputs) > 1:
            find_files(inputs)  # A prepared corpus must be the only input.
    n_tokens = estimate_tokens(corpus, format=format)
    if not n_tokens or not estimate_tokens(dev, format=format):
        name, inputs = ("--dev", dev) if n_tokens else ("--corpus", corpus)
        raise ValueError(f"{name} {', '.join(inputs)} contains no text")
    texts: dict[str, Any] = {"train": corpus, "dev": dev, "format": format, "lang": lang or "xx"}
    choice = choose(parsed, n_tokens)
    if is_this_machine(parsed):
        config = Config().from_str(render_config(choice, header=[], **texts))
        try:
            choice = choose(parsed, n_tokens, measure_speed(check_config(config)))
        except ValueError as error:  # `pretrain` may skip texts that cannot be read.
            warnings.warn(f"The speed is estimated: {error}", stacklevel=2)
    about = round(n_tokens, 2 - len(str(n_tokens)))  # Two digits: it is an estimate.
    notes = [f"Budget: {budget}. Text: about {about:,} tokens.", *choice.reasons]
    if n_tokens < FEW_TOKENS:
        notes.append(_little_text(lang))
    if lang is None:
        notes.append("The language is xx (any language). Set the text's language with --lang.")
    text = render_config(choice, header=notes, **texts)
    if str(output) == "-":
        echo(text.removesuffix("\n"))
        return
    atomic_write(output, text)
    for note in notes:
        msg.info(note)
    if 0 < choice.epochs < LITTLE_READ:
        msg.warn(
            f"In {budget}, a run reads only {choice.epochs:.2%} of the text. Allow more time, or "
            f"use less text or smaller sizes."
        )
    config_file = shlex.quote(str(output))
    msg.good(f"Wrote {output}", f"python -m spacy elmo pretrain {config_file} --output pretraining")


def render_config(
    choice: Choice, *, train: list[str], dev: list[str], header: list[str], format: str, lang: str
) -> str:
    """Return a config for `spacy elmo pretrain` as text.

    choice (Choice): The settings.
    train (List[str]): Paths of the training text.
    dev (List[str]): Paths of the held-out text.
    header (List[str]): Lines of the comment at the top.
    format (str): 'sentences' or 'text'.
    lang (str): Language of the text.
    RETURNS (str): The config.
    RAISES (ValueError): A path contains "${", which a config cannot store.
    """
    for path in (*train, *dev):
        if "${" in path:
            raise ValueError(
                f"'{path}' contains '${{', which means a variable in a config. Rename it"
            )
    given = {"train": "${paths.train}", "dev": "${paths.dev}", "format": format}
    sections: dict[str, Any] = {
        "paths": {"train": _one_or_all(train), "dev": _one_or_all(dev)},
        "system": {"seed": 0},
        "nlp": {"lang": lang},
        "corpus": CorpusSettings.model_validate(given).model_dump(),
        **choice.sections(),
    }
    body = Config({name: sections[name] for name in SECTIONS}).to_str(interpolate=False)
    check_config(Config().from_str(body), "the new config")
    return "".join(f"# {line}\n" for line in [*header, *NOTES]) + f"\n{body}\n"


def _little_text(lang: Optional[str]) -> str:
    """Return a warning about too little text. It names a published model to train further."""
    from ..weights import BUNDLED
    from ..weights.named import NAMED

    name = BUNDLED if lang == "en" else f"manylangs-{lang}"
    known = name == BUNDLED or name in NAMED
    return (
        f"Below {FEW_TOKENS:,} tokens expect a model that knows few words and contexts. More "
        f"text helps most. Or continue a published model on yours: "
        + (f"`pretrain --pretraining.init {name}`." if known else "`download --list` names them.")
    )


def _one_or_all(inputs: list[str]) -> Union[str, list[str]]:
    return inputs[0] if len(inputs) == 1 else inputs
