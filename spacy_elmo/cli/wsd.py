"""Command `python -m spacy elmo wsd`."""

from pathlib import Path
from typing import TYPE_CHECKING, Optional

import typer

from ..files.terminal import msg
from .errors import check_new
from .options import FORCE, HTML, JSON_FILE, LAYERS, MODEL
from .output import put_report

if TYPE_CHECKING:
    from ..analysis.probes import ProbeReport


def wsd_cli(
    model: str = MODEL,
    train: Path = typer.Argument(
        ...,
        help="Training text with senses: NAME.data.xml with NAME.gold.key.txt beside it, or .jsonl",
    ),
    test: Path = typer.Argument(..., help="Test text with senses, in the same formats"),
    backoff: Optional[str] = typer.Option(
        None,
        help="'frequent': break ties by frequency in TRAIN. A folder of WordNet's database, such "
        "as /usr/share/wordnet: also use WordNet's first sense for words that are not in TRAIN",
    ),
    layers: Optional[str] = LAYERS,
    json: Optional[Path] = JSON_FILE,
    html: Optional[Path] = HTML,
    force: bool = FORCE,
) -> None:
    """Evaluate layers on word sense disambiguation.

    Each sense has a mean vector in TRAIN. The predicted sense is the sense with the nearest mean
    vector by cosine (table 5 of the paper).

    Example: python -m spacy elmo wsd en_small semcor.data.xml ALL.data.xml
    """
    from ..analysis.wsd import disambiguate
    from ..pipeline.load import read_pipeline

    check_new(json, html, force=force)
    nlp = read_pipeline(model)
    inputs = None if layers is None else [name.strip() for name in layers.split(",")]
    report = disambiguate(nlp, train, test, inputs=inputs, backoff=backoff)
    scores, read = report.rows[0].scores, (model, train, test)
    put_report(report, _print, json, html, title="Word senses", scores=scores, read=read)


def _print(report: "ProbeReport") -> None:
    """Print the report as a table: a row per test set, a column per layer or other method."""
    header = ("F1", *(row.input or row.method.removesuffix(" sense") for row in report.rows))
    names = report.rows[0].scores
    table = [(name, *(f"{row.scores[name]:.1%}" for row in report.rows)) for name in names]
    msg.table(table, header=header, divider=True, aligns=("l", *"r" * len(report.rows)), spacing=2)
    msg.text(
        f"{report.n_labels:,} senses, learned from {report.n_train:,} words; {report.n_test:,} "
        f"words to predict ({report.n_unseen:,} without a learned sense); "
        f"{report.embedding_seconds:.0f} seconds for the vectors"
    )
