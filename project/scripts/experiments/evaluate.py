"""Test scores and learned layer mixes of the trained pipelines, without and with ELMo."""

from pathlib import Path
from typing import Optional

import spacy
import srsly
import typer
from spacy.tokens import Doc
from wasabi import msg

from spacy_elmo.cli.evaluate import read_gold_examples
from spacy_elmo.cli.mix import print_mixes
from spacy_elmo.pipeline.mixes import learned_mixes

TASKS = {
    "ner": ("ents_p", "ents_r", "ents_f"),
    "textcat": ("accuracy", "cats_macro_f"),
    "tagger": ("tag_acc", "pos_acc"),
    "srl": ("srl_p", "srl_r", "srl_f"),
    "crf": ("ents_p", "ents_r", "ents_f"),
    "bcn": ("accuracy", "cats_macro_f"),
    "textpair": ("cats_acc", "cats_macro_f"),
    "qa": ("qa_f1", "qa_exact"),
    "coref": ("coref_muc_f", "coref_b3_f", "coref_ceafe_f", "coref_f"),
}


def main(
    corpus_dir: Path = typer.Argument(..., help="Folder with TASK-test.spacy files", exists=True),
    training_dir: Path = typer.Argument(..., help="Folder with TASK, TASK_elmo ...", exists=True),
    metrics_dir: Path = typer.Argument(..., help="Output folder of the scores"),
    data: Optional[list[str]] = typer.Option(
        None, help="TASK=NAME: evaluate TASK on NAME-test.spacy; can be repeated"
    ),
) -> None:
    """Evaluate the pipelines that exist. Write a JSON file per pipeline, print a table per task."""
    metrics_dir.mkdir(parents=True, exist_ok=True)
    names = dict(pair.split("=", 1) for pair in data or ())
    mixes = []
    for task, columns in TASKS.items():
        rows = []
        for name in (task, f"{task}_elmo", f"{task}_taglm", f"{task}_en_small"):
            folder = training_dir / name / "model-best"
            if not folder.is_dir():
                continue
            nlp = spacy.load(folder)
            scores = evaluate(nlp, corpus_dir / f"{names.get(task, task)}-test.spacy")
            srsly.write_json(metrics_dir / f"{name}.json", scores)
            cells = [f"{100 * scores[column]:.2f}" for column in columns]
            rows.append((name, *cells, f"{scores['speed']:,.0f}"))
            mixes.extend({"run": name, **row} for row in learned_mixes(nlp))
        if rows:
            header = ("run", *columns, "words/s")
            msg.table(rows, header=header, divider=True, aligns=("l", *"r" * (len(header) - 1)))
    if mixes:
        print_mixes(mixes, ("run", "component"))


def evaluate(nlp: spacy.Language, path: Path) -> dict:
    """Return the scores of `spacy elmo evaluate`, and the accuracy if there is a textcat.

    The pipeline gets the tokens of the corpus if it was trained on them (`gold_preproc`).
    """
    examples = read_gold_examples(nlp, path)
    scores = nlp.evaluate(examples)
    if "textcat" in nlp.pipe_names:
        # Published results on SST-5 are accuracies, which spaCy does not compute.
        docs = nlp.pipe(example.predicted for example in examples)
        right = [best(doc) == best(example.reference) for doc, example in zip(docs, examples)]
        scores["accuracy"] = sum(right) / len(right)
    return scores


def best(doc: Doc) -> str:
    """Return the label with the highest score."""
    return max(doc.cats, key=doc.cats.__getitem__)


if __name__ == "__main__":
    typer.run(main)
