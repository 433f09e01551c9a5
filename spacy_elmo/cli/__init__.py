"""Commands of `python -m spacy elmo`, one module each."""

import os
import re
from typing import Any

import typer
from spacy.cli._util import app

from .ask import ask_cli
from .convert import convert_cli
from .corpus import corpus_cli
from .download import download_cli
from .dump_token_embeddings import dump_token_embeddings_cli
from .embed import embed_cli
from .errors import command
from .evaluate import evaluate_cli
from .info import info_cli
from .init_pretraining import init_pretraining_cli
from .init_training import init_training_cli
from .mix import mix_cli
from .neighbors import neighbors_cli
from .perplexity import perplexity_cli
from .pretrain import pretrain_cli
from .probe import probe_cli
from .sample import sample_cli
from .senses import senses_cli
from .substitutes import substitutes_cli
from .wsd import wsd_cli

_HOME = re.compile(r"(--[\w.-]+=)?(~(?:/.*)?)", re.DOTALL)


class _Group(typer.core.TyperGroup):
    """Group of commands that expand `~` also in quotes and after `=`, where shells do not."""

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
for function in (
    *(ask_cli, convert_cli, corpus_cli, download_cli, dump_token_embeddings_cli, embed_cli),
    *(evaluate_cli, info_cli, init_pretraining_cli, init_training_cli, mix_cli, neighbors_cli),
    *(perplexity_cli, pretrain_cli, probe_cli, sample_cli, senses_cli, substitutes_cli, wsd_cli),
):
    # `pretrain` also takes the settings of its config as options.
    takes_settings = function is pretrain_cli
    elmo_cli.command(
        function.__name__.removesuffix("_cli").replace("_", "-"),
        context_settings={
            "allow_extra_args": takes_settings,
            "ignore_unknown_options": takes_settings,
        },
    )(command(function))
# Old name of `init-pretraining`.
elmo_cli.command("init-config", hidden=True)(command(init_pretraining_cli))
app.add_typer(elmo_cli)
