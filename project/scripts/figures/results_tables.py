"""Markdown tables of the results, written between marks in a page.

The marks are `<!-- results:NAME -->` and `<!-- /results:NAME -->`. NAME is an experiment, or:

* gain_all: gain by ELMo on each corpus
* gain: the rows of gain_all that README.md shows
* six_tasks: gain by ELMo on the paper's tasks, with the paper's models
* updates: number of training steps to the same dev score, without and with ELMo
"""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Optional, get_args

import typer
from wasabi import msg

from spacy_elmo.files import atomic_write

from ..experiments.runs import Experiment, Run
from ..experiments.trials import LANGUAGE_MODELS, NAMED_MODELS, ROBUSTNESS
from .results import (
    COMPARED,
    SCORES,
    Compared,
    compared,
    damage_kinds,
    damage_points,
    group,
    in_percent,
    load,
    shown_scores,
    spoken,
    summarize,
    updates,
)

# Field whose values are the columns, by experiment. Other experiments have a column per score.
ACROSS = {
    "sample_efficiency": "share",
    **dict.fromkeys(("mix", "probe", "transformer"), "variant"),
}
HEADERS = {"senses": {"task": "method", "variant": "reads"}}
# Tables over all experiments in GAINS, with the two variants in COMPARED.
GAIN, GAIN_ALL, SIX_TASKS, UPDATES = "gain", "gain_all", "six_tasks", "updates"
DAMAGE = tuple(f"{experiment}_damage" for experiment in ROBUSTNESS)
# Experiments in README.md: spaCy's own components, and the task with the longest texts.
IN_README = ("ner", "textcat", "tagger", "qa")
# Rows of the paper's table 1, by experiment: the task, and the model used here.
PAPER_TASKS = {
    "qa": ("question answering", "BiDAF and self-attention"),
    "textpair": ("entailment", "ESIM"),
    "srl": ("semantic roles", "highway LSTM"),
    "coref": ("coreference", "span ranking"),
    "crf": ("named entities", "biLSTM-CRF"),
    "bcn": ("sentiment", "BCN"),
}
# Experiments that compare language models.
BY_MODEL = ("two_hours", "domain", "language_models")
MARK = re.compile(r"<!-- (/?)results:(\S+) -->")


def table_of(runs: list[Run]) -> str:
    """Return the table of an experiment, with a line that explains the cells."""
    field = ACROSS.get(runs[0].experiment)
    table = _by_score(runs) if field is None else _by_field(runs, field)
    several = any(
        len(found) > 1 for found in group(runs, "data", "task", "variant", "share").values()
    )
    spread = "mean and standard deviation over the seeds" if several else "one seed"
    return f"{table}\n\nScores in percent; {spread}."


def _by_score(runs: list[Run]) -> str:
    """Return a table with one row per variant and one column per score."""
    fields = _fields(runs, "data", "task", "variant")
    scores = shown_scores(runs)
    shows_perplexity = runs[0].experiment in BY_MODEL or _has_several_models(runs)
    rows = [
        [
            *names,
            *([_perplexity(found)] if shows_perplexity else []),
            *(in_percent(summarize(found, score)) for score in scores),
            _seeds([found]),
        ]
        for names, found in group(runs, *fields).items()
    ]
    headers = HEADERS.get(runs[0].experiment, {})
    left = [headers.get(name, name) for name in fields]
    right = [*(["perplexity"] if shows_perplexity else []), *(SCORES[score] for score in scores)]
    return _table(left, [*right, "seeds"], rows)


def _perplexity(runs: list[Run]) -> str:
    """Format the perplexity of the runs' language model; "-" if it is unknown."""
    found = runs[0].model.get("perplexity")
    return f"{found:.1f}" if found else "-"


def _has_several_models(runs: Iterable[Run]) -> bool:
    """Return whether the runs used different versions of the language model of `--model`."""
    own = (*LANGUAGE_MODELS, *NAMED_MODELS)
    return len({_perplexity([run]) for run in runs if run.variant not in own} - {"-"}) > 1


