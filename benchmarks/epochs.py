"""Seconds per epoch of training an NER with static vectors, ELMo, and ELMo with a feature cache.

    python benchmarks/epochs.py --train TRAIN.spacy --weights MODEL --threads 1

The configs are `project/configs/training/ner.cfg` with static vectors, and `ner_elmo.cfg` without
`features` and with each kind of them. The static vectors have the language model's width and random
values, which need the same time as trained vectors. All other settings are the same. Without
`--train` or `--dev`, that text is random words.

An epoch has the reader, batches and updates of `spacy train`. The variants take turns after each
epoch, and read the same batches. There is one evaluation per epoch on `--dev`, which is timed
separately. Ratios to static vectors are computed within an epoch. The ratio of the later epochs is
a median. `--cpu-time` measures processor time instead of elapsed time: use it with one thread on a
busy machine.
"""

import argparse
import json
import os
import random
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Optional

import numpy as np
import spacy
import torch
from language_models import SIZES, make_model
from spacy.schemas import ConfigSchemaTraining
from spacy.tokens import Doc, DocBin
from spacy.training import Example
from spacy.training.initialize import init_nlp
from spacy.training.loop import create_evaluation_callback, train_while_improving
from spacy.util import load_config, registry, resolve_dot_names
from spacy.vectors import Vectors
from spacy.vocab import Vocab

from spacy_elmo.bilm.model import BiLM
from spacy_elmo.weights import safetensors_file

CONFIGS = Path(__file__).resolve().parents[1] / "project" / "configs" / "training"
STATIC = "static vectors"
FEATURES: dict[str, Optional[dict[str, str]]] = {
    "elmo": None,
    "elmo, memory": {"@feature_caches": "spacy-elmo.memory.v1", "dtype": "float32"},
    "elmo, memory float16": {"@feature_caches": "spacy-elmo.memory.v1", "dtype": "float16"},
    "elmo, disk": {"@feature_caches": "spacy-elmo.disk.v1", "dtype": "float32"},
}


class Variant:
    """Pipeline in training.

    config (dict): The config.
    clock (Callable[[], float]): Returns the time in seconds.
    """

    def __init__(self, config: Any, clock: Any):
        self.clock = clock
        self.nlp = init_nlp(config)
        config = self.nlp.config.interpolate()
        self.training = registry.resolve(config["training"], schema=ConfigSchemaTraining)
        names = [self.training["train_corpus"], self.training["dev_corpus"]]
        train, dev = resolve_dot_names(config, names)
        self.examples = list(train(self.nlp))
        self.score = create_evaluation_callback(self.nlp, dev, self.training["score_weights"])
        self.epochs: list[float] = []
        self.evaluations: list[float] = []

    def run_epoch(self, number: int) -> None:
        """Train for an epoch, with one evaluation after its first step."""
        random.seed(number)  # All variants get the same batches.
        random.shuffle(self.examples)
        n_evaluations, started = len(self.evaluations), self.clock()
        for _ in train_while_improving(
            self.nlp,
            self.training["optimizer"],
            self.batches(number),
            self.evaluate,
            dropout=self.training["dropout"],
            eval_frequency=sys.maxsize,
            accumulate_gradient=self.training["accumulate_gradient"],
            patience=0,
            max_steps=0,
            exclude=self.training["frozen_components"],
            annotating_components=self.training["annotating_components"],
            before_update=None,
        ):
            pass
        seconds = self.clock() - started
        self.epochs.append(seconds - sum(self.evaluations[n_evaluations:]))

    def batches(self, number: int) -> Iterator[tuple[int, list[Example]]]:
        for batch in self.training["batcher"](self.examples):
            yield number, batch

    def evaluate(self) -> tuple[float, dict[str, float]]:
        started = self.clock()
        scores = self.score()
        self.evaluations.append(self.clock() - started)
        return scores


