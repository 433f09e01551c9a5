"""Words per second of `nlp.pipe` with one process and with several.

    python benchmarks/n_process.py TEXT --pipeline wheels/en_elmo_web_sm --n-process 1 2

TEXT has one sentence per line. A Doc is 20 lines. Each way reads the Docs once and twice, and the
difference of the two times counts, so starting processes is not counted. The ways take turns, and
the figures are medians of elapsed time: nothing else may run on these cores.
"""

import argparse
import statistics
import time
from itertools import islice
from pathlib import Path

import spacy
from spacy.language import Language

LINES = 20  # Lines of a Doc.


def elapsed(nlp: Language, texts: list[str], n_process: int) -> float:
    """Return the seconds for reading all texts."""
    start = time.perf_counter()
    for _ in nlp.pipe(texts, n_process=n_process, batch_size=32):
        pass
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text", type=Path)
    parser.add_argument("--pipeline", help="default: a blank English pipeline with `elmo`")
    parser.add_argument("--n-process", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--docs", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    if args.pipeline:
        nlp = spacy.load(args.pipeline)
    else:
        nlp = spacy.blank("en")
        nlp.add_pipe("elmo")
    with args.text.open(encoding="utf8") as lines:
        texts = [" ".join(map(str.strip, islice(lines, LINES))) for _ in range(args.docs)]
    n_words = sum(len(nlp.make_doc(text)) for text in texts)
    elapsed(nlp, texts, 1)  # Fill the cache of token vectors, which forked processes share.
    speeds: dict[int, list[float]] = {n: [] for n in args.n_process}
    for _ in range(args.rounds):
        for n, found in speeds.items():
            once, twice = (elapsed(nlp, texts * times, n) for times in (1, 2))
            found.append(n_words / (twice - once))
    for n, found in speeds.items():
        print(f"{n} processes: {statistics.median(found):,.0f} words/s")


if __name__ == "__main__":
    main()
