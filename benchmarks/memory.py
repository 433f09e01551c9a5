"""Memory of a pipeline with `elmo`: at rest, for a long Doc, and with many threads.

    python benchmarks/memory.py rest --size original --precision float32
    python benchmarks/memory.py doc --tokens 100000
    python benchmarks/memory.py doc --tokens 1000000 --store-layers --sentencizer
    python benchmarks/memory.py threads --threads 8

Each command measures a new process.

rest     writes random weights to a file, loads them and runs a few texts. It prints how much memory
         the model adds to a process with all imports, before and after `nlp.to_bytes()`, which
         reads all weights.
doc      runs one Doc. It prints how much memory this adds at the peak, and the size of the Doc's
         layers.
threads  runs the texts of `service.py` in several threads with one pipeline. It prints the memory
         of the process after every 40 texts, and after malloc has returned freed memory.
"""

import argparse
import json
import random
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

from language_models import SIZES, make_model, memory
from service import make_text

TEXT = "The bank of the river was steep , and the bank lends money . " * 20


def rest(path: Path, precision: str) -> dict[str, float]:
    """Measure how much memory a pipeline adds at rest, in MB. Needs a new process."""
    import spacy

    import spacy_elmo.pipeline.elmo
    import spacy_elmo.weights.formats  # noqa: F401
    from spacy_elmo import pretrained

    nlp = spacy.blank("en")
    nlp("One .")
    before, found = memory(), {}
    nlp.add_pipe("elmo", config={**pretrained(path), "precision": precision})
    nlp.initialize()
    found["loaded"] = memory() - before
    for _ in nlp.pipe([TEXT, "One ."]):
        pass
    found["at rest"] = memory() - before
    found["of that files"] = memory("RssFile")
    nlp.to_bytes()
    found["after to_bytes"] = memory() - before
    list(nlp.pipe([TEXT, "One ."]))
    found["at rest again"] = memory() - before
    found["without the model"] = before
    found["peak"] = memory("VmHWM") - before
    return found


def doc(weights: str, n_tokens: int, *, store_layers: bool, sentencizer: bool) -> dict[str, float]:
    """Measure the added memory in MB and the time for one long Doc. Needs a new process."""
    import spacy
    from spacy.tokens import Doc

    from spacy_elmo import pretrained

    nlp = spacy.blank("en")
    if sentencizer:
        nlp.add_pipe("sentencizer")
    elmo = nlp.add_pipe("elmo", config={**pretrained(weights), "store_layers": store_layers})
    words = TEXT.split()
    nlp(Doc(nlp.vocab, words=words))
    long_one = Doc(nlp.vocab, words=[words[i % len(words)] for i in range(n_tokens)])
    before, started = memory(), time.process_time()
    nlp(long_one)
    seconds = time.process_time() - started
    n_layers = elmo.bilm.config.n_layers + 1
    layers = n_layers * n_tokens * elmo.width * 4 / 2**20
    peak = memory("VmHWM") - before
    return {
        "layers": layers,
        "peak": peak,
        "peak / layers": peak / layers,
        "afterwards": memory() - before,
        "microseconds a token": 1e6 * seconds / n_tokens,
    }


def threads(weights: str, n_threads: int) -> dict[str, float]:
    """Measure memory in MB while several threads run texts. Needs a new process."""
    import spacy

    from spacy_elmo import pretrained
    from spacy_elmo.model.memory import return_freed_memory

    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.add_pipe("elmo", config=pretrained(weights))
    nlp("Once before .")
    rng = random.Random(0)
    texts = [make_text(rng) for _ in range(40)]
    found = {"at the beginning": memory()}
    with ThreadPoolExecutor(n_threads) as pool:
        for i in range(1, 9):
            list(pool.map(lambda text: len(nlp(text)), rng.choices(texts, k=40)))
            found[f"{40 * i} texts"] = memory()
        return_freed_memory()
        found["given back"] = memory()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=RAW)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("rest", help="a pipeline after some texts")
    command.add_argument("--size", choices=SIZES, default="original")
    command.add_argument(
        "--weights", type=Path, help="weights to read; default: random weights of --size"
    )
    command.add_argument("--precision", default="float32")
    command = commands.add_parser("doc", help="one long Doc")
    command.add_argument("--weights", default="en_small")
    command.add_argument("--tokens", type=int, default=100_000)
    command.add_argument("--store-layers", action="store_true")
    command.add_argument(
        "--sentencizer", action="store_true", help="use sentences instead of windows"
    )
    command = commands.add_parser("threads", help="one pipeline in several threads")
    command.add_argument("--weights", default="en_small")
    command.add_argument("--threads", type=int, default=8)
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if not args.here:
        with TemporaryDirectory() as folder:
            own = ["--here", *sys.argv[1:]]
            if args.command == "rest" and args.weights is None:
                own += ["--weights", str(write_weights(Path(folder), args.size))]
            subprocess.run([sys.executable, __file__, *own], check=True)
        return
    if args.command == "rest":
        found = rest(args.weights, args.precision)
    elif args.command == "threads":
        found = threads(args.weights, args.threads)
    else:
        settings = {"store_layers": args.store_layers, "sentencizer": args.sentencizer}
        found = doc(args.weights, args.tokens, **settings)
    print(json.dumps({name: round(figure, 2) for name, figure in found.items()}, indent=1))


def write_weights(folder: Path, size: str) -> Path:
    """Write a file of random weights, and return its path."""
    from spacy_elmo.weights.safetensors_file import write

    path = folder / "random.safetensors"
    write(make_model(size), path)
    return path


RAW = argparse.RawDescriptionHelpFormatter

if __name__ == "__main__":
    main()
