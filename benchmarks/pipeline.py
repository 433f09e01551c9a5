"""Words per second of whole pipelines, measured with `spacy benchmark speed`.

    python benchmarks/pipeline.py TEXT --weights MODEL --precision float32 int8 --threads 1

TEXT has one sentence per line, with tokens separated by spaces. Each sentence is a Doc. spaCy's
command tokenizes it before it measures the time. The pipelines are spaCy's `tok2vec` with default
settings (HashEmbedCNN), `tok2vec` with an NER that listens to it, `elmo`, and `elmo` with an NER
that listens to it. The NERs have spaCy's default sizes. They are initialized on a few examples but
not trained, which does not change the speed.

The pipelines take turns, each in a new process. Ratios are computed within a round. spaCy prints
the mean over batches, after `--warmup` runs over the whole text. Then the token vectors are in the
cache; use `--warmup 0` to include the time of new strings.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import spacy
from language_models import SIZES, add_elmo, make_model, read_sentences
from spacy.language import Language
from spacy.tokens import Doc, DocBin
from spacy.training import Example
from spacy.vocab import Vocab

from spacy_elmo.frozen.model import FrozenBiLM

BASELINE = "tok2vec"
MEAN = re.compile(r"Mean: ([\d.]+) words/s")


def make_pipelines(bilm: FrozenBiLM, precisions: list[str]) -> dict[str, Language]:
    """Create the pipelines by name, initialized."""
    pipelines = {
        BASELINE: make_tok2vec(with_ner=False),
        "tok2vec, ner": make_tok2vec(with_ner=True),
    }
    for precision in precisions:
        pipelines[f"elmo {precision}"] = make_elmo(bilm, precision, with_ner=False)
        pipelines[f"elmo {precision}, ner"] = make_elmo(bilm, precision, with_ner=True)
    return pipelines


def make_tok2vec(*, with_ner: bool) -> Language:
    nlp = spacy.blank("en")
    nlp.add_pipe("tok2vec")
    listener = {"@architectures": "spacy.Tok2VecListener.v1", "width": 96, "upstream": "*"}
    return finish(nlp, listener if with_ner else None)


def make_elmo(bilm: FrozenBiLM, precision: str, *, with_ner: bool) -> Language:
    nlp = spacy.blank("en")
    add_elmo(nlp, bilm, precision=precision)
    n_layers = bilm.config.n_layers + 1
    mix = {"@architectures": "spacy-elmo.ScalarMix.v1", "n_layers": n_layers, "layer_norm": True}
    listener = {
        "@architectures": "spacy-elmo.ElmoListener.v1",
        "width": bilm.config.width,
        "mix": mix,
    }
    return finish(nlp, listener if with_ner else None)


def finish(nlp: Language, listener: Any) -> Language:
    """Initialize a pipeline, with an NER if there is a listener."""
    if listener is not None:
        nlp.add_pipe("ner", config={"model": {"tok2vec": listener}})
    words = ["Maria", "lends", "money", "in", "Rome", "."]
    doc = Doc(nlp.vocab, words=words, ents=["B-PER", "O", "O", "O", "B-GPE", "O"])
    nlp.initialize(lambda: [Example(nlp.make_doc(doc.text), doc)])
    return nlp


def write_docs(text: Path, n_sentences: int, path: Path) -> int:
    """Write sentences as Docs to a .spacy file, and return the number of tokens."""
    vocab = Vocab()
    docs = [Doc(vocab, words=words) for words in islice(read_sentences(text), n_sentences)]
    DocBin(docs=docs).to_disk(path)
    return sum(map(len, docs))


def words_per_second(pipeline: Path, docs: Path, args: argparse.Namespace) -> float:
    """Run `spacy benchmark speed` on a pipeline, and return the words per second."""
    command = [sys.executable, "-m", "spacy", "benchmark", "speed", str(pipeline), str(docs)]
    command += ["--no-shuffle", "--warmup", str(args.warmup)]
    command += ["--batches", str(args.batches), "--batch-size", str(args.batch_size)]
    environment = {**os.environ, "OMP_NUM_THREADS": str(args.threads)}
    run = subprocess.run(command, capture_output=True, text=True, env=environment)
    found = MEAN.search(run.stdout)
    if run.returncode or found is None:
        raise RuntimeError(f"{' '.join(command)} failed:\n{run.stdout}\n{run.stderr}")
    return float(found.group(1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text", type=Path)
    parser.add_argument("--size", choices=SIZES, default="default")
    parser.add_argument("--weights", help="weights to read; default: random weights of --size")
    parser.add_argument("--precision", nargs="+", default=["float32", "bfloat16", "int8"])
    parser.add_argument("--batches", type=int, default=30, help="at least 30")
    parser.add_argument("--batch-size", type=int, default=128, help="sentences per batch")
    parser.add_argument("--warmup", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, help="output file with the results of all rounds")
    args = parser.parse_args()
    pipelines = make_pipelines(make_model(args.size, args.weights), args.precision)
    rates: dict[str, list[float]] = {name: [] for name in pipelines}
    with TemporaryDirectory() as folder:
        docs = Path(folder) / "text.spacy"
        n_tokens = write_docs(args.text, args.batches * args.batch_size, docs)
        paths = {name: Path(folder) / str(i) for i, name in enumerate(pipelines)}
        for name, nlp in pipelines.items():
            nlp.to_disk(paths[name])
        model = args.weights or f"random weights, size {args.size}"
        print(f"{model}; {n_tokens:,} tokens, {args.threads} threads")
        for number in range(args.rounds):
            for name, path in paths.items():
                rates[name].append(words_per_second(path, docs, args))
            load = os.getloadavg()[0]
            row = ", ".join(f"{name} {figures[-1]:,.0f}" for name, figures in rates.items())
            print(f"round {number + 1}, load {load:.1f}: {row}", flush=True)
    print(f"{'pipeline':24s}  words/s  of tok2vec's   least    most")
    for name, figures in rates.items():
        ratios = [one / other for one, other in zip(figures, rates[BASELINE])]
        print(
            f"{name:24s} {statistics.median(figures):8,.0f} {statistics.median(ratios):13.3f} "
            f"{min(ratios):7.3f} {max(ratios):7.3f}"
        )
    if args.json:
        args.json.write_text(json.dumps(rates, indent=2), "utf8")


if __name__ == "__main__":
    main()
