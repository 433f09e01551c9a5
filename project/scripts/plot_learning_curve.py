"""The learning curve of a pretraining run, as a picture."""

from pathlib import Path

import srsly
import typer
from wasabi import msg


def main(
    metrics: Path = typer.Argument(..., help="metrics.jsonl of a run", exists=True),
    output: Path = typer.Argument(..., help="Picture to write: .svg, .png or .pdf"),
) -> None:
    """Draw held-out perplexity over the tokens seen."""
    try:
        from matplotlib.figure import Figure
        from matplotlib.ticker import EngFormatter, ScalarFormatter
    except ImportError:
        msg.fail("matplotlib draws the curve: pip install 'spacy-elmo[analysis]'", exits=1)
    records = [record for record in srsly.read_jsonl(metrics) if record["perplexity"]["mean"]]
    if not records:
        msg.fail(f"{metrics} holds no evaluation", exits=1)
    tokens = [record["tokens"] for record in records]
    # A background of its own keeps the picture readable on a dark page.
    figure = Figure(figsize=(7, 4), facecolor="white", layout="constrained")
    axes = figure.add_subplot()
    for name, style, marker in (
        ("forward", "--", "^"),
        ("backward", ":", "v"),
        ("mean", "-", "o"),
    ):
        values = [record["perplexity"][name] for record in records]
        axes.plot(tokens, values, style, marker=marker, markersize=4, label=name)
    last = records[-1]
    axes.annotate(
        f"{last['perplexity']['mean']:.1f}",
        (tokens[-1], last["perplexity"]["mean"]),
        textcoords="offset points",
        xytext=(0, -14),
        ha="center",
    )
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(ScalarFormatter())
    axes.yaxis.set_minor_formatter(ScalarFormatter())
    axes.xaxis.set_major_formatter(EngFormatter())
    axes.set_xlabel("tokens seen")
    axes.set_ylabel("held-out perplexity (full softmax)")
    axes.set_title(
        f"{last['tokens']:,} tokens, {last['tokens_per_second']:,.0f} tokens/s, "
        f"{last['elapsed'] / 60:.0f} minutes"
    )
    axes.grid(alpha=0.3, which="both")
    axes.legend()
    output.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(output, dpi=150)
    msg.good(f"Wrote {output}")


if __name__ == "__main__":
    typer.run(main)
