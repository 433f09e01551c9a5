"""Tokens per second of the reader of pretraining, in processor time of one core.

    python benchmarks/reader.py CORPUS --streams 64 512 --unroll-steps 40
    python benchmarks/reader.py CORPUS --weights MODEL    # with the ids that this model reads

CORPUS is a prepared corpus. The reader makes the windows of training steps: ids of tokens, noise,
targets, and the ids of characters and words that the model reads. The table of token ids is filled
first, by `--warmup` windows, because a run reads thousands of windows.
"""

import argparse
import json
import statistics
import time
from pathlib import Path

import numpy as np

from spacy_elmo.language_model.windows import TrainingStreams
from spacy_elmo.model.config import BiLMConfig
from spacy_elmo.model.indexers import TokenIndexer, make_indexer
from spacy_elmo.model.vocabulary import Vocabularies
from spacy_elmo.pretraining.config import CorpusSettings
from spacy_elmo.pretraining.reader import WindowReader
from spacy_elmo.text.corpus import Corpus
from spacy_elmo.text.prepare import open_corpus
from spacy_elmo.weights import read_weights

ROUNDS = 5


def measure(
    corpus: Corpus, indexer: TokenIndexer, n_streams: int, args: argparse.Namespace
) -> list[float]:
    """Return the tokens per second of each round."""
    streams = TrainingStreams(corpus, batch_size=n_streams, unroll_steps=args.unroll_steps, seed=0)
    noise = CorpusSettings(train="-", dev="-", noise=args.noise, case_noise=args.case_noise)
    words = np.minimum(np.arange(len(corpus.types)), 30_000)
    reader = WindowReader(streams, indexer, words, noise, seed=0)
    for step in range(args.warmup):
        reader(step, step)
    n_windows = max(5, 200_000 // (n_streams * args.unroll_steps))
    rates = []
    for number in range(ROUNDS):
        first, began = args.warmup + number * n_windows, time.process_time()
        for step in range(first, first + n_windows):
            reader(step, step)
        n_tokens = n_windows * n_streams * args.unroll_steps
        rates.append(n_tokens / (time.process_time() - began))
    return rates


def main() -> None:
    """Print the speed by number of streams."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--streams", type=int, nargs="+", default=[64, 512])
    parser.add_argument("--unroll-steps", type=int, default=40)
    parser.add_argument("--noise", type=float, default=0.07)
    parser.add_argument("--case-noise", type=float, default=0.15)
    parser.add_argument("--warmup", type=int, default=100, help="Windows before the rounds")
    parser.add_argument("--weights", help="Model whose ids are read; default: bytes")
    args = parser.parse_args()
    indexer = make_indexer(BiLMConfig(), Vocabularies())
    if args.weights:
        bilm = read_weights(args.weights)
        indexer = make_indexer(bilm.config, bilm.vocabularies)
    corpus = open_corpus(args.corpus)
    for n_streams in args.streams:
        rates = measure(corpus, indexer, n_streams, args)
        shown = {"streams": n_streams, "tokens_per_second": round(statistics.median(rates))}
        print(json.dumps({**shown, "rounds": [round(rate) for rate in rates]}))


if __name__ == "__main__":
    main()
