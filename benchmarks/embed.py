"""Speed of `python -m spacy elmo embed` as a share of the model's own speed, by format.

    python benchmarks/embed.py TEXT --weights en_small --sentences 3000 --rounds 3
    python benchmarks/embed.py TEXT --size original --sentences 300 --rounds 2

The model's own speed is measured on the same sentences in the same groups, without output. All
take turns. The script measures processor time, so other programs matter little. The time of `embed`
for one sentence (start, reading the weights) is subtracted.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import torch
from language_models import SIZES, make_model, read_sentences

from spacy_elmo.embedding.embed import by_tokens
from spacy_elmo.export import Embedder, ExportSettings, embed_corpus
from spacy_elmo.export.embedder import CHUNK_BATCHES
from spacy_elmo.frozen.model import FrozenBiLM
from spacy_elmo.weights import safetensors_file

BATCH_TOKENS = 4096
FORMATS = (".hdf5", ".parquet", ".spacy")


def timed(function: Callable[[], None]) -> float:
    """Run a function, and return its seconds of processor time."""
    started = time.process_time()
    function()
    return time.process_time() - started


def model_alone(bilm: FrozenBiLM, sentences: list[list[str]]) -> None:
    """Run the model on the same groups and batches as `embed`."""
    bilm.cache.clear()
    size = CHUNK_BATCHES * BATCH_TOKENS
    for group in by_tokens(sentences, size, size):
        ordered = sorted(group, key=len, reverse=True)
        for batch in by_tokens(ordered, BATCH_TOKENS, len(ordered)):
            bilm.embed(batch, "warm")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text", type=Path)
    model = parser.add_mutually_exclusive_group()
    model.add_argument("--weights", default="en_small")
    model.add_argument("--size", choices=SIZES, help="use random weights of a size")
    parser.add_argument("--sentences", type=int, default=3000)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    torch.set_num_threads(1)
    sentences = list(islice(read_sentences(args.text), args.sentences))
    bilm = make_model(args.size, None if args.size else args.weights)
    shares: dict[str, list[float]] = {suffix: [] for suffix in FORMATS}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if args.size:
            args.weights = str(folder / "random.safetensors")
            safetensors_file.write(bilm, Path(args.weights))
        for file, lines in (("all.txt", sentences), ("one.txt", sentences[:1])):
            (folder / file).write_text("".join(" ".join(words) + "\n" for words in lines), "utf8")

        def embed(file: str, suffix: str) -> None:
            output = folder / f"out{suffix}"
            embed_corpus(Embedder(args.weights), folder / file, output, ExportSettings(force=True))

        for number in range(args.rounds + 1):
            alone = timed(lambda: model_alone(bilm, sentences))
            for suffix, values in shares.items():
                start = timed(lambda suffix=suffix: embed("one.txt", suffix))
                whole = timed(lambda suffix=suffix: embed("all.txt", suffix))
                if number:  # The first round is a warm-up.
                    values.append(alone / (whole - start))
    for suffix, values in shares.items():
        print(f"{suffix:9s} {statistics.median(values):.2f} of the model's own speed {values}")


if __name__ == "__main__":
    main()
