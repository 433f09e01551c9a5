"""Cost per token: with more text, with longer Docs, without sentences, and of characters.

    python benchmarks/constancy.py TEXT --weights MODEL --threads 1

TEXT has one sentence per line, with tokens separated by spaces (`.txt`, `.txt.gz`). `--parts`
selects some of four parts:

stream      1,000, 10,000 and 100,000 sentences through `nlp.pipe`. First the same 1,000 sentences
            again and again, with all token vectors in the cache; then new text with an empty cache.
docs        the same sentences, of ten tokens each, as Docs of 10 to 10,000 tokens.
endless     one Doc of 10,000 tokens without sentences: windows, compared with the exact single
            sequence. The peak memory without the weights is measured in a separate process.
characters  milliseconds for 1,000 tokens: strings in the cache, and character ids of new strings.

The runs of a part take turns; results are medians of the rounds. Costs are relative to the first
line. `--cpu-time` measures processor time instead of elapsed time: use it with one thread on a busy
machine.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, cycle, islice
from pathlib import Path
from typing import Any

import numpy as np
import spacy
import torch
from language_models import SIZES, add_elmo, make_model, memory, read_sentences
from spacy.language import Language
from spacy.tokens import Doc

from spacy_elmo.frozen.model import FrozenBiLM

SENTENCE = 10  # Tokens per sentence in the part `docs`.
DOC_SIZES = (10, 100, 1_000, 10_000)
OVERLAPS = (0, 16, 32, 64)
WINDOW = 200
MOST_DRIFT = 0.15
MOST_MS = {"seen": 1.0, "new": 5.0}  # Targets, for 1,000 tokens.

Sentence = list[str]


class Bench:
    """Arguments, model and helpers that the parts share."""

    def __init__(self, args: argparse.Namespace):
        self.args = args
        self.clock = time.process_time if args.cpu_time else time.perf_counter
        self.bilm = make_model(args.size, args.weights)

    def make_nlp(self, **settings: Any) -> Language:
        nlp = spacy.blank("en")
        add_elmo(nlp, self.bilm, precision=self.args.precision, **settings)
        return nlp

    def sentences(self, n: int) -> list[Sentence]:
        """Return the first sentences of the text, repeated if it is too short."""
        found = list(islice(read_sentences(self.args.text), n))
        if len(found) < n:
            print(f"{self.args.text} has {len(found):,} sentences only, which are repeated")
        return list(islice(cycle(found), n))

    def seconds(self, run: Callable[[], Any]) -> float:
        started = self.clock()
        run()
        return self.clock() - started

    def rates(self, runs: dict[Any, Callable[[], int]]) -> dict[Any, float]:
        """Measure the tokens per second of runs, which take turns.

        In each round, a run is repeated for at least `--seconds`. The first two runs are done once
        before, because oneDNN compiles new shapes.

        runs (Dict[Any, Callable]): Functions that return a number of tokens, by name.
        RETURNS (Dict[Any, float]): Medians over the rounds, by name.
        """
        for run in list(runs.values())[:2]:
            run()
        found: dict[Any, list[float]] = {name: [] for name in runs}
        for _ in range(self.args.rounds):
            for name, run in runs.items():
                n_tokens, started = 0, self.clock()
                while not n_tokens or self.clock() - started < self.args.seconds:
                    n_tokens += run()
                found[name].append(n_tokens / (self.clock() - started))
        return {name: statistics.median(figures) for name, figures in found.items()}


def stream(bench: Bench) -> None:
    """Measure tokens per second for different numbers of sentences."""
    sizes, nlp = bench.args.sentences, bench.make_nlp()
    text = bench.sentences(max(sizes))

    def consume(sentences: Sequence[Sentence], n: int) -> int:
        docs = (Doc(nlp.vocab, words=words) for words in islice(cycle(sentences), n))
        return sum(len(doc) for doc in nlp.pipe(docs))

    def consume_new(n: int) -> int:
        bench.bilm.cache.clear()
        return consume(text, n)

    again = {n: lambda n=n: consume(text[: sizes[0]], n) for n in sizes}
    print_costs("sentences, the same again", bench.rates(again))
    print_costs("sentences, new text", bench.rates({n: lambda n=n: consume_new(n) for n in sizes}))
    for n in sizes:
        n_tokens, n_types = sum(map(len, text[:n])), len(set(chain(*text[:n])))
        print(f"  {n:,} sentences: {n_types:,} strings in {n_tokens:,} tokens")


def docs(bench: Bench) -> None:
    """Measure tokens per second for different lengths of Docs."""
    nlp, n_sentences = bench.make_nlp(), max(bench.args.tokens, DOC_SIZES[-1]) // SENTENCE
    long = (words[:SENTENCE] for words in read_sentences(bench.args.text) if len(words) >= SENTENCE)
    sentences = list(islice(cycle(list(islice(long, n_sentences))), n_sentences))

    def consume(size: int) -> int:
        return sum(len(doc) for doc in nlp.pipe(cut(nlp, sentences, size // SENTENCE)))

    print_costs("tokens of a Doc", bench.rates({n: lambda n=n: consume(n) for n in DOC_SIZES}))


def cut(nlp: Language, sentences: list[Sentence], size: int) -> Iterator[Doc]:
    """Yield Docs with `size` sentences each, and their boundaries."""
    for start in range(0, len(sentences), size):
        part = sentences[start : start + size]
        starts = [i == 0 for words in part for i in range(len(words))]
        yield Doc(nlp.vocab, words=list(chain(*part)), sent_starts=starts)


def print_costs(what: str, rates: dict[int, float]) -> None:
    """Print a table of tokens per second and costs per token."""
    print(f"{what:>26}   tokens/s  cost of a token")
    first = rates[min(rates)]
    for size, rate in rates.items():
        drift = first / rate - 1
        verdict = "" if drift <= MOST_DRIFT else f"  over the target of {MOST_DRIFT:.0%}"
        print(f"{size:26,d} {rate:10,.0f} {1 + drift:16.2f}{verdict}", flush=True)


def endless(bench: Bench) -> None:
    """Compare windows with the exact single sequence."""
    names = ["exact", *map(str, OVERLAPS)]
    pipelines = {name: make_endless(bench, name) for name in names}
    words = endless_words(bench)

    def consume(nlp: Language) -> int:
        return len(next(nlp.pipe([Doc(nlp.vocab, words=words)])))

    rates = bench.rates({name: lambda n=n: consume(n) for name, n in pipelines.items()})
    vectors = {
        name: next(nlp.pipe([Doc(nlp.vocab, words=words)])).tensor.astype("float64")
        for name, nlp in pipelines.items()
    }
    exact, norms = vectors["exact"], np.linalg.norm(vectors["exact"], axis=1)
    print(f"{len(words):,} tokens, windows of {WINDOW}; vectors beside the exact sequence's")
    print("overlap   tokens/s  times  peak MB  mean diff   max diff  mean cosine  min cosine")
    for name, got in vectors.items():
        difference = np.abs(got - exact)
        cosines = (got * exact).sum(axis=1) / norms / np.linalg.norm(got, axis=1)
        print(
            f"{name:>7s} {rates[name]:10,.0f} {rates[name] / rates['exact']:6.2f} "
            f"{peak_memory(bench.args, name):8,.0f} {difference.mean():10.1e} "
            f"{difference.max():10.1e} {cosines.mean():12.6f} {cosines.min():11.6f}",
            flush=True,
        )


def make_endless(bench: Bench, name: str) -> Language:
    """Return a pipeline. `name` is the overlap of its windows, or "exact" for one sequence."""
    segmenter: dict[str, Any] = {"@segmenters": "spacy-elmo.doc.v1"}
    if name != "exact":
        segmenter = {"@segmenters": "spacy-elmo.windows.v1", "size": WINDOW, "overlap": int(name)}
    return bench.make_nlp(segmenter=segmenter)


def endless_words(bench: Bench) -> Sentence:
    """Return the first 10,000 tokens of the text, repeated if it is too short."""
    words = list(islice(chain.from_iterable(read_sentences(bench.args.text)), DOC_SIZES[-1]))
    return list(islice(cycle(words), DOC_SIZES[-1]))


def peak_memory(args: argparse.Namespace, name: str) -> float:
    """Run a pipeline in a new process, and return its peak memory in MB without the weights."""
    command = [sys.executable, __file__, str(args.text), "--size", args.size, "--memory", name]
    command += ["--threads", str(args.threads), "--precision", args.precision]
    command += ["--weights", args.weights] if args.weights else []
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def print_memory(bench: Bench) -> None:
    """Print the peak memory of this process, which `peak_memory` started."""
    nlp, words = make_endless(bench, bench.args.memory), endless_words(bench)
    before = memory()
    for _ in range(2):
        nlp(Doc(nlp.vocab, words=words))
    print(memory("VmHWM") - before)


def characters(bench: Bench) -> None:
    """Measure milliseconds for strings in the cache, and for new strings."""
    bilm = bench.bilm.replace(precision=bench.args.precision)
    words = list(chain.from_iterable(bench.sentences(3_000)))
    running, types = words[:1000], list(dict.fromkeys(words))[:1000]
    bilm.token_vectors(types)

    def encode(bilm: FrozenBiLM = bilm) -> None:
        bilm.cache.clear()
        bilm.token_vectors(types)

    print("milliseconds for 1,000 tokens")
    rows: list[tuple[str, str, int, Callable[[], Any]]] = [
        ("seen", "of running text", 200, lambda: bilm.token_vectors(list(dict.fromkeys(running)))),
        ("seen", "all different", 200, lambda: bilm.token_vectors(types)),
        ("new", "character ids, all different", 200, lambda: bilm.encoder.indexer(types)),
        ("", "character CNN as well", 5, encode),
    ]
    for target, name, n, run in rows:
        found = 1000 * statistics.median(bench.seconds(run) for _ in range(n))
        most = MOST_MS.get(target)
        verdict = f"target {most:g}: {'met' if found <= most else 'missed'}" if most else ""
        print(f"{target:>6s} {name:30s} {found:8.2f}  {verdict}", flush=True)


PARTS = {"stream": stream, "docs": docs, "endless": endless, "characters": characters}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text", type=Path)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--size", choices=SIZES, default="default")
    parser.add_argument("--weights", help="weights to read; default: random weights of --size")
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--sentences", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--tokens", type=int, default=30_000, help="tokens in the part docs")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5.0, help="minimum length of a turn")
    parser.add_argument("--cpu-time", action="store_true")
    parser.add_argument("--memory", help=argparse.SUPPRESS)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    bench = Bench(args)
    if args.memory:
        print_memory(bench)
        return
    model = args.weights or f"random weights, size {args.size}"
    print(f"{model}, {args.precision}, {args.threads} threads, load {os.getloadavg()[0]:.1f}")
    for name in args.parts:
        print(f"\n{name}")
        PARTS[name](bench)


if __name__ == "__main__":
    main()
