"""Learning curve of a pretraining run."""

from pathlib import Path

import srsly
import typer
from wasabi import msg

from .plotting import looks, picture, ticker


def draw_learning_curve(metrics: Path, output: Path) -> None:
    """Draw held-out perplexity over the number of tokens read.

    metrics (Path): metrics.jsonl of the run.
    output (Path): The picture.
    RAISES (ValueError): The file contains no evaluation.
    """
    records = [record for record in srsly.read_jsonl(metrics) if record["perplexity"]["mean"]]
    if not records:
        raise ValueError(f"{metrics} contains no evaluation")
    tokens = [record["tokens"] for record in records]
    last = records[-1]
    with picture(output, 7, 4) as figure:
        axes = figure.add_subplot()
        for name, look in zip(("mean", "forward", "backward"), looks()):
            values = [record["perplexity"][name] for record in records]
            axes.plot(tokens, values, **look.of_line, label=name)
        axes.annotate(
            f"{last['perplexity']['mean']:.1f}",
            (tokens[-1], last["perplexity"]["mean"]),
            textcoords="offset points",
            xytext=(0, -14),
            ha="center",
        )
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(ticker.ScalarFormatter())
        axes.yaxis.set_minor_formatter(ticker.ScalarFormatter())
        axes.xaxis.set_major_formatter(ticker.EngFormatter())
        axes.set_xlabel("tokens seen")
        axes.set_ylabel("held-out perplexity (full softmax)")
        axes.set_title(f"{last['tokens']:,} tokens")
        axes.grid(which="both")
        axes.legend()


def main(
    metrics: Path = typer.Argument(..., help="metrics.jsonl of a run", exists=True),
    output: Path = typer.Argument(..., help="Picture to write: .svg, .png or .pdf"),
) -> None:
    """Draw held-out perplexity over the number of tokens read."""
    try:
        draw_learning_curve(metrics, output)
    except ValueError as error:
        msg.fail(str(error), exits=1)


if __name__ == "__main__":
    typer.run(main)
