"""Words a second of whole pipelines, by spaCy's own `spacy benchmark speed`.

    python benchmarks/pipeline.py TEXT --weights MODEL --precision float32 int8 --threads 1

TEXT has a sentence a line, tokens separated by spaces; each is a Doc, which spaCy's
command tokenizes before it takes the time. The pipelines: spaCy's `tok2vec` with its
defaults (HashEmbedCNN), the same with an NER that listens to it, `elmo` alone, `elmo`
with an NER that listens. The NERs have spaCy's default sizes, are initialised on a few
examples and not trained: their speed is right, their entities are none.

The pipelines take turns, each in a process of its own; a ratio is taken within a round.
spaCy's figure is the mean over batches, after `--warmup` times the whole text: the
memory of token vectors knows the text's strings then. `--warmup 0` counts new strings.
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
    """The pipelines, ready to predict."""
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
    """Initialise, with an NER on what it is to listen to, if that is given."""
    if listener is not None:
        nlp.add_pipe("ner", config={"model": {"tok2vec": listener}})
    words = ["Maria", "lends", "money", "in", "Rome", "."]
    doc = Doc(nlp.vocab, words=words, ents=["B-PER", "O", "O", "O", "B-GPE", "O"])
    nlp.initialize(lambda: [Example(nlp.make_doc(doc.text), doc)])
    return nlp


def write_docs(text: Path, n_sentences: int, path: Path) -> int:
    """Write the text as Docs. RETURNS (int): Their tokens."""
    vocab = Vocab()
    docs = [Doc(vocab, words=words) for words in islice(read_sentences(text), n_sentences)]
    DocBin(docs=docs).to_disk(path)
    return sum(map(len, docs))


def words_per_second(pipeline: Path, docs: Path, args: argparse.Namespace) -> float:
    """What spaCy's command says."""
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
    parser.add_argument("--weights", help="in place of random weights of a size")
    parser.add_argument("--precision", nargs="+", default=["float32", "bfloat16", "int8"])
    parser.add_argument("--batches", type=int, default=30, help="at least 30")
    parser.add_argument("--batch-size", type=int, default=128, help="sentences")
    parser.add_argument("--warmup", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, help="every round's figures")
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
