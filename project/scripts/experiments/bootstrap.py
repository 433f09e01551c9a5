"""Bootstrap interval of the gain by ELMo in coreference.

The test sets have few documents, so the gain depends on which documents they contain.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Optional

import numpy as np
import typer
from wasabi import msg

from spacy_elmo.tasks.coref.scorer import ClusterCounts, total_scores

from .runs import Run, folder_of, read_runs

COMPARED = ("tok2vec", "input")
SCORE = "coref_f"


def mean_score(runs: Sequence[Run], documents: np.ndarray) -> float:
    """Return the mean score of runs on the documents with these indices, which may repeat."""
    return float(np.mean([score_of(run, documents) for run in runs]))


def score_of(run: Run, documents: np.ndarray) -> float:
    """Return the score of a run on the documents with these indices, which may repeat."""
    counts = [{name: ClusterCounts(*of) for name, of in run.counts[i].items()} for i in documents]
    return float(total_scores(counts)[SCORE] or 0.0)


def interval(
    runs: Sequence[Run], others: Sequence[Run], n_samples: int, seed: int = 0
) -> tuple[float, float, float]:
    """Compute a bootstrap interval of the difference between two systems.

    Each sample draws as many test documents as there are, with replacement.

    runs (Sequence[Run]): Runs of one system, one per seed.
    others (Sequence[Run]): Runs of the other system on the same documents.
    n_samples (int): Number of samples.
    seed (int): Random seed of the samples.
    RETURNS (Tuple[float, float, float]): Gain of `others` over `runs` on all documents, and the
        limits that contain 95 % of the samples.
    RAISES (ValueError): The runs have different numbers of documents.
    """
    sizes = {len(run.counts) for run in (*runs, *others)}
    if len(sizes) != 1:
        raise ValueError(f"the runs have different numbers of documents: {sorted(sizes)}")
    (n,) = sizes
    rng = np.random.default_rng(seed)
    draws = [np.arange(n), *rng.integers(0, n, size=(n_samples, n))]
    gains = [mean_score(others, drawn) - mean_score(runs, drawn) for drawn in draws]
    low, high = np.quantile(gains[1:], [0.025, 0.975])
    return gains[0], float(low), float(high)


def main(
    plan: str = typer.Option("full", help="Plan of the results: full or quick"),
    runs: Optional[Path] = typer.Option(
        None, help="Folder of the results; default: metrics/runs or metrics/quick"
    ),
    samples: int = typer.Option(1000, min=1, help="Number of bootstrap samples"),
) -> None:
    """Print the gain by ELMo in coreference on each corpus, with its 95 % interval."""
    folder = folder_of(plan, runs)
    counted = [run for run in read_runs(folder) if run.counts]
    rows = []
    for data in dict.fromkeys(run.data for run in counted):
        without, with_elmo = (
            [run for run in counted if (run.data, run.variant) == (data, variant)]
            for variant in COMPARED
        )
        if without and with_elmo:
            found = interval(without, with_elmo, samples)
            n_runs = f"{len(without)}, {len(with_elmo)}"
            rows.append((data, n_runs, len(without[0].counts), *(f"{100 * x:.2f}" for x in found)))
    if not rows:
        msg.warn(f"{folder} has no runs of coreference with and without ELMo", exits=0)
    header = ("data", "runs", "documents", f"gain in {SCORE}", "from", "to")
    msg.table(rows, header=header, divider=True, aligns=("l", *"rrrrr"))


if __name__ == "__main__":
    typer.run(main)
