"""`python -m spacy elmo`, one module a command."""

import typer
from spacy.cli._util import app

from .corpus import corpus_cli
from .init_config import init_config_cli
from .mix import mix_cli
from .perplexity import perplexity_cli
from .pretrain import pretrain_cli
from .probe import probe_cli

elmo_cli = typer.Typer(
    name="elmo", help="Pretrain, evaluate and inspect ELMo language models.", no_args_is_help=True
)
elmo_cli.command("corpus")(corpus_cli)
elmo_cli.command("init-config")(init_config_cli)
elmo_cli.command("mix")(mix_cli)
elmo_cli.command("perplexity")(perplexity_cli)
elmo_cli.command(
    "pretrain", context_settings={"allow_extra_args": True, "ignore_unknown_options": True}
)(pretrain_cli)
elmo_cli.command("probe")(probe_cli)
app.add_typer(elmo_cli)
