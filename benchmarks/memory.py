"""What a pipeline with `elmo` takes of the memory: at rest, for a long Doc, and in many threads.

    python benchmarks/memory.py rest --size original --precision float32
    python benchmarks/memory.py doc --tokens 100000
    python benchmarks/memory.py doc --tokens 1000000 --store-layers --sentencizer
    python benchmarks/memory.py threads --threads 8

`rest` writes random weights of the size to a file, and a process of its own loads them and runs
a few texts: what it takes above what it took when all was imported and no model loaded, then
once the weights have been asked for (`nlp.to_bytes()`). `doc` sends one Doc through a model
in a process of its own: the peak above what the process took before, beside the size of the
Doc's layers. `threads` sends the texts of `service.py` through one pipeline, by as many threads,
and says what the process takes as they go on; then without what malloc keeps of freed memory.
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
    """In a process of its own: MB above the process without the model."""
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
    """In a process of its own: MB, and seconds."""
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
    """In a process of its own: MB after so many texts."""
    import spacy

    from spacy_elmo import pretrained
    from spacy_elmo.frozen.memory import return_freed_memory

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
    command = commands.add_parser("rest", help="a pipeline that has run")
    command.add_argument("--size", choices=SIZES, default="original")
    command.add_argument("--weights", type=Path, help="a model, in place of random weights")
    command.add_argument("--precision", default="float32")
    command = commands.add_parser("doc", help="one long Doc")
    command.add_argument("--weights", default="en_small")
    command.add_argument("--tokens", type=int, default=100_000)
    command.add_argument("--store-layers", action="store_true")
    command.add_argument("--sentencizer", action="store_true", help="sentences, not windows")
    command = commands.add_parser("threads", help="a service")
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
    """RETURNS (Path): A file of random weights."""
    from spacy_elmo.weights.safetensors_file import write

    path = folder / "random.safetensors"
    write(make_model(size), path)
    return path


RAW = argparse.RawDescriptionHelpFormatter

if __name__ == "__main__":
    main()
