"""Speed, memory and differences of prediction, compared with a plain loop in AllenNLP's way.

    python benchmarks/inference.py TEXT --size small medium original --threads 2 --rounds 3
    python benchmarks/inference.py TEXT --size default small --batch 1 --known --threads 1
    python benchmarks/inference.py TEXT --size default original --batch 32 --threads 2 --busy 1

The second command measures one sentence with cached token vectors. The third measures a machine on
which another program uses one core; compare it with `--busy 0` and with `--threads 1`.

TEXT has one sentence or paragraph per line, with tokens separated by spaces. Lines are split into
sentences, unless you give `--paragraphs`. The variants take turns on the same batches, which
contain sentences of similar length; a batch of 1 is one sentence of 20 tokens. The cache of token
vectors is cleared before every turn, except with `--known`. The ratio to the first variant is the
median over the rounds. The peak memory without the weights is measured in a separate process for
each line.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import torch
from language_models import SIZES, make_model, memory, read_sentences
from plain_inference import PlainForward
from torch import Tensor

from spacy_elmo.bilm.model import BiLM
from spacy_elmo.frozen.model import FrozenBiLM

PLAIN = "plain loop"
VARIANTS = (PLAIN, "float32", "bfloat16", "int8")
N_SENTENCES = {1: 1, 8: 16, 32: 64, 128: 128}

Batch = list[list[str]]
Forward = Callable[[Batch], list[Tensor]]


def make_batches(path: Path, batch_size: int, *, paragraphs: bool = False) -> list[Batch]:
    """Return batches from the beginning of the text; the longest sentence of a batch is first."""
    sentences = read_sentences(path, paragraphs=paragraphs)
    if batch_size == 1:
        return [[next(sentence[:20] for sentence in sentences if len(sentence) >= 20)]]
    chosen = sorted(islice(sentences, N_SENTENCES[batch_size]), key=len, reverse=True)
    return [chosen[start : start + batch_size] for start in range(0, len(chosen), batch_size)]


def make_forward(bilm: FrozenBiLM, variant: str) -> Forward:
    """Return the forward pass of a variant."""
    if variant == PLAIN:
        return PlainForward(BiLM.from_frozen(bilm))
    return lambda batch: [torch.from_numpy(layers) for layers in bilm.embed(batch)[0]]


def run(
    bilm: FrozenBiLM, forward: Forward, batches: list[Batch], known: bool = False
) -> list[Tensor]:
    """Run all batches, with an empty cache of token vectors unless `known`."""
    if not known:
        bilm.cache.clear()
    return [layers for batch in batches for layers in forward(batch)]


@contextmanager
def busy_cores(number: int) -> Iterator[None]:
    """Context manager: run other programs; each one uses one core."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(number)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def measure(
    models: dict[str, FrozenBiLM], batches: list[Batch], n_rounds: int, known: bool
) -> dict[str, list[float]]:
    """Return the tokens per second of every variant in every round."""
    n_tokens = sum(len(sentence) for batch in batches for sentence in batch)
    rates: dict[str, list[float]] = {variant: [] for variant in models}
    forwards = {variant: make_forward(bilm, variant) for variant, bilm in models.items()}
    for number in range(n_rounds + 1):
        for variant, forward in forwards.items():
            # The first turn is a warm-up, which also packs the weights.
            part = batches if number else batches[-1:]
            repeats = 20 if number and n_tokens < 100 else 1
            started = time.perf_counter()
            for _ in range(repeats):
                run(models[variant], forward, part, known)
            if number:
                rates[variant].append(repeats * n_tokens / (time.perf_counter() - started))
    return rates


def compare(got: list[Tensor], expected: list[Tensor]) -> tuple[float, float, float]:
    """Return maximum and mean difference of the layers, and minimum cosine of their averages."""
    ours, theirs = torch.cat(got, dim=1).double(), torch.cat(expected, dim=1).double()
    difference = (ours - theirs).abs()
    cosines = torch.cosine_similarity(ours.mean(dim=0), theirs.mean(dim=0), dim=1)
    return difference.max().item(), difference.mean().item(), cosines.min().item()


def peak_memory(args: argparse.Namespace, size: str, batch_size: int, variant: str) -> float:
    """Run a variant in a new process, and return its peak memory in MB without the weights."""
    command = [sys.executable, __file__, str(args.text), "--size", size]
    command += ["--threads", str(args.threads), "--memory", variant, "--batch", str(batch_size)]
    command += ["--weights", args.weights] if args.weights else []
    command += ["--paragraphs"] * args.paragraphs
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(result.stdout)


def print_memory(args: argparse.Namespace) -> None:
    """Print the peak memory of this process, which `peak_memory` started, after two turns.

    The plain loop needs one turn, because it has no cache.
    """
    bilm = make_model(args.size[0], args.weights)
    if args.memory != PLAIN:
        bilm = bilm.replace(precision=args.memory)
    forward = make_forward(bilm, args.memory)
    batches = make_batches(args.text, args.batch[0], paragraphs=args.paragraphs)[:2]
    before = memory()
    for _ in range(1 if args.memory == PLAIN else 2):
        run(bilm, forward, batches)
    print(memory("VmHWM") - before)


def print_rows(args: argparse.Namespace, size: str) -> None:
    """Measure all batches and variants of one size, and print a row for each."""
    model = make_model(size, args.weights)
    models = {
        variant: model if variant == PLAIN else model.replace(precision=variant)
        for variant in args.variants
    }
    for batch_size in args.batch:
        batches = make_batches(args.text, batch_size, paragraphs=args.paragraphs)
        with busy_cores(args.busy):
            rates = measure(models, batches, args.rounds, args.known)
        expected: list[Tensor] = []
        for variant in models:
            forward = make_forward(models[variant], variant)
            vectors = run(models[variant], forward, batches[-1:])
            expected = expected or vectors
            largest, mean, cosine = compare(vectors, expected)
            peak = 0.0 if args.no_memory else peak_memory(args, size, batch_size, variant)
            beside = rates[args.variants[0]]
            ratio = statistics.median(a / b for a, b in zip(rates[variant], beside))
            print(
                f"{'file' if args.weights else size:8s} {batch_size:5d}  {variant:10s} "
                f"{statistics.median(rates[variant]):9,.0f} {ratio:6.2f} "
                f"{peak:8,.0f} "
                f"{largest:10.1e} {mean:10.1e}  {cosine:.6f}",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text", type=Path)
    parser.add_argument("--size", choices=SIZES, nargs="+", default=["small", "medium", "original"])
    parser.add_argument("--weights", help="weights to read; default: random weights")
    parser.add_argument("--batch", type=int, nargs="+", default=list(N_SENTENCES))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--known", action="store_true", help="keep the cache of token vectors")
    parser.add_argument(
        "--paragraphs", action="store_true", help="do not split lines into sentences"
    )
    parser.add_argument("--variants", choices=VARIANTS, nargs="+", default=list(VARIANTS))
    parser.add_argument(
        "--busy", type=int, default=0, help="number of other programs that use a core each"
    )
    parser.add_argument("--no-memory", action="store_true", help="do not measure memory")
    parser.add_argument("--memory", choices=VARIANTS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    if args.memory:
        print_memory(args)
        return
    print(
        f"{args.weights or 'random weights'}, {args.threads} threads, load {os.getloadavg()[0]:.1f}"
    )
    print("size     batch  variant     tokens/s  ratio  peak MB   max diff  mean diff  min cosine")
    for size in args.size[:1] if args.weights else args.size:
        print_rows(args, size)


if __name__ == "__main__":
    main()
