"""Processor time of prediction for one sentence and for batches, by precision, on one thread.

    python benchmarks/frozen.py TEXT --size en_small
    python benchmarks/frozen.py TEXT --size original

The sentences are the first 20 words of the lines of TEXT. Their token vectors are in the cache,
except in the rows "new words". `en_small` runs as a pipeline, compared with spaCy's `tok2vec`.
Other sizes have random weights. `SPACY_ELMO_KERNEL` selects the kernel. To compare two versions of
the package, run the script several times with PYTHONPATH set to each in turn.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import spacy
import torch
from language_models import SIZES, make_model
from spacy.tokens import Doc

PRECISIONS = ("float32", "bfloat16", "int8")
N_WORDS = 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text", type=Path)
    parser.add_argument("--size", choices=["en_small", *SIZES], default="en_small")
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 8, 32, 128])
    args = parser.parse_args()
    torch.set_num_threads(1)
    lines = (line.split() for line in args.text.open(encoding="utf8"))
    sentences = [words[:N_WORDS] for words in lines if len(words) >= N_WORDS][:600]
    time_one = time_small if args.size == "en_small" else time_bilm
    time_one(args.size, sentences, args.batch)


def time_small(_: str, sentences: list[list[str]], batches: list[int]) -> None:
    """Print the time for one sentence, compared with tok2vec, and words per second of batches."""
    nlp = spacy.blank("en")
    nlp.add_pipe("tok2vec")
    nlp.initialize()
    tok2vec = seconds(lambda: nlp(Doc(nlp.vocab, sentences[0])), 200)
    print(f"tok2vec    one sentence {tok2vec * 1e3:.2f} ms")
    for precision in PRECISIONS:
        nlp = spacy.blank("en")
        nlp.add_pipe("elmo", config={"precision": precision})
        docs = [Doc(nlp.vocab, words) for words in sentences]
        list(nlp.pipe(docs))
        one = seconds(lambda nlp=nlp: nlp(Doc(nlp.vocab, sentences[0])), 100)
        print(f"{precision:10s} one sentence {one * 1e3:.2f} ms, {one / tok2vec:.1f} times tok2vec")
        for size in batches:
            of_batch = seconds(
                lambda nlp=nlp, size=size: list(
                    nlp.pipe([Doc(nlp.vocab, words) for words in sentences[:size]], batch_size=size)
                ),
                2 + 40 // size,
            )
            print(f"{precision:10s} {size:3d} sentences {size * N_WORDS / of_batch:9,.0f} words/s")


def time_bilm(name: str, sentences: list[list[str]], batches: list[int]) -> None:
    """Print words per second of a model with random weights."""
    bilm = make_model(name, None)
    for precision in PRECISIONS:
        frozen = bilm.replace(precision=precision)
        frozen.embed(sentences[: max(batches)])
        for size in batches:
            of_batch = seconds(
                lambda frozen=frozen, size=size: frozen.embed(sentences[:size]), 1 + 4 // size
            )
            print(f"{precision:10s} {size:3d} sentences {size * N_WORDS / of_batch:9,.0f} words/s")

        def with_new_words(frozen=frozen) -> None:
            frozen.replace(cache=0).embed(sentences[:1])

        print(f"{precision:10s} new words     {N_WORDS / seconds(with_new_words, 5):9,.0f} words/s")


def seconds(call: Callable, repeats: int, rounds: int = 3) -> float:
    """Return the median processor time of a call over some rounds."""
    call()
    found = []
    for _ in range(rounds):
        started = time.process_time()
        for _ in range(repeats):
            call()
        found.append((time.process_time() - started) / repeats)
    return statistics.median(found)


if __name__ == "__main__":
    main()
