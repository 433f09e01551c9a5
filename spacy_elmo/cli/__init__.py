"""`python -m spacy elmo`, one module a command."""

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
from .pretrain_cove import pretrain_cove_cli
from .probe import probe_cli
from .sample import sample_cli
from .senses import senses_cli
from .substitutes import substitutes_cli
from .wsd import wsd_cli

_HOME = re.compile(r"(--[\w.-]+=)?(~(?:/.*)?)", re.DOTALL)


class _Group(typer.core.TyperGroup):
    """Commands whose words may begin with `~`, also in quotes and after `=`, as no shell has it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
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
elmo_cli.command("ask")(command(ask_cli))
elmo_cli.command("convert")(command(convert_cli))
elmo_cli.command("corpus")(command(corpus_cli))
elmo_cli.command("download")(command(download_cli))
elmo_cli.command("dump-token-embeddings")(command(dump_token_embeddings_cli))
elmo_cli.command("embed")(command(embed_cli))
elmo_cli.command("evaluate")(command(evaluate_cli))
elmo_cli.command("info")(command(info_cli))
elmo_cli.command("init-pretraining")(command(init_pretraining_cli))
elmo_cli.command("init-config", hidden=True)(command(init_pretraining_cli))  # its earlier name
elmo_cli.command("init-training")(command(init_training_cli))
elmo_cli.command("mix")(command(mix_cli))
elmo_cli.command("neighbors")(command(neighbors_cli))
elmo_cli.command("perplexity")(command(perplexity_cli))
elmo_cli.command(
    "pretrain", context_settings={"allow_extra_args": True, "ignore_unknown_options": True}
)(command(pretrain_cli))
elmo_cli.command("pretrain-cove")(command(pretrain_cove_cli))
elmo_cli.command("probe")(command(probe_cli))
elmo_cli.command("sample")(command(sample_cli))
elmo_cli.command("senses")(command(senses_cli))
elmo_cli.command("substitutes")(command(substitutes_cli))
elmo_cli.command("wsd")(command(wsd_cli))
app.add_typer(elmo_cli)
