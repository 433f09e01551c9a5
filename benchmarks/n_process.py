"""Words per second of `nlp.pipe` with one process, with one and two threads, and with several.

    python benchmarks/n_process.py TEXT --pipeline wheels/en_elmo_web_sm --n-process 1 2
    python benchmarks/n_process.py TEXT --pipeline wheels/en_elmo_web_sm --without-layers

TEXT has one sentence per line. A Doc is 20 lines. Each way reads all Docs, and only the first
ones, the lead. The difference of the two times counts, so starting processes is not counted. The
ways take turns, and the figures are medians of elapsed time: nothing else may run on these cores.

A worker process has one thread. So the factors compare with one process with one thread: one
process with two threads uses two cores already.

The workers take the batches in turn, and wait for each other's results. So batches are small:
a few large batches have different numbers of tokens, and the worker with fewer tokens waits. The
processor time of a Doc shows the other cost: workers turn Docs into bytes, and the parent turns the
bytes into Docs.
"""

import argparse
import resource
import statistics
import time
from itertools import islice
from pathlib import Path

import spacy
from spacy.language import Language

from spacy_elmo.model.threads import limit_threads

LINES = 20  # Lines of a Doc.
LEAD = 4  # Batches of the lead: two for each of two workers, as many as spaCy sends at once.


def elapsed(nlp: Language, texts: list[str], n_process: int, batch_size: int) -> list[float]:
    """Return the seconds for reading all texts, and the processor time of parent and workers."""
    before = times()
    for _ in nlp.pipe(texts, n_process=n_process, batch_size=batch_size):
        pass
    return [after - earlier for after, earlier in zip(times(), before)]


def times() -> list[float]:
    """Return the time, and the processor time of this process and of the processes that ended."""
    used = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return [time.perf_counter(), *(each.ru_utime + each.ru_stime for each in used)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text", type=Path)
    parser.add_argument("--pipeline", help="default: a blank English pipeline with `elmo`")
    parser.add_argument("--factory", default="elmo", help="component of the blank pipeline")
    parser.add_argument("--n-process", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument(
        "--without-layers", action="store_true", help="remove doc._.elmo and doc.tensor"
    )
    parser.add_argument("--docs", type=int, default=256, help="Docs after the lead")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    if args.pipeline:
        nlp = spacy.load(args.pipeline)
    else:
        nlp = spacy.blank("en")
        nlp.add_pipe(args.factory)
        nlp.initialize()
    if args.without_layers:
        nlp.add_pipe("doc_cleaner", config={"attrs": {"_.elmo": None}, "silent": True})
    n_lead = LEAD * args.batch_size
    with args.text.open(encoding="utf8") as lines:
        texts = [" ".join(map(str.strip, islice(lines, LINES))) for _ in range(n_lead + args.docs)]
    if not texts[-1]:
        parser.error(f"{args.text} has fewer than {LINES * len(texts):,} lines")
    n_words = sum(len(nlp.make_doc(text)) for text in texts[n_lead:])
    # Fill the cache of token vectors, which forked processes share.
    elapsed(nlp, texts, 1, args.batch_size)
    ways = [(n, n_threads) for n in args.n_process for n_threads in ((1, 2) if n == 1 else (1,))]
    found: dict[tuple[int, int], list[list[float]]] = {way: [] for way in ways}
    for _ in range(args.rounds):
        for n_process, n_threads in ways:
            limit_threads(n_threads)
            lead, whole = (
                elapsed(nlp, part, n_process, args.batch_size) for part in (texts[:n_lead], texts)
            )
            found[n_process, n_threads].append([b - a for a, b in zip(lead, whole)])
    for (n_process, n_threads), rounds in found.items():
        speed = n_words / statistics.median(each[0] for each in rounds)
        factor = statistics.median(a[0] / b[0] for a, b in zip(found[ways[0]], rounds))
        parent, workers = (
            1000 * statistics.median(each[i] for each in rounds) / args.docs for i in (1, 2)
        )
        print(
            f"{n_process} processes, {n_threads} threads each: {speed:7,.0f} words/s, "
            f"factor {factor:.2f}; milliseconds a Doc: parent {parent:.2f}, workers {workers:.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