def _by_field(runs: list[Run], field: str) -> str:
    """Return a table of the main score, with one column per value of the field."""
    fields = [name for name in _fields(runs, "data", "task", "variant") if name != field]
    columns = list(dict.fromkeys(getattr(run, field) for run in runs))
    if field == "share":
        columns.sort()
    rows = []
    for names, found in group(runs, *fields).items():
        score = shown_scores(found)[0]
        cells = {value: at for (value,), at in group(found, field).items()}
        figures = [in_percent(summarize(cells.get(value, []), score)) for value in columns]
        rows.append([*names, SCORES[score], *figures, _seeds(cells.values())])
    names = [f"{100 * value:g} %" if field == "share" else spoken(value) for value in columns]
    return _table([*fields, "score"], [*names, "seeds"], rows)


def gain_table(runs: list[Run]) -> str:
    """Return a table of the gain by ELMo, one row per corpus.

    The columns are the main score without and with ELMo, the difference, and the error reduction.
    """
    return _gain_table(["data"], [([found.name], found) for found in compared(runs)])


def six_tasks_table(runs: list[Run]) -> Optional[str]:
    """Return a table like the paper's table 1; None if none of its tasks has results."""
    order = list(PAPER_TASKS)
    tried = [found for found in compared(runs) if found.experiment in order]
    tried.sort(key=lambda found: order.index(found.experiment))
    rows = [([*PAPER_TASKS[found.experiment], spoken(found.data)], found) for found in tried]
    return _gain_table(["task", "model", "data"], rows) if rows else None


def _gain(found: Compared) -> list[str]:
    """Return the cells of a row of `_gain_table`, without the row's names and perplexity."""
    score = shown_scores(found.pair[0])[0]
    without, elmo = (summarize(runs, score) for runs in found.pair)
    gain = elmo.mean - without.mean
    relative = f"{100 * gain / (1 - without.mean):.1f} %" if without.mean < 1 else "-"
    cells = [in_percent(without), in_percent(elmo), f"{100 * gain:+.1f}", relative]
    return [SCORES[score], *cells, _seeds(found.pair)]


def _gain_table(left: list[str], tried: list[tuple[list[str], Compared]]) -> str:
    rows = [[*names, *_gain(found)] for names, found in tried]
    right = [*map(spoken, COMPARED), "gain", "error reduction", "seeds"]
    if _has_several_models(run for _, found in tried for run in found.pair[1]):
        right.append("perplexity")
        for row, (_, found) in zip(rows, tried):
            row.append(_perplexity(found.pair[1]))
    table = _table([*left, "score"], right, rows)
    return f"{table}\n\nScores in percent; mean and standard deviation over the seeds."


def updates_table(runs: list[Run]) -> Optional[str]:
    """Return a table of the steps to the best dev score without ELMo (paper: section 5.4).

    RETURNS (Optional[str]): The table, with one row per corpus; None if no run has a history.
    """
    rows = []
    for both in compared(runs):
        found = updates(*both.pair)
        if found is None:
            continue
        passed = "never" if found.passed is None else f"{found.passed:,.0f}"
        cells = [f"{100 * found.best:.1f}", f"{found.reached:,.0f}", passed]
        rows.append([both.name, *cells, _seeds(both.pair)])
    if not rows:
        return None
    right = ["best dev score without ELMo", "steps to it", "steps with ELMo to pass it", "seeds"]
    return f"{_table(['data'], right, rows)}\n\nMeans over the seeds."


