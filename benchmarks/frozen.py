"""Processor time of prediction for one sentence and for batches, by precision, on one thread.

    python benchmarks/frozen.py TEXT --size en_small
    python benchmarks/frozen.py TEXT --size original

The sentences are the first 20 words of the lines of TEXT. Their token vectors are in the cache,
except in the rows "new words". `en_small` runs as a pipeline, compared with spaCy's `tok2vec`.
Other sizes have random weights. `--kernels` selects kernels, which take turns. Precisions that a
kernel does not compute fast are left out. To compare two versions of the package, run the script
several times with PYTHONPATH set to each in turn.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import spacy
import torch
from language_models import SIZES, make_model
from spacy.language import Language
from spacy.tokens import Doc

from spacy_elmo.frozen.kernel import Kernel, available_kernels, find_kernel, resolve_precision
from spacy_elmo.frozen.model import FrozenBiLM

PRECISIONS = ("float32", "bfloat16", "int8")
N_WORDS = 20
TURNS = 9
SECONDS_OF_TURN = 0.05


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text", type=Path)
    parser.add_argument("--size", choices=["en_small", *SIZES], default="en_small")
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 8, 32, 128])
    parser.add_argument(
        "--kernels",
        choices=available_kernels(),
        nargs="+",
        default=[find_kernel().name],
        help="default: the one that the package chooses",
    )
    args = parser.parse_args()
    torch.set_num_threads(1)
    lines = (line.split() for line in args.text.open(encoding="utf8"))
    sentences = [words[:N_WORDS] for words in lines if len(words) >= N_WORDS][:600]
    time_one = time_small if args.size == "en_small" else time_bilm
    time_one(args.size, [find_kernel(name) for name in args.kernels], sentences, args.batch)


def variants(kernels: list[Kernel]) -> Iterator[tuple[str, Kernel, str]]:
    """Yield the name, the kernel and the precision of each variant to measure."""
    for kernel in kernels:
        for precision in PRECISIONS:
            if resolve_precision(precision, kernel) == precision:
                yield f"{kernel.name:11s} {precision:8s}", kernel, precision


def time_small(
    _: str, kernels: list[Kernel], sentences: list[list[str]], batches: list[int]
) -> None:
    """Print the time for one sentence, compared with tok2vec, and words per second of batches."""
    nlp = spacy.blank("en")
    nlp.add_pipe("tok2vec")
    nlp.initialize()
    calls: dict[tuple[str, int], Callable] = {("tok2vec", 1): partial(run_pipe, nlp, sentences[:1])}
    for name, kernel, precision in variants(kernels):
        nlp = spacy.blank("en")
        pipe = nlp.add_pipe("elmo", config={"precision": precision})
        pipe.set_bilm(pipe.bilm.replace(kernel=kernel))
        run_pipe(nlp, sentences)
        for size in (1, *batches):
            calls[name, size] = partial(run_pipe, nlp, sentences[:size])
    found = in_turns(calls)
    tok2vec = found.pop(("tok2vec", 1))
    print(f"tok2vec              one sentence {tok2vec * 1e3:.2f} ms")
    for (name, size), seconds in found.items():
        if size == 1:
            ratio = seconds / tok2vec
            print(f"{name} one sentence {seconds * 1e3:.2f} ms, {ratio:.1f} times tok2vec")
        print(f"{name} {size:3d} sentences {size * N_WORDS / seconds:9,.0f} words/s")


def run_pipe(nlp: Language, sentences: list[list[str]]) -> None:
    """Predict one batch."""
    docs = [Doc(nlp.vocab, words) for words in sentences]
    if len(docs) == 1:
        nlp(docs[0])
    else:
        list(nlp.pipe(docs, batch_size=len(docs)))


def time_bilm(
    size_name: str, kernels: list[Kernel], sentences: list[list[str]], batches: list[int]
) -> None:
    """Print words per second of a model with random weights."""
    bilm = make_model(size_name, None)
    calls: dict[tuple[str, int], Callable] = {}
    for name, kernel, precision in variants(kernels):
        frozen = bilm.replace(kernel=kernel, precision=precision)
        frozen.embed(sentences[: max(batches)])
        for size in batches:
            calls[name, size] = partial(frozen.embed, sentences[:size])
        calls[name, 0] = partial(with_new_words, frozen, sentences[:1])
    for (name, size), seconds in in_turns(calls).items():
        which = f"{size:3d} sentences" if size else "new words    "
        print(f"{name} {which} {(size or 1) * N_WORDS / seconds:9,.0f} words/s")


def with_new_words(frozen: FrozenBiLM, sentences: list[list[str]]) -> None:
    """Compute vectors without a cache."""
    frozen.replace(cache=0).embed(sentences)


def in_turns(calls: dict[Any, Callable]) -> dict[Any, float]:
    """Return the median processor time of each call.

    The calls take turns, so that a change in the load of the machine affects all of them.

    calls (Dict[Any, Callable]): The calls.
    RETURNS (Dict[Any, float]): Seconds per call, with the same keys.
    """
    found: dict[Any, list[float]] = {key: [] for key in calls}
    for _ in range(TURNS):
        for key, call in calls.items():
            call()  # The call before used other weights.
            n_calls, started = 0, time.process_time()
            while (taken := time.process_time() - started) < SECONDS_OF_TURN:
                call()
                n_calls += 1
            found[key].append(taken / n_calls)
    return {key: statistics.median(times) for key, times in found.items()}


if __name__ == "__main__":
    main()
