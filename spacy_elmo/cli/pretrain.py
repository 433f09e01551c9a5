"""`python -m spacy elmo pretrain`"""

import hashlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import srsly
import typer
from spacy.cli._util import parse_config_overrides
from tqdm import tqdm
from wasabi import msg

from .errors import no_traceback

if TYPE_CHECKING:
    from ..pretraining.config import PretrainingConfig
    from ..pretraining.corpus import Corpus
    from ..pretraining.perplexity import Perplexity
    from ..pretraining.trainer import Trainer


def pretrain_cli(
    ctx: typer.Context,
    config_path: Path = typer.Argument(..., help="Config file", exists=True, dir_okay=False),
    output: Path = typer.Option(..., "--output", "-o", help="Folder for the models"),
) -> None:
    """Pretrain a language model on text. Settings of the config can be
    overridden: --training.max_minutes 30

    Writes model-best and model-last, spaCy pipelines with the pipe `elmo`, and
    metrics.jsonl. Ctrl-C writes model-last first.

    Example: python -m spacy elmo pretrain pretrain.cfg --output models --paths.train corpus/
    --paths.dev dev.txt
    """
    from ..pretraining.config import read_config

    with no_traceback():
        config = read_config(config_path, parse_config_overrides(ctx.args))
        pretrain(config, output)


def pretrain(config: "PretrainingConfig", output: Path) -> None:
    """Run a pretraining.

    config (PretrainingConfig): The settings.
    output (Path): Folder for models and metrics.
    RAISES (ValueError): The corpus cannot be read.
    """
    from ..pretraining.trainer import Trainer

    output.mkdir(parents=True, exist_ok=True)
    train, dev = (_read(config, name) for name in ("train", "dev"))
    trainer = Trainer(config, train, dev)
    _say_sizes(trainer)
    run = _Run(trainer, output)
    try:
        trainer.run(on_step=run.on_step, on_evaluation=run.on_evaluation)
    except KeyboardInterrupt:
        run.save("model-last", {})
        run.bar.close()
        msg.warn(f"Stopped at step {trainer.progress.step}; wrote {output / 'model-last'}")
        raise typer.Exit(130) from None
    run.bar.close()
    msg.good(
        f"Best held-out perplexity {trainer.progress.best:.2f}, "
        f"{trainer.progress.tokens_per_second:,.0f} tokens/s: {output / 'model-best'}"
    )


class _Run:
    """What a run shows and writes."""

    def __init__(self, trainer: "Trainer", output: Path):
        self.trainer = trainer
        self.output = output
        self.digest = _digest(trainer.train_corpus)
        self.bar = tqdm(
            total=1.0,
            bar_format="{percentage:3.0f}% |{bar}| {elapsed}<{remaining}{postfix}",
            mininterval=0.5 if sys.stderr.isatty() else 60.0,
        )
        (output / "metrics.jsonl").unlink(missing_ok=True)

    def on_step(self, trainer: "Trainer") -> None:
        progress = trainer.progress
        self.bar.set_postfix_str(
            f"step {progress.step}, {progress.tokens_per_second:,.0f} tokens/s", refresh=False
        )
        self.bar.update(trainer.fraction_done - self.bar.n)

    def on_evaluation(self, trainer: "Trainer", figures: "Perplexity", is_best: bool) -> None:
        report = trainer.report(figures)
        with (self.output / "metrics.jsonl").open("a", encoding="utf8") as file:
            file.write(srsly.json_dumps(report) + "\n")
        self.bar.write(
            f"step {report['step']:>7,}  tokens {report['tokens']:>12,}  "
            f"sampled loss {report['sampled_loss']:.3f}  held-out perplexity "
            f"{figures.mean:.2f} (forward {figures.forward:.2f}, backward {figures.backward:.2f})"
        )
        self.save("model-last", report)
        if is_best:
            self.save("model-best", report)

    def save(self, name: str, report: dict[str, Any]) -> None:
        from ..pretraining.checkpoint import save_model

        config = self.trainer.config
        provenance = {
            **report,
            "corpus": {**config.corpus.model_dump(), "sha256": self.digest},
            "training": config.training.model_dump(),
            "seed": config.seed,
        }
        save_model(self.trainer.model, self.output / name, lang=config.lang, provenance=provenance)


def _read(config: "PretrainingConfig", name: str) -> "Corpus":
    from ..pretraining.corpus import find_files, read_corpus, read_sentences

    inputs = getattr(config.corpus, name)
    sentences = read_sentences(
        find_files(inputs), running_text=config.corpus.format == "text", lang=config.lang
    )
    counted = tqdm(sentences, desc=f"Reading {name}", unit=" sentences", leave=False)
    return read_corpus(counted, str(inputs))


def _say_sizes(trainer: "Trainer") -> None:
    n_weights = sum(weight.numel() for weight in trainer.model.bilm.parameters())
    batches = trainer.batches
    msg.info(
        f"{trainer.train_corpus.n_words:,} tokens, {len(trainer.train_corpus.types):,} types, "
        f"{len(trainer.model.vocabulary):,} words in the softmax; biLM of {n_weights:,} weights; "
        f"{batches.batch_size} streams x {batches.unroll_steps} steps, "
        f"{batches.steps_per_epoch:,} steps an epoch"
    )


def _digest(corpus: "Corpus") -> str:
    digest = hashlib.sha256("\n".join(corpus.types).encode("utf8", "surrogatepass"))
    digest.update(corpus.tokens.astype("<i4").tobytes())
    return digest.hexdigest()
