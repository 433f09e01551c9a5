"""This script writes the project's results as Markdown tables into a page, between
`<!-- results:NAME -->` and `<!-- /results:NAME -->`, where NAME is an experiment, or "gain": what
ELMo gains on each task."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, get_args

import typer
from wasabi import msg

from spacy_elmo.files import atomic_write

from ..experiments.runs import Experiment, Run
from ..experiments.trials import MODELS
from .results import (
    SCORES,
    group,
    in_percent,
    load,
    shown_scores,
    spoken,
    summarize,
)

# What stands across the top; of other experiments all scores that are shown.
ACROSS = {"sample_efficiency": "share", "mix": "variant", "probe": "variant"}
HEADERS = {"senses": {"task": "method", "variant": "reads"}}
# What "gain" compares, and on which experiments.
GAIN = "gain"
COMPARED = ("tok2vec", "input")
TASKS = ("ner", "textcat", "tagger", "srl", "crf", "bcn", "coref", "textpair", "qa")
MARK = re.compile(r"<!-- (/?)results:(\S+) -->")


def table_of(runs: list[Run]) -> str:
    """The table of an experiment, and what its cells are."""
    field = ACROSS.get(runs[0].experiment)
    table = _by_score(runs) if field is None else _by_field(runs, field)
    several = any(
        len(found) > 1 for found in group(runs, "data", "task", "variant", "share").values()
    )
    spread = "mean and standard deviation over the seeds" if several else "one seed"
    return f"{table}\n\nIn percent; {spread}."


def _by_score(runs: list[Run]) -> str:
    """A row a variant, a column a score."""
    fields = _fields(runs, "data", "task", "variant")
    scores = shown_scores(runs)
    rows = [
        [*names, *(in_percent(summarize(found, score)) for score in scores), _seeds([found])]
        for names, found in group(runs, *fields).items()
    ]
    headers = HEADERS.get(runs[0].experiment, {})
    left = [headers.get(name, name) for name in fields]
    return _table(left, [*(SCORES[score] for score in scores), "seeds"], rows)


def _by_field(runs: list[Run], field: str) -> str:
    """A column a value of the field; in the cells the score that counts."""
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
    """A row a corpus: the score that counts without ELMo and with it, and the difference."""
    rows = []
    for (experiment, data), found in group(
        (run for run in runs if run.experiment in TASKS), "experiment", "data"
    ).items():
        variants = dict(group(found, "variant"))
        score = shown_scores(found)[0]
        pair = [summarize(variants.get((name,), []), score) for name in COMPARED]
        if None in pair:
            continue
        without, elmo = pair
        gain = f"{100 * (elmo.mean - without.mean):+.1f}"
        cells = [in_percent(without), in_percent(elmo), gain]
        own = f", {spoken(experiment)}" if experiment in MODELS else ""
        seeds = _seeds(variants[name,] for name in COMPARED)
        rows.append([spoken(data) + own, SCORES[score], *cells, seeds])
    table = _table(["data", "score"], [*map(spoken, COMPARED), "gain", "seeds"], rows)
    return f"{table}\n\nIn percent; mean and standard deviation over the seeds."


def tables_of(runs: list[Run]) -> dict[str, str]:
    """All tables, by their names."""
    tables = {name: table_of(found) for (name,), found in group(runs, "experiment").items()}
    return {**tables, GAIN: gain_table(runs)}


def _fields(runs: list[Run], *names: str) -> list[str]:
    """Those fields that any run has."""
    return [name for name in names if any(getattr(run, name) for run in runs)]


def _seeds(cells: Iterable[list[Run]]) -> str:
    """How many seeds a row's cells have."""
    numbers = sorted({len({run.seed for run in cell}) for cell in cells})
    return str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"


def _table(left: Sequence[str], right: Sequence[str], rows: list[list[Any]]) -> str:
    """Names on the left, figures on the right."""
    lines = [[*left, *right], ["---"] * len(left) + ["---:"] * len(right)]
    lines += [[spoken(str(cell)) or "-" for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def fill(text: str, tables: dict[str, str]) -> str:
    """Put tables between their marks; where there is none for a mark, all stays as it is.

    RAISES (ValueError): A mark is unknown, or one of a pair is missing.
    """
    marks = list(MARK.finditer(text))
    known = (*get_args(Experiment), GAIN)
    for mark in marks:
        if mark[2] not in known:
            raise ValueError(
                f"{mark[0]}: there is no such experiment; there are {', '.join(known)}"
            )
    parts, done = [], 0
    for start, end in zip(marks[::2], marks[1::2]):
        if start[1] or not end[1] or start[2] != end[2]:
            raise ValueError(f"{start[0]} is followed by {end[0]}: they are no pair")
        parts.append(text[done : start.end()])
        done = start.end()
        if start[2] in tables:
            parts.append(f"\n\n{tables[start[2]]}\n\n")
            done = end.start()
    if len(marks) % 2:
        raise ValueError(f"{marks[-1][0]} is not followed by its end")
    return "".join([*parts, text[done:]])


def main(
    pages: list[Path] = typer.Argument(..., help="Markdown files to change"),
    metrics: Path = typer.Option(Path("metrics"), help="Folder whose runs/ has the figures"),
) -> None:
    """Renew the tables of results in Markdown files."""
    try:
        tables = tables_of(load(metrics / "runs"))
        for page in pages:
            if not page.is_file():
                msg.warn(f"{page}: there is no such page")
                continue
            before = page.read_text("utf8")
            after = fill(before, tables)
            if after == before:
                msg.info(f"{page}: nothing is new")
            else:
                atomic_write(page, after)
                msg.good(f"Wrote {page}")
    except (ValueError, OSError) as error:
        msg.fail(str(error), exits=1)


if __name__ == "__main__":
    typer.run(main)