def make_configs(args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Return the config of each variant, and write the files that they need to a folder."""
    train = args.train or write_random_docs(folder / "train.spacy", 2000)
    dev = args.dev or write_random_docs(folder / "dev.spacy", 500, seed=1)
    paths = {"paths.train": str(train), "paths.dev": str(dev)}
    bilm = make_model(args.size, args.weights)
    weights = folder / "model.safetensors"
    weights.write_bytes(safetensors_file.to_bytes(bilm))
    configs = {STATIC: make_static(bilm.config.width, train, folder, paths)}
    for i, (name, features) in enumerate(FEATURES.items()):
        if features is not None:
            features = {**features, "size": args.features_mb}
        if "disk" in name:
            features["path"] = str(folder / f"features{i}.sqlite")
        configs[name] = make_elmo(bilm, weights, features, args.precision, paths)
    return configs


def make_static(width: int, train: Path, folder: Path, paths: dict[str, str]) -> Any:
    """Return the config with static vectors: `[x ; static]` instead of x."""
    nlp = spacy.blank("en")
    docs = DocBin().from_disk(train).get_docs(nlp.vocab)
    words = sorted({token.text for doc in docs for token in doc})
    data = np.random.default_rng(0).standard_normal((len(words), width)).astype("float32")
    nlp.vocab.vectors = Vectors(data=data, keys=words, strings=nlp.vocab.strings)
    nlp.to_disk(folder / "vectors")
    static = {"components.ner.model.tok2vec.embed.include_static_vectors": True}
    return load_config(
        CONFIGS / "ner.cfg",
        overrides={**paths, **static, "paths.vectors": str(folder / "vectors")},
    )


def make_elmo(bilm: BiLM, weights: Path, features: Any, precision: str, paths: Any) -> Any:
    """Return the config with ELMo: `[x ; ELMo]` instead of x."""
    overrides = {"paths.elmo": str(weights), "elmo.width": bilm.config.width}
    config = load_config(CONFIGS / "ner_elmo.cfg", overrides={**paths, **overrides})
    elmo = config["components"]["elmo"]
    elmo["model"].update(bilm.config.to_dict())
    elmo["features"], elmo["precision"] = features, precision
    listener = config["components"]["ner"]["model"]["tok2vec"]["embed"]["elmo"]
    listener["mix"]["n_layers"] = bilm.config.n_layers + 1
    return config


def write_random_docs(path: Path, n_sentences: int, seed: int = 0) -> Path:
    """Write Docs of random words with some entities, and return the path."""
    rng, vocab, docs = np.random.default_rng(seed), Vocab(), []
    for _ in range(n_sentences):
        ranks = rng.zipf(1.3, size=int(rng.integers(5, 35))) % 20_000
        ents = ["B-" + "XY"[rank % 2] if rank % 10 == 0 else "O" for rank in ranks]
        docs.append(Doc(vocab, words=[f"w{rank:x}" for rank in ranks], ents=ents))
    DocBin(docs=docs).to_disk(path)
    return path


def print_report(variants: dict[str, Variant]) -> None:
    """Print medians and ratios. The first epoch is separate, because it fills the caches."""
    baseline = variants[STATIC]
    print(f"{'':22s} epoch 1  ratio  later epochs  ratio  evaluation 1  later")
    for name, variant in variants.items():
        ratios = [one / other for one, other in zip(variant.epochs, baseline.epochs)]
        evaluations = variant.evaluations
        print(
            f"{name:22s} {variant.epochs[0]:7.1f} {ratios[0]:6.2f} "
            f"{statistics.median(variant.epochs[1:]):13.1f} "
            f"{statistics.median(ratios[1:]):6.2f} {evaluations[0]:13.1f} "
            f"{statistics.median(evaluations[1:]):6.1f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--train", type=Path, help=".spacy file with entities")
    parser.add_argument(
        "--dev",
        type=Path,
        help="text to evaluate on; must differ from --train, whose features are cached",
    )
    parser.add_argument("--size", choices=SIZES, default="default")
    parser.add_argument("--weights", help="weights to read; default: random weights of --size")
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--features-mb", type=float, default=4096.0)
    parser.add_argument("--variants", nargs="+", choices=FEATURES, default=list(FEATURES))
    parser.add_argument("--epochs", type=int, default=5, help="at least 2")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--cpu-time", action="store_true")
    parser.add_argument("--json", type=Path, help="output file with the times of all epochs")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    clock = time.process_time if args.cpu_time else time.perf_counter
    with TemporaryDirectory() as folder:
        configs = make_configs(args, Path(folder))
        variants = {name: Variant(configs[name], clock) for name in (STATIC, *args.variants)}
        n_tokens = sum(len(example) for example in variants[STATIC].examples)
        model = args.weights or f"random weights, size {args.size}"
        print(f"{model}, {args.precision}; {n_tokens:,} tokens, {args.threads} threads")
        for number in range(args.epochs):
            for variant in variants.values():
                variant.run_epoch(number)
            row = ", ".join(f"{name} {v.epochs[-1]:.1f} s" for name, v in variants.items())
            print(f"epoch {number + 1}, load {os.getloadavg()[0]:.1f}: {row}", flush=True)
    print_report(variants)
    if args.json:
        figures = {name: [v.epochs, v.evaluations] for name, v in variants.items()}
        args.json.write_text(json.dumps(figures, indent=2), "utf8")


if __name__ == "__main__":
    main()
