"""Speed of prediction with one and with two threads: words per second of a pipeline with `elmo`.

    python benchmarks/threads.py TEXT --weights en_small --precision float32 auto
    python benchmarks/threads.py TEXT --size original --batch 1 8 --busy 1

The numbers of threads take turns on the same sentences: the first 20 words of lines of TEXT, with
all token vectors in the cache. The figures are medians of elapsed time. With `--busy 1`, another
program uses one core all the time. The weights are random, unless you give `--weights`.
"""

import argparse
import statistics
import time
from pathlib import Path

import spacy
import torch
from frozen import N_WORDS, run_pipe
from inference import busy_cores
from language_models import SIZES, add_elmo, make_model

N_THREADS = (1, 2)
SECONDS_OF_TURN = 0.3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text", type=Path)
    parser.add_argument("--size", choices=SIZES, default="original")
    parser.add_argument("--weights", help="weights to read; default: random weights of --size")
    parser.add_argument("--precision", nargs="+", default=["float32"])
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 8, 32, 128])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument(
        "--busy", type=int, default=0, help="number of other programs that use a core each"
    )
    args = parser.parse_args()
    lines = (line.split() for line in args.text.open(encoding="utf8"))
    sentences = [words[:N_WORDS] for words in lines if len(words) >= N_WORDS][: max(args.batch)]
    bilm = make_model(args.size, args.weights)
    for precision in args.precision:
        nlp = spacy.blank("en")
        add_elmo(nlp, bilm, precision=precision)
        run_pipe(nlp, sentences)
        for size in args.batch:
            speeds: dict[int, list[float]] = {number: [] for number in N_THREADS}
            with busy_cores(args.busy):
                for _ in range(args.rounds):
                    for number, found in speeds.items():
                        torch.set_num_threads(number)
                        run_pipe(nlp, sentences[:size])
                        n_calls, started = 0, time.perf_counter()
                        while (taken := time.perf_counter() - started) < SECONDS_OF_TURN:
                            run_pipe(nlp, sentences[:size])
                            n_calls += 1
                        found.append(n_calls * size * N_WORDS / taken)
            for number, found in speeds.items():
                factor = statistics.median(b / a for a, b in zip(speeds[N_THREADS[0]], found))
                print(
                    f"{precision:8s} {size:3d} sentences, {number} threads "
                    f"{statistics.median(found):7,.0f} words/s ({min(found):,.0f} to "
                    f"{max(found):,.0f}), factor {factor:.2f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
