"""Probes of the language model's layers, stored as runs."""

from collections.abc import Callable
from pathlib import Path
from typing import Optional

import typer
from wasabi import msg

from spacy_elmo.analysis.probes import ProbeReport, probe
from spacy_elmo.cli.errors import no_traceback
from spacy_elmo.pipeline.load import elmo_pipe, read_pipeline

from .runs import Run, folder_of, write_runs

QUICK_LIMIT = 2_000


def to_runs(report: ProbeReport, *, data: str, seed: int, perplexity: Optional[float]) -> list[Run]:
    """Convert a report to runs, one per row.

    In experiment "senses", the task is the method and the variant is the input. In experiment
    "probe", the variant is the input, or the name of the baseline, which has no input.

    report (ProbeReport): The report.
    data (str): Name of the corpus.
    seed (int): Random seed of the probe.
    perplexity (Optional[float]): Perplexity of the language model.
    RETURNS (List[Run]): The runs.
    """
    is_senses = report.task.startswith("senses:")
    return [
        Run(
            experiment="senses" if is_senses else "probe",
            data=data,
            task=row.method if is_senses else report.task,
            variant=row.input if is_senses or row.input else row.method,
            seed=seed,
            scores=row.scores,
            seconds=round(row.seconds, 1),
            model={"perplexity": perplexity},
        )
        for row in report.rows
    ]


def same_probe(run: Run) -> Callable[[Run], bool]:
    """Return a function that tells whether another run comes from the same probe as this run.

    A probe of senses writes runs of several tasks, because each method counts as a task.
    """
    fields = ("data", "seed") if run.experiment == "senses" else ("data", "seed", "task")
    return lambda other: all(getattr(other, name) == getattr(run, name) for name in fields)


def main(
    model: str = typer.Argument(..., help="Pipeline with an elmo pipe, or weights"),
    data: str = typer.Argument(..., help="Name of the corpus in the results"),
    train: Path = typer.Argument(..., help="Corpus to train on", exists=True),
    test: Path = typer.Argument(..., help="Corpus to test on", exists=True),
    task: list[str] = typer.Option(..., help="Task of `spacy elmo probe`; can be repeated"),
    seed: list[int] = typer.Option([0], help="Random seed of the sample; can be repeated"),
    limit: int = typer.Option(50_000, help="Maximum number of items per corpus; 0 for all"),
    plan: str = typer.Option("full", help="full, or quick (fewer items)"),
    runs: Optional[Path] = typer.Option(
        None, help="Output folder of the results; default: metrics/runs or metrics/quick"
    ),
) -> None:
    """Probe the layers of a language model on each task, with each seed."""
    output = folder_of(plan, runs)
    limit = min(limit or QUICK_LIMIT, QUICK_LIMIT) if plan == "quick" else limit
    with no_traceback():
        nlp = read_pipeline(model)
        perplexity = elmo_pipe(nlp).bilm.provenance.get("perplexity", {}).get("mean")
        for name in task:
            for number in seed:
                report = probe(nlp, train, test, name, limit=limit, seed=number)
                found = to_runs(report, data=data, seed=number, perplexity=perplexity)
                write_runs(found, output, outdated=same_probe(found[0]))
                msg.good(f"{output / found[0].experiment}.jsonl: {name}, seed {number}")


if __name__ == "__main__":
    typer.run(main)
