"""Cost of `python -m spacy elmo embed --shards`, and speed-up with several workers.

    python benchmarks/sharding.py TEXT --sentences 3000 --shards 4 --workers 2 ray

First, the script compares the processor time of shards and of one file, both Parquet. Then it
compares the elapsed time with each value of `--workers` and with one worker; this needs an idle
core per worker. The time of a run with one line per shard (start, reading the weights, starting
Ray) is subtracted.
"""

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Union

import torch
from language_models import read_sentences

from spacy_elmo.export import Embedder, ExportSettings, embed_corpus


def timed(clock: Callable[[], float], function: Callable[[str], None]) -> float:
    """Return the time of a run on the long text, minus the time of a run on the short text."""
    seconds = []
    for name in ("short.txt", "long.txt"):
        started = clock()
        function(name)
        seconds.append(clock() - started)
    return seconds[1] - seconds[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text", type=Path)
    parser.add_argument("--weights", default="en_small")
    parser.add_argument("--sentences", type=int, default=3000)
    parser.add_argument("--shards", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", nargs="*", default=[])
    args = parser.parse_args()
    torch.set_num_threads(1)
    sentences = list(islice(read_sentences(args.text), args.sentences))
    n_tokens = sum(map(len, sentences))
    print(f"{n_tokens:,} tokens, {args.shards} shards")
    embedder = Embedder(args.weights)
    ratios: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, lines in (("long.txt", sentences), ("short.txt", [["A", "line"]] * args.shards)):
            (folder / file).write_text("".join(" ".join(words) + "\n" for words in lines), "utf8")

        def one_file(file: str) -> None:
            output = folder / "out.parquet"
            embed_corpus(embedder, folder / file, output, ExportSettings(force=True))

        def in_shards(file: str, workers: Union[int, str] = 1) -> None:
            shutil.rmtree(folder / "out", ignore_errors=True)
            settings = ExportSettings(shards=args.shards, workers=workers)
            embed_corpus(embedder, folder / file, folder / "out", settings)

        for number in range(args.rounds + 1):
            whole = timed(time.process_time, one_file)
            found = {"processor time of shards": timed(time.process_time, in_shards) / whole}
            alone = timed(time.monotonic, in_shards) if args.workers else 0.0
            for given in args.workers:
                several = partial(in_shards, workers=int(given) if given.isdecimal() else given)
                found[f"speed of --workers {given}"] = alone / timed(time.monotonic, several)
            for label, value in found.items() if number else ():  # The first round is a warm-up.
                ratios.setdefault(label, []).append(value)
    for label, values in ratios.items():
        print(f"{label:28s} {statistics.median(values):.3f} times {[round(v, 3) for v in values]}")


if __name__ == "__main__":
    main()
