"""Scores of a trained pipeline with each precision of the language model.

    python benchmarks/task_scores.py training/ner_elmo/model-best corpus/ner/test.spacy

The components are not trained again: they learned from float32 vectors.
"""

import argparse
from pathlib import Path
from typing import Any

import spacy
from spacy.training import Corpus

from spacy_elmo.pipeline.elmo import Elmo

PRECISIONS = ("float32", "bfloat16", "int8")
SCORES = (
    "ents_f",
    "ents_p",
    "ents_r",
    "cats_score",
    "cats_micro_f",
    "tag_acc",
    "pos_acc",
    "dep_las",
)


def evaluate(nlp: spacy.Language, path: Path, precision: str) -> dict[str, Any]:
    """Evaluate a pipeline with a precision."""
    for _, pipe in nlp.pipeline:
        if isinstance(pipe, Elmo):
            pipe.precision = precision
    return nlp.evaluate(list(Corpus(path)(nlp)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pipeline", type=Path)
    parser.add_argument("test", type=Path)
    args = parser.parse_args()
    nlp = spacy.load(args.pipeline)
    results = {name: evaluate(nlp, args.test, name) for name in PRECISIONS}
    for score in SCORES:
        if results["float32"].get(score) is not None:
            values = "  ".join(f"{name} {100 * results[name][score]:6.2f}" for name in PRECISIONS)
            print(f"{score:>12}  {values}")


if __name__ == "__main__":
    main()
