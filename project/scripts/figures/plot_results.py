"""Pictures of the project's results, drawn from the runs in metrics/."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Optional

import typer
from wasabi import msg

from ..experiments.runs import Run
from ..experiments.trials import GAINS, TRANSFORMERS
from .plot_learning_curve import draw_learning_curve
from .plotting import TEXT, Axes, Figure, Look, looks, picture, ticker
from .results import (
    COMPARED,
    SCORES,
    Summary,
    compared,
    damage_kinds,
    damage_points,
    distinct,
    group,
    load,
    shown_scores,
    spoken,
    summarize,
    summary,
)

FIXED = ("average", "top", "layer_0", "layer_1")  # Variants with fixed layer weights.
PLAIN = ("ner", "textcat", "tagger")  # Titles of these experiments are only the corpus.
MIXED = ("average", "concat")  # Inputs of a probe that combine the layers.


def draw_sample_efficiency(runs: list[Run], output: Path) -> None:
    """Draw the score over the share of training data, one panel per corpus (paper: figure 1)."""
    panels = group(runs, "data")
    look_of = _variant_looks(runs)
    with picture(output, 1 + 4 * len(panels), 3.6) as figure:
        all_axes = figure.subplots(1, len(panels), squeeze=False).flat
        for axes, ((data,), found) in zip(all_axes, panels.items()):
            score = shown_scores(found)[0]
            for (variant,), line in group(found, "variant").items():
                points = dict(sorted(_points(line, "share", score).items()))
                _draw_line(axes, points, spoken(variant), look_of[variant].of_line)
            axes.set_xscale("log")
            axes.set_xticks(sorted({run.share for run in found}))
            axes.xaxis.set_minor_locator(ticker.NullLocator())
            axes.xaxis.set_major_formatter(ticker.PercentFormatter(1, decimals=0, symbol=" %"))
            axes.set_xlabel("share of the training sentences")
            axes.set_ylabel(SCORES[score])
            axes.set_title(spoken(data))
        _add_legend(figure)


def draw_updates(runs: list[Run], output: Path) -> None:
    """Draw the dev score over the training steps, without and with ELMo (paper: section 5.4).

    There is one panel per corpus and one line per seed.
    """
    panels = [
        both
        for both in compared(runs)
        if all(any(run.history for run in found) for found in both.pair)
    ]
    if not panels:
        msg.info("updates: no corpus has runs with a history both without and with ELMo")
        return
    n_columns = min(len(panels), 3)
    n_rows = -(-len(panels) // n_columns)
    with picture(output, 3.8 * n_columns, 3.2 * n_rows) as figure:
        all_axes = figure.subplots(n_rows, n_columns, squeeze=False).flat
        for axes, both in zip(all_axes, panels):
            for variant, found, look in zip(COMPARED, both.pair, looks()):
                for number, run in enumerate(run for run in found if run.history):
                    steps, scores = zip(*run.history)
                    label = None if number else spoken(variant)
                    axes.plot(steps, scores, label=label, **{**look.of_line, "marker": ""})
            axes.set_xlabel("steps")
            axes.set_ylabel(f"{SCORES[shown_scores(both.pair[0])[0]]}, dev")
            axes.set_title(both.name)
        for axes in all_axes[len(panels) :]:
            axes.set_visible(False)
        _add_legend(figure)


def draw_robustness(runs: list[Run], output: Path) -> None:
    """Draw the score by share of damaged words: a row per corpus, a column per kind of damage."""
    corpora = group(runs, "data")
    look_of = _variant_looks(runs)
    n_columns = max(len(damage_kinds(found)) for found in corpora.values())
    with picture(output, 3.4 * n_columns, 3.0 * len(corpora)) as figure:
        all_axes = figure.subplots(len(corpora), n_columns, squeeze=False)
        for row, ((data,), found) in zip(all_axes, corpora.items()):
            for axes, kind in zip(row, damage_kinds(found)):
                for (variant,), each in group(found, "variant").items():
                    line = look_of[variant].of_line
                    _draw_line(axes, damage_points(each, kind), spoken(variant), line)
                axes.xaxis.set_major_formatter(ticker.PercentFormatter(1, decimals=0, symbol=" %"))
                axes.set_xlabel("damaged words")
                axes.set_ylabel(SCORES[shown_scores(found)[0]])
                axes.set_title(f"{spoken(data)}, {kind}")
        _add_legend(figure)


def draw_layer_weights(runs: list[Run], output: Path) -> None:
    """Draw the layer weights that each component learned (paper: figure 2)."""
    bars = _learned_weights(runs)
    n_layers = max(len(weights) for bar in bars.values() for weights in bar)
    height = 0.8 / n_layers
    with picture(output, 7, 1.2 + 0.2 * (n_layers + 1) * len(bars)) as figure:
        axes = figure.add_subplot()
        for layer, look in zip(range(n_layers), looks()):
            found = [
                (place, summary([weights[layer] for weights in bar if layer < len(weights)]))
                for place, bar in enumerate(bars.values())
            ]
            axes.barh(
                [place - 0.4 + (layer + 0.5) * height for place, one in found if one],
                [one.mean for _, one in found if one],
                0.9 * height,
                xerr=[one.deviation or 0.0 for _, one in found if one],
                ecolor=TEXT,
                label=f"layer {layer}",
                **look.of_bar,
            )
        axes.axvline(1 / n_layers, color=TEXT, linestyle="--", linewidth=1)
        axes.set_yticks(range(len(bars)), list(bars))
        axes.set_ylim(len(bars) - 0.4, -0.6)
        axes.set_xlim(left=0)
        axes.grid(visible=False, axis="y")
        axes.set_xlabel("weight; dashed: the plain average")
        figure.legend(loc="outside upper center", ncols=n_layers)


def draw_layer_probes(runs: list[Run], output: Path) -> None:
    """Draw the probe scores of each layer, one panel per task (paper: tables 5 and 6).

    Each corpus of senses has one panel, with one line per method.
    """
    panels = {
        **group([run for run in runs if run.experiment == "probe"], "task", "data"),
        **{
            ("senses", data): found
            for (data,), found in group(
                [run for run in runs if run.experiment == "senses"], "data"
            ).items()
        },
    }
    n_columns = math.ceil(math.sqrt(len(panels)))
    n_rows = -(-len(panels) // n_columns)
    with picture(output, 3.8 * n_columns, 3.2 * n_rows) as figure:
        all_axes = figure.subplots(n_rows, n_columns, squeeze=False).flat
        for axes, (names, found) in zip(all_axes, panels.items()):
            _draw_probe(axes, found)
            axes.set_title(_title(*names))
        for axes in all_axes[len(panels) :]:
            axes.set_visible(False)


def _draw_probe(axes: Axes, runs: list[Run]) -> None:
    """Draw the panel of a probe.

    A line per method shows the scores of the layers; separate points show the mixes. A horizontal
    line shows the best baseline that reads no layer.
    """
    score = shown_scores(runs)[0]
    layers = sorted({run.variant for run in runs if run.variant.startswith("layer ")})
    mixed = [name for name in MIXED if any(run.variant == name for run in runs)]
    places = {name: place for place, name in enumerate([*layers, *mixed])}
    lines = group([run for run in runs if run.variant in places], "experiment", "task")
    style = looks()
    for ((experiment, task), found), look in zip(lines.items(), style):
        points = _points(found, "variant", score)
        label = task if experiment == "senses" else "logistic regression"
        line = {places[name]: points[name] for name in layers if name in points}
        _draw_line(axes, line, label, look.of_line)
        apart = {places[name]: points[name] for name in mixed if name in points}
        _draw_line(axes, apart, None, {**look.of_line, "linestyle": "none"})
    without = group([run for run in runs if run.variant not in places], "task", "variant")
    levels = [(summarize(found, score), names) for names, found in without.items()]
    if levels:
        level, (task, variant) = max(levels, key=lambda one: one[0].mean)
        look = next(style)
        axes.axhline(level.mean, color=look.color, linestyle=look.line, label=variant or task)
    axes.set_xticks(range(len(places)), list(places))
    axes.set_ylabel(SCORES[score])
    axes.legend(fontsize="small")


def _points(runs: list[Run], field: str, score: str) -> dict[Any, Summary]:
    """Return the summary of a score over the runs with each value of a field, by value."""
    found = {value: summarize(at, score) for (value,), at in group(runs, field).items()}
    return {value: one for value, one in found.items() if one}


def _draw_line(
    axes: Axes, points: Mapping[float, Summary], label: Optional[str], look: dict[str, Any]
) -> None:
    """Draw a line of means, with standard deviations where there are several runs."""
    spread = [one.deviation or 0.0 for one in points.values()]
    means = [one.mean for one in points.values()]
    axes.errorbar(list(points), means, yerr=spread, capsize=2, label=label, **look)


def _learned_weights(runs: list[Run]) -> dict[str, list[list[float]]]:
    """Return the layer weights of each mix by title, with one list per seed."""
    bars: dict[str, list[list[float]]] = {}
    for run in distinct(runs):
        for component, mixes in run.mixes.items():
            for number, mix in enumerate(mixes):
                place = ("input", "output")[number] if len(mixes) == 2 else ""
                experiment = "" if run.experiment in PLAIN else run.experiment
                several = component if len(run.mixes) > 1 else ""
                above = _title(experiment, run.data, several)
                below = ": ".join(filter(None, (spoken(run.variant), place)))
                bars.setdefault(f"{above}\n{below}", []).append(mix.weights)
    return bars


def _variant_looks(runs: list[Run]) -> dict[str, Look]:
    """Return the look of each variant, the same in all panels, also if a panel lacks a variant."""
    return {variant: look for (variant,), look in zip(group(runs, "variant"), looks())}


def _add_legend(figure: Figure) -> None:
    """Add one legend for all panels, above them: in a panel, it would lie over the lines."""
    handles = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels()):
            handles.setdefault(label, handle)
    figure.legend(handles.values(), handles, loc="outside upper center", ncols=2)


def _title(*parts: str) -> str:
    return ", ".join(spoken(part) for part in parts if part)


PICTURES = {
    "sample_efficiency": (
        draw_sample_efficiency,
        lambda run: run.experiment == "sample_efficiency",
    ),
    "updates": (
        draw_updates,
        lambda run: run.experiment in GAINS and run.variant in COMPARED and run.history,
    ),
    "layer_weights": (
        draw_layer_weights,
        lambda run: (
            run.mixes
            and run.experiment != "sample_efficiency"
            and run.variant not in (*FIXED, *TRANSFORMERS)
        ),
    ),
    "robustness": (draw_robustness, lambda run: run.experiment == "robustness" and run.robustness),
    "historical": (draw_robustness, lambda run: run.experiment == "historical" and run.robustness),
    "layer_probes": (draw_layer_probes, lambda run: run.experiment in ("probe", "senses")),
}


def main(
    metrics: Path = typer.Argument(..., help="Output folder; its subfolder runs/ is read"),
    learning_curve: Optional[Path] = typer.Option(None, help="metrics.jsonl of a pretraining run"),
) -> None:
    """Draw all pictures for which there are results."""
    try:
        runs = load(metrics / "runs")
        if learning_curve is not None:
            draw_learning_curve(learning_curve, metrics / "learning_curve.svg")
        for name, (draw, belongs) in PICTURES.items():
            found = [run for run in runs if belongs(run)]
            if found:
                draw(found, metrics / f"{name}.svg")
            else:
                msg.info(f"{name}: no results in {metrics / 'runs'}")
    except (ValueError, OSError) as error:
        msg.fail(str(error), exits=1)


if __name__ == "__main__":
    typer.run(main)
