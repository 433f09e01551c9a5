"""Costs of preparing a corpus: to read a share of the text, and to write the corpus.

    python benchmarks/corpora.py TEXT --format text

Seconds of the processor, of one process. The text is a file, not packed.
"""

import argparse
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from spacy_elmo.text.prepare import prepare


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text", type=Path)
    parser.add_argument("--format", default="sentences")
    args = parser.parse_args()
    with TemporaryDirectory() as place:
        measure_shares(args.text, Path(place) / "corpus", args.format)


if __name__ == "__main__":
    main()
