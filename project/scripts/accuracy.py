"""Accuracy of a text classifier with exclusive classes: how often its best label is the right one.

`spacy evaluate` reports such a classifier's macro-averaged F1 as `cats_score`; figures for SST-5
in the literature are accuracies.
"""

from pathlib import Path
from typing import Optional

import spacy
import srsly
import typer
from spacy.cli._util import import_code, setup_gpu
from spacy.training import Corpus, Example
from wasabi import msg


def gold_label(example: Example, path: Path, number: int) -> str:
    """Find the one label of an annotated Doc."""
    labels = [label for label, value in example.reference.cats.items() if value == 1.0]
    if len(labels) != 1:
        raise ValueError(f"{path}: text {number} has {len(labels)} labels of value 1, not one")
    return labels[0]


def main(
    model: str = typer.Argument(..., help="Model name or path"),
    data_path: Path = typer.Argument(..., help="Annotated .spacy data", exists=True),
    output: Optional[Path] = typer.Option(
        None, "--output", "-o", help="JSON file to add the accuracy to", dir_okay=False
    ),
    code_path: Optional[Path] = typer.Option(
        None, "--code", "-c", help="Python file with code that the model needs", dir_okay=False
    ),
    gpu_id: int = typer.Option(-1, "--gpu-id", "-g", help="GPU to run on, -1 for the CPU"),
) -> None:
    """Print a classifier's accuracy and add it to the JSON file of `spacy evaluate`."""
    import_code(code_path)
    setup_gpu(gpu_id, silent=False)
    nlp = spacy.load(model)
    examples = list(Corpus(data_path)(nlp))
    if not examples:
        msg.fail("There are no texts in the data", str(data_path), exits=1)
    try:
        gold = [gold_label(eg, data_path, number) for number, eg in enumerate(examples, 1)]
    except ValueError as error:
        msg.fail("Can't compute an accuracy", str(error), exits=1)
    docs = list(nlp.pipe([eg.predicted for eg in examples]))
    if not all(doc.cats for doc in docs):
        msg.fail("The model gives no categories", f"Its pipeline: {nlp.pipe_names}", exits=1)
    unknown = sorted(set(gold) - set(docs[0].cats))
    if unknown:
        msg.warn(f"The model does not know the labels {unknown}")
    right = sum(max(doc.cats, key=doc.cats.get) == label for doc, label in zip(docs, gold))
    accuracy = right / len(gold)
    msg.good(f"Accuracy {100 * accuracy:.2f} % ({right:,} of {len(gold):,})")
    if output is not None:
        scores = srsly.read_json(output) if output.exists() else {}
        if not isinstance(scores, dict):
            msg.fail("Expected an object of scores in the JSON file", str(output), exits=1)
        output.parent.mkdir(parents=True, exist_ok=True)
        srsly.write_json(output, {**scores, "accuracy": accuracy})


if __name__ == "__main__":
    typer.run(main)
