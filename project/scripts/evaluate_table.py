"""Print one table of the scores that `spacy evaluate --output` and accuracy.py wrote."""

from pathlib import Path

import srsly
import typer
from wasabi import msg

PERCENT = ("ents_p", "ents_r", "ents_f", "accuracy")


def main(
    metrics_dir: Path = typer.Argument(
        ..., help="Directory with one NAME.json a run", exists=True, file_okay=False
    ),
) -> None:
    """Print a line for each run. A column that no run has a score for is left out."""
    runs = {}
    for path in sorted(metrics_dir.glob("*.json")):
        try:
            scores = srsly.read_json(path)
        except ValueError as error:
            msg.fail("Can't read the scores", f"{path}: {error}", exits=1)
        if not isinstance(scores, dict):
            msg.fail("Expected an object of scores", str(path), exits=1)
        runs[path.stem] = scores
    if not runs:
        msg.fail("There are no JSON files", str(metrics_dir), exits=1)
    columns = [key for key in PERCENT if any(run.get(key) is not None for run in runs.values())]
    rows = []
    for name, run in runs.items():
        cells = ["" if run.get(key) is None else f"{100 * run[key]:.2f}" for key in columns]
        speed = run.get("speed")
        rows.append((name, *cells, "" if speed is None else f"{speed:,.0f}"))
    header = ("run", *columns, "words/s")
    msg.table(rows, header=header, divider=True, aligns=("l", *"r" * (len(header) - 1)))


if __name__ == "__main__":
    typer.run(main)
