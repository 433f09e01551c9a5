"""Held-out perplexity with different settings in `[training]` and `[model]`.

    python benchmarks/settings.py TRAIN DEV --steps 300 \
        --variant precision=float32 --variant precision=bf16
    python benchmarks/settings.py TRAIN DEV --minutes 10 \
        --variant model.lstm_dim=512 --variant model.lstm_dim=1024,learn_rate=0.001

    python benchmarks/settings.py TRAIN DEV --minutes 10 --cpu-time --output MODELS \
        --variant both: --variant forward:model.bidirectional=false

All variants read the same tokens in the same order. If the sizes are the same, the initial weights
are the same, too. With `--minutes`, all train for the same time, not the same number of steps.
Only training steps count as time. The variants take short turns, so that other programs disturb all
of them alike. `--cpu-time` measures processor time: use it with one thread on a busy machine. A
variant can begin with a name and a colon. With `--output`, each model is written to `model-best` in
a folder of that name.
"""

import argparse
import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from thinc.api import Config

from spacy_elmo.language_model.model import save_model
from spacy_elmo.language_model.perplexity import perplexity
from spacy_elmo.pretraining.config import check_config
from spacy_elmo.pretraining.trainer import Trainer
from spacy_elmo.text.corpus import Corpus, load_text
from spacy_elmo.text.prepare import is_prepared, open_corpus

TURN = 10  # Steps per turn.


def split_name(text: str) -> tuple[str, str]:
    """Split `NAME:SETTINGS` into name and settings. Without a name, the settings are the name."""
    name, colon, settings = text.partition(":")
    return (name, settings) if colon and "=" not in name else (text, text)


def parse_variant(text: str) -> dict[str, dict[str, Any]]:
    """Parse `name=value,model.name=value` into sections. The values are written as in a config."""
    sections: dict[str, dict[str, Any]] = {"training": {}, "model": {}}
    for pair in filter(None, re.split(r",(?=[a-z_.]+=)", text)):
        name, value = pair.split("=", 1)
        section, _, name = name.rpartition(".")
        sections[section or "training"][name] = Config().from_str(f"[x]\ny = {_quoted(value)}")[
            "x"
        ]["y"]
    return sections


def make_trainer(
    sections: dict[str, dict[str, Any]], args: argparse.Namespace, texts: tuple
) -> Trainer:
    """Create a trainer of the default model, with the settings of a variant."""
    limit: dict[str, Any] = {"max_epochs": 0, "max_steps": args.steps}
    if args.minutes:
        limit = {"max_epochs": 0, "max_minutes": args.minutes}
    training = {"dropout": 0.0, "eval_tokens": 0, **limit, **sections["training"]}
    names = {"train": str(args.train), "dev": str(args.dev)}
    system = {"seed": args.seed}
    config = check_config(
        Config(
            {"system": system, "model": sections["model"], "corpus": names, "training": training}
        )
    )
    return Trainer(config, *texts)


def take_turn(trainer: Trainer, clock: Callable[[], float]) -> None:
    """Run some steps, and add their time to the progress."""
    for _ in range(TURN):
        if trainer.is_over:
            return
        started = clock()
        trainer.step()
        trainer.progress.seconds += clock() - started
        trainer.progress.elapsed = trainer.progress.seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("train", type=Path)
    parser.add_argument("dev", type=Path)
    parser.add_argument(
        "--format", default="sentences", help="format of the text: sentences or text"
    )
    parser.add_argument(
        "--lang", default="en", help="language of spaCy's tokenizer for running text"
    )
    parser.add_argument("--variant", action="append", required=True, dest="variants")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--minutes", type=float, default=0.0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cpu-time", action="store_true")
    parser.add_argument("--output", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    texts = tuple(read(path, args.format, args.lang) for path in (args.train, args.dev))
    variants = dict(split_name(text) for text in args.variants)
    trainers = {
        name: make_trainer(parse_variant(text), args, texts) for name, text in variants.items()
    }
    clock = time.process_time if args.cpu_time else time.perf_counter
    while any(not trainer.is_over for trainer in trainers.values()):
        for trainer in trainers.values():
            take_turn(trainer, clock)
    print(f"{'perplexity':>10} {'tokens':>12} {'seconds':>8} {'tokens/s':>9}  variant")
    for name, trainer in trainers.items():
        figures, progress = perplexity(trainer.model, texts[1], n_streams=64), trainer.progress
        print(
            f"{figures.mean:10.2f} {progress.tokens:12,} {progress.seconds:8.1f} "
            f"{progress.tokens_per_second:9,.0f}  {name}",
            flush=True,
        )
        if args.output:
            folder = args.output / name
            folder.mkdir(parents=True, exist_ok=True)
            report = {**trainer.report(figures), "sampled_loss": None}  # JSON has no NaN
            save_model(trainer.model, folder / "model-best", lang="en", provenance=report)


def read(path: Path, format: str, lang: str) -> Corpus:
    """Read a prepared corpus or text."""
    return open_corpus(path) if is_prepared(path) else load_text(path, format=format, lang=lang)


def _quoted(value: str) -> str:
    try:
        json.loads(value)
        return value
    except ValueError:
        return f'"{value}"'


if __name__ == "__main__":
    main()
