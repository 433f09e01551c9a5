"""What a corpus costs: to read a share of the text, to write it, to read it elsewhere.

    python benchmarks/corpora.py TEXT --format text --latency 0.05

Seconds of the processor, of one process. The text is a file, not packed. Elsewhere is a `file://`
URL whose every request takes the latency longer; windows are those of a run of 128 x 20 tokens,
after each of which it rests, as a training step would take that long.
"""

import argparse
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from fsspec.implementations.local import LocalFileSystem

from spacy_elmo.language_model.windows import Streams, TrainingBatches
from spacy_elmo.text.corpus import Corpus
from spacy_elmo.text.prepare import open_corpus, prepare


def measure_shares(text: Path, folder: Path, format: str) -> None:
    """The parts of the work, and the speed-up by many jobs that they leave."""
    settings: dict[str, Any] = {"format": format, "n_process": 1}
    seconds = []
    # A share of none of the text, one of all of it, and the call that writes the corpus.
    for worker in ("1000000/1000000", "1/1", None):
        started = time.process_time()
        prepare(text, folder, worker=worker, **settings)
        seconds.append(time.process_time() - started)
    reading, share, writing = seconds
    per_gb = 1e9 / text.stat().st_size
    print(f"every job reads the text: {reading * per_gb:,.0f} s a GB")
    print(f"makes its parts, all together: {(share - reading) * per_gb:,.0f} s a GB")
    print(f"the last call: {writing * per_gb:,.0f} s a GB")
    for jobs in (8, 64):
        speedup = (share + writing) / (reading + (share - reading) / jobs + writing)
        print(f"{jobs} jobs and the last call: {speedup:.1f} times one process, by these figures")


def measure_windows(corpora: dict[str, Corpus], steps: int, rest: float) -> None:
    """Milliseconds of each window."""
    for name, corpus in corpora.items():
        batches = TrainingBatches(Streams(corpus), batch_size=128, unroll_steps=20, seed=0)
        found = []
        for step in range(steps):
            started = time.perf_counter()
            batches.at(step)
            found.append(1000 * (time.perf_counter() - started))
            time.sleep(rest)
        late = sum(value > 1000 * LATENCY[0] for value in found[1:])
        print(
            f"{name}: first window {found[0]:.0f} ms, then median {median(found[1:]):.2f} ms, "
            f"longest {max(found[1:]):.1f} ms; {late} of {steps} took longer than "
            f"a request"
        )


LATENCY = [0.0]  # seconds of a request
_read = LocalFileSystem.cat_file


def _read_slowly(self: LocalFileSystem, *args: Any, **options: Any) -> bytes:
    time.sleep(LATENCY[0])
    return bytes(_read(self, *args, **options))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text", type=Path)
    parser.add_argument("--format", default="sentences")
    parser.add_argument("--latency", type=float, default=0.05, help="seconds")
    parser.add_argument("--rest", type=float, default=0.01, help="seconds")
    parser.add_argument("--steps", type=int, default=2000)
    args = parser.parse_args()
    LATENCY[0] = args.latency
    LocalFileSystem.cat_file = _read_slowly
    with TemporaryDirectory() as place:
        folder = Path(place) / "corpus"
        measure_shares(args.text, folder, args.format)
        there = open_corpus(folder.as_uri())
        measure_windows({"on disk": open_corpus(folder), "elsewhere": there}, args.steps, args.rest)


if __name__ == "__main__":
    main()
