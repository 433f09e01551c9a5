"""Command `python -m spacy elmo probe`."""

from pathlib import Path
from typing import TYPE_CHECKING, Optional

import typer

from ..files.terminal import msg
from .errors import check_new
from .options import FORCE, HTML, JSON_FILE, LAYERS, MODEL
from .output import print_table, put_report

if TYPE_CHECKING:
    from ..analysis.probes import ProbeReport

COLUMNS = {"accuracy": "accuracy", "macro_f": "macro F1", "word_accuracy": "mean of words"}


def probe_cli(
    model: str = MODEL,
    train: Path = typer.Argument(..., help="Labelled Docs to train on: .spacy file or folder"),
    test: Path = typer.Argument(..., help="Labelled Docs to test on: .spacy file or folder"),
    task: str = typer.Option(
        ...,
        help="Labels: 'tag', 'pos', 'dep', 'ent' (IOB), 'cats', 'spans:NAME' or 'senses:NAME' "
        "(NAME is a span group; each word has its own senses)",
    ),
    layers: Optional[str] = LAYERS,
    limit: int = typer.Option(
        50_000, help="Maximum number of tokens, spans or Docs to draw from each corpus; 0: all"
    ),
    seed: int = typer.Option(0, help="Random seed of the draw"),
    neighbors: int = typer.Option(
        1, "--neighbors", "--neighbours", help="Number of neighbors that vote for a sense"
    ),
    json: Optional[Path] = JSON_FILE,
    html: Optional[Path] = HTML,
    force: bool = FORCE,
) -> None:
    """Train and evaluate a probe on each layer.

    A probe is a logistic regression. Its scores show what the layer knows. For senses, it also
    scores the nearest neighbor among the training occurrences of the same word (ignoring case).

    Example: python -m spacy elmo probe pretraining/model-best train.spacy test.spacy --task tag
    """
    from ..analysis.probes import probe
    from ..pipeline.load import read_pipeline

    check_new(json, html, force=force)
    nlp = read_pipeline(model)
    inputs = None if layers is None else [name.strip() for name in layers.split(",")]
    report = probe(
        nlp, train, test, task, inputs=inputs, limit=limit, seed=seed, neighbors=neighbors
    )
    title, read = f"Probes of {task}", (model, train, test)
    put_report(report, _print, json, html, title=title, scores=[None], read=read)


def _print(report: "ProbeReport") -> None:
    scores = list(report.rows[0].scores)
    table = []
    for row in report.rows:
        shown = [f"{row.scores[score]:.2%}" for score in scores]
        table.append((row.method, row.input or "-", *shown, f"{row.seconds:.1f}"))
    header = ("", "reads", *(COLUMNS[score] for score in scores), "seconds")
    print_table(table, header, ("l", "l", *"r" * (len(header) - 2)))
    msg.text(
        f"{report.task}: {report.n_labels:,} labels; trained on {report.n_train:,}, tested on "
        f"{report.n_test:,} ({report.n_unseen:,} with a label that is not in the training data); "
        f"{report.embedding_seconds:.0f} seconds for the vectors"
    )
    for row in report.rows:
        if not row.converged:
            msg.warn(f"{row.method}, {row.input}: did not converge")
