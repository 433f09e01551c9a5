"""Cost of preparing a corpus: reading the text, making the parts, writing the corpus.

    python benchmarks/corpora.py TEXT --format text

The script prints processor time of one process. TEXT is one file, not compressed.
"""

import argparse
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from spacy_elmo.text.prepare import prepare
from spacy_elmo.text.settings import PrepareSettings


def measure_shares(text: Path, folder: Path, format: str) -> None:
    """Print the time of each part of the work, and the speed-up with several jobs."""
    seconds = []
    # A job whose share is empty, a job with the whole text, and the call that writes the corpus.
    for worker in ("1000000/1000000", "1/1", None):
        started = time.process_time()
        prepare(text, folder, PrepareSettings(format=format, n_process=1, worker=worker))
        seconds.append(time.process_time() - started)
    reading, share, writing = seconds
    per_gb = 1e9 / text.stat().st_size
    print(f"reading the text, in every job: {reading * per_gb:,.0f} s per GB")
    print(f"making the parts, sum of all jobs: {(share - reading) * per_gb:,.0f} s per GB")
    print(f"the last call: {writing * per_gb:,.0f} s per GB")
    for jobs in (8, 64):
        speedup = (share + writing) / (reading + (share - reading) / jobs + writing)
        print(f"{jobs} jobs and the last call: {speedup:.1f} times as fast (estimate)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text", type=Path)
    parser.add_argument("--format", default="sentences")
    args = parser.parse_args()
    with TemporaryDirectory() as place:
        measure_shares(args.text, Path(place) / "corpus", args.format)


if __name__ == "__main__":
    main()
