"""Training speed with batches of similar lengths, compared with batches in random order.

    python benchmarks/batches.py project/configs/training/qa.cfg --size 2000 --buffer 512 \
        --paths.train project/corpus/new_wiki-train.spacy \
        --paths.dev project/corpus/new_wiki-dev.spacy

The script measures the processor time of twelve updates with each batcher (spaCy's `batch_by_words`
and `batch_by_padded`), on the same shuffled examples. `--size` is the number of words in a batch;
`batch_by_padded` gets 1.2 times as many, including padding.
"""

import argparse
import random
import sys
import time
from itertools import islice
from pathlib import Path

import torch
from spacy.cli._util import parse_config_overrides
from spacy.training import Example
from spacy.training.batchers import (
    configure_minibatch_by_padded_size,
    configure_minibatch_by_words,
)
from spacy.util import load_config, load_model_from_config, registry

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "project"))
UPDATES = 12


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("config", type=Path)
    parser.add_argument("--size", type=int, required=True)
    parser.add_argument("--buffer", type=int, default=256)
    args, rest = parser.parse_known_args()
    torch.set_num_threads(1)
    config = load_config(args.config, parse_config_overrides(rest), interpolate=True)
    nlp = load_model_from_config(config, auto_fill=True)
    read = registry.resolve({"train": config["corpora"]["train"]})["train"]
    examples: list[Example] = list(read(nlp))
    random.seed(0)
    random.shuffle(examples)
    nlp.initialize(lambda: examples)
    optimizer = nlp.create_optimizer()
    batchers = {
        "words": configure_minibatch_by_words(
            size=args.size, tolerance=0.2, discard_oversize=False
        ),
        "padded": configure_minibatch_by_padded_size(
            size=int(1.2 * args.size), buffer=args.buffer, discard_oversize=False
        ),
    }
    for name, batcher in batchers.items():
        batches = list(islice(batcher(iter(examples)), 4 * UPDATES))
        random.shuffle(batches)
        started, n_examples, n_words = time.process_time(), 0, 0
        for batch in batches[:UPDATES]:
            nlp.update(batch, sgd=optimizer, drop=0.1)
            n_examples += len(batch)
            n_words += sum(len(example.reference) for example in batch)
        seconds = time.process_time() - started
        print(
            f"{name:7s} {n_examples / seconds:7.1f} examples/s {n_words / seconds:9,.0f} words/s "
            f"{n_examples / UPDATES:6.1f} examples a batch"
        )


if __name__ == "__main__":
    main()
