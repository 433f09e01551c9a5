"""Commands of `python -m spacy elmo`. Each command is one module."""

import os
import re
from importlib import import_module
from typing import Any

import typer
from spacy.cli._util import app

from .errors import command

# The modules of the commands, in the order in which `--help` lists them.
COMMANDS = (
    *("ask", "convert", "corpus", "download", "dump_token_embeddings", "embed", "evaluate"),
    *("info", "init_pretraining", "init_training", "mix", "neighbors", "perplexity", "pretrain"),
    *("probe", "robustness", "sample", "senses", "substitutes", "wsd"),
)
_HOME = re.compile(r"(--[\w.-]+=)?(~(?:/.*)?)", re.DOTALL)


class _Group(typer.core.TyperGroup):
    """Group of commands. It expands `~` in arguments where shells do not: in quotes, after `=`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Expand `~` in arguments, and parse them."""
        return super().parse_args(ctx, list(map(_expanded, args)))


def _expanded(word: str) -> str:
    match = _HOME.fullmatch(word)
    return (match[1] or "") + os.path.expanduser(match[2]) if match else word


elmo_cli = typer.Typer(
    name="elmo",
    cls=_Group,
    help="Pretrain, evaluate and inspect ELMo language models.",
    no_args_is_help=True,
)
for name in COMMANDS:
    function = getattr(import_module(f"{__name__}.{name}"), f"{name}_cli")
    # `pretrain` also accepts the settings of its config as options.
    settings = {"allow_extra_args": True, "ignore_unknown_options": True}
    elmo_cli.command(
        name.replace("_", "-"), context_settings=settings if name == "pretrain" else None
    )(command(function))
    if name == "init_pretraining":
        elmo_cli.command("init-config", hidden=True)(command(function))  # The command's old name.
app.add_typer(elmo_cli)
