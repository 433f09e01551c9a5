"""Speed of prediction with both directions in parallel threads, and with one thread.

    python benchmarks/threads.py TEXT --size original --batch 1 8 --threads 2 --busy 0
    python benchmarks/threads.py TEXT --size original --batch 1 8 --threads 2 --busy 1

Both take turns on the same sentences (TEXT has one per line), with all token vectors in the cache.
With `--busy 1`, another program uses one core all the time. The weights are random, unless you give
`--weights`.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
from inference import N_SENTENCES, busy_cores, make_batches, make_forward, run
from language_models import SIZES, make_model

from spacy_elmo.frozen import recurrence, threads


def one_thread(tasks: list[Callable], n_products: int) -> list:
    """Run the tasks one after the other. Replaces `side_by_side`."""
    return [task() for task in tasks]


WAYS = {"side by side": threads.side_by_side, "one thread": one_thread}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text", type=Path)
    parser.add_argument("--size", choices=SIZES, default="original")
    parser.add_argument("--weights", help="weights to read; default: random weights of --size")
    parser.add_argument("--batch", type=int, nargs="+", choices=list(N_SENTENCES), default=[1, 8])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument(
        "--busy", type=int, default=0, help="number of other programs that use a core each"
    )
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    bilm = make_model(args.size, args.weights)
    forward = make_forward(bilm, "float32")
    for batch_size in args.batch:
        batches = make_batches(args.text, batch_size)[:1]
        n_tokens = sum(map(len, batches[0]))
        rates: dict[str, list[float]] = {way: [] for way in WAYS}
        run(bilm, forward, batches)
        with busy_cores(args.busy):
            for number in range(args.rounds + 1):
                for way, function in WAYS.items():
                    recurrence.side_by_side = function
                    started = time.perf_counter()
                    for _ in range(3):
                        run(bilm, forward, batches, known=True)
                    if number:  # The first round is a warm-up.
                        rates[way].append(3 * n_tokens / (time.perf_counter() - started))
        for way, values in rates.items():
            title = f"{args.weights or args.size} batch {batch_size} busy {args.busy}  {way:12s}"
            median, low, high = statistics.median(values), min(values), max(values)
            print(f"{title} {median:6,.0f} tokens/s ({low:,.0f} to {high:,.0f})", flush=True)


if __name__ == "__main__":
    main()
