"""Commands of `python -m spacy elmo`. Each command is one module."""

import os
import re
from importlib import import_module
from typing import Any

import typer

from ..compat import spacy_app
from .errors import command

# The modules of the commands, in the order in which `--help` lists them.
COMMANDS = (
    *("ask", "convert", "corpus", "download", "embed", "evaluate", "extract"),
    *("info", "init_pretraining", "init_training", "mix", "neighbors", "perplexity", "pretrain"),
    *("probe", "robustness", "sample", "senses", "substitutes", "wsd"),
)
_HOME = re.compile(r"\A((?:--[\w.-]+=)?)(~(?:/.*)?)\Z", re.DOTALL)


class _Group(typer.core.TyperGroup):
    """Group of commands that expands `~` in arguments.

    A shell does not expand `~` in quotes or after `=`.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Expand `~` in arguments, and parse them."""
        words = [_HOME.sub(lambda m: m[1] + os.path.expanduser(m[2]), word) for word in args]
        return super().parse_args(ctx, words)


HELP = "Pretrain, evaluate and inspect ELMo language models."
elmo_cli = typer.Typer(name="elmo", cls=_Group, help=HELP, no_args_is_help=True)
# `pretrain` also accepts the settings of its config as options.
EXTRA = {"allow_extra_args": True, "ignore_unknown_options": True}
for name in COMMANDS:
    function = getattr(import_module(f"{__name__}.{name}"), f"{name}_cli")
    settings = EXTRA if name == "pretrain" else None
    elmo_cli.command(name.replace("_", "-"), context_settings=settings)(command(function))
    if name == "init_pretraining":
        elmo_cli.command("init-config", hidden=True)(command(function))  # The command's old name.
spacy_app().add_typer(elmo_cli)
