"""Speed, memory and start of a pipeline in a process of its own, without PyTorch.

Prints JSON. Run it in a new process for each measurement: the memory is the process's peak.
"""

import sys
import time

START = time.perf_counter()
# Python refuses to import a module whose entry is None, as if PyTorch were not installed.
sys.modules["torch"] = None  # type: ignore[assignment]

import json  # noqa: E402
import re  # noqa: E402
from pathlib import Path  # noqa: E402

import spacy  # noqa: E402

SENTENCE = "Maria Sharapova lends money to a bank in Rome."


def main(pipeline: str, texts_file: str, precision: str) -> None:
    """Load a pipeline, analyse a sentence, then all texts three times.

    pipeline (str): Folder or package of the pipeline.
    texts_file (str): JSON file with a list of texts.
    precision (str): Precision of the pipe `elmo`. Without this pipe, it must be "float32".
    """
    settings = {"components": {"elmo": {"precision": precision}}}
    nlp = spacy.load(pipeline, config=settings if precision != "float32" else {})
    nlp(SENTENCE)
    first = time.perf_counter() - START
    first_cpu = time.process_time()
    memory = peak_memory()
    texts = json.loads(Path(texts_file).read_text("utf8"))
    speeds = []
    for _ in range(3):
        before = time.process_time()
        n_words = sum(map(len, nlp.pipe(texts)))
        speeds.append(n_words / (time.process_time() - before))
    print(
        json.dumps(
            {
                "seconds_to_first_doc": first,
                "cpu_seconds_to_first_doc": first_cpu,
                "words_per_cpu_second": max(speeds),
                "memory_after_first_doc_mb": memory,
                "peak_memory_mb": peak_memory(),
            }
        )
    )


def peak_memory() -> float:
    """Return the largest memory of this process until now, in megabytes. It needs Linux.

    `resource.getrusage` would also count the memory of the process that started this one.
    """
    status = Path("/proc/self/status").read_text("utf8")
    return int(re.findall(r"VmHWM:\s+(\d+) kB", status)[0]) / 1024


if __name__ == "__main__":
    main(*sys.argv[1:])