def damage_table(runs: list[Run]) -> str:
    """Make a table of scores by share of damaged words: one row per corpus, damage and variant."""
    rows, rates = [], []
    for (data,), of_data in group(runs, "data").items():
        for kind in damage_kinds(of_data):
            for (variant,), found in group(of_data, "variant").items():
                points = damage_points(found, kind)
                rates = [f"{100 * rate:g} %" for rate in points]
                figures = [f"{100 * point.mean:.1f}" for point in points.values()]
                rows.append([data, kind, variant, *figures, _seeds([found])])
    table = _table(["data", "damage", "variant"], [*rates, "seeds"], rows)
    score = SCORES[shown_scores(runs)[0]]
    return f"{table}\n\nMean {score} in percent, by share of damaged words."


def tables_of(runs: list[Run]) -> dict[str, str]:
    """Return all tables by name."""
    tables = {name: table_of(found) for (name,), found in group(runs, "experiment").items()}
    tables.pop("robustness", None)  # The table of damaged words contains these scores.
    several = {SIX_TASKS: six_tasks_table(runs), UPDATES: updates_table(runs)}
    found = {name: table for name, table in several.items() if table}
    for name, experiment in zip(DAMAGE, ROBUSTNESS):
        curves = [run for run in runs if run.experiment == experiment and run.robustness]
        if curves:
            found[name] = damage_table(curves)
    short = gain_table([run for run in runs if run.experiment in IN_README])
    return {**tables, GAIN: short, GAIN_ALL: gain_table(runs), **found}


def _fields(runs: list[Run], *names: str) -> list[str]:
    """Return the names of the fields that have a value in any run."""
    return [name for name in names if any(getattr(run, name) for run in runs)]


def _seeds(cells: Iterable[list[Run]]) -> str:
    """Return the number of seeds of a row's cells, or the range of these numbers."""
    numbers = sorted({len({run.seed for run in cell}) for cell in cells})
    return str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"


def _table(left: Sequence[str], right: Sequence[str], rows: list[list[Any]]) -> str:
    """Format a Markdown table, with names on the left and numbers on the right."""
    lines = [[*left, *right], ["---"] * len(left) + ["---:"] * len(right)]
    lines += [[spoken(str(cell)) or "-" for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def fill(text: str, tables: dict[str, str]) -> str:
    """Write tables between their marks. Without a table, the text between the marks stays.

    text (str): The page.
    tables (Dict[str, str]): The tables, by name.
    RETURNS (str): The new page.
    RAISES (ValueError): A mark has an unknown name, or the other mark of a pair is missing.
    """
    marks = list(MARK.finditer(text))
    known = (*get_args(Experiment), GAIN, GAIN_ALL, SIX_TASKS, UPDATES, *DAMAGE)
    for mark in marks:
        if mark[2] not in known:
            raise ValueError(
                f"{mark[0]}: no such experiment or table. Use one of {', '.join(known)}"
            )
    parts, done = [], 0
    for start, end in zip(marks[::2], marks[1::2]):
        if start[1] or not end[1] or start[2] != end[2]:
            raise ValueError(f"{start[0]} is followed by {end[0]}, which does not close it")
        parts.append(text[done : start.end()])
        done = start.end()
        if start[2] in tables:
            parts.append(f"\n\n{tables[start[2]]}\n\n")
            done = end.start()
    if len(marks) % 2:
        raise ValueError(f"{marks[-1][0]} is not closed. Add the second mark")
    return "".join([*parts, text[done:]])


def main(
    pages: list[Path] = typer.Argument(..., help="Markdown files to update"),
    metrics: Path = typer.Option(Path("metrics"), help="Folder with the subfolder runs/"),
) -> None:
    """Update the tables of results in Markdown files."""
    try:
        tables = tables_of(load(metrics / "runs"))
        for page in pages:
            if not page.is_file():
                msg.warn(f"{page} does not exist")
                continue
            before = page.read_text("utf8")
            after = fill(before, tables)
            if after == before:
                msg.info(f"{page}: no changes")
            else:
                atomic_write(page, after)
                msg.good(f"Wrote {page}")
    except (ValueError, OSError) as error:
        msg.fail(str(error), exits=1)


if __name__ == "__main__":
    typer.run(main)
