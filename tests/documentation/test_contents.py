"""Settings, messages and figures in the pages and in the entry for spaCy's universe are true."""

import json
import re
import runpy

import pytest

from helpers.page_blocks import ROOT
from scripts.figures.results import group, in_percent, load, summarize
from scripts.figures.results_tables import MARK, fill, tables_of

# Settings


def test_the_page_of_settings_is_generated_from_the_code():
    """Run `python docs/_extensions/settings_page.py` if this fails."""
    script = runpy.run_path(str(ROOT / "docs" / "_extensions" / "settings_page.py"))
    page = script["PAGE"].read_text("utf8")
    assert {found[2] for found in script["TABLE"].finditer(page)} == script["SOURCES"].keys()
    assert script["fill"](page) == page
    assert "|  |" not in page, "a setting has no description"


# Messages


MESSAGE = re.compile(r"^\| `([^`]+)`(?! with| \(spaCy| \(`Uni)", re.MULTILINE)
MESSAGES = (ROOT / "docs" / "warnings.md").read_text("utf8").split("## Warnings in a pipeline")[1]
# Placeholders: words in capitals, `X` in quotes, and what is left out.
GAP = re.compile(r"'?\b(?:[A-Z]{2,}|[XY])\b'?|'\w+'|\.\.\.|only=|model-best|checkpoints|vocab\.txt")


@pytest.fixture(scope="module")
def code():
    """The package's code, with strings that go on in the next line joined."""
    files = sorted((ROOT / "spacy_elmo").rglob("*.py"))
    return re.sub(r'"\s*\n\s*f?"', "", "\n".join(file.read_text("utf8") for file in files))


@pytest.mark.parametrize("message", MESSAGE.findall(MESSAGES))
def test_messages_are_those_of_the_package(message, code):
    longest = max((piece.strip(" :,;()[]") for piece in GAP.split(message)), key=len)
    assert len(longest) > 5
    if longest not in code:  # an assert would print all code
        pytest.fail(f"no message of the package contains {longest!r}")


# Figures of the project's runs


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FIGURE = re.compile(r"\d+\.\d ± \d+\.\d")


@pytest.fixture(scope="module")
def runs():
    return load(ROOT / "project" / "metrics" / "runs")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_figures_are_those_of_the_runs(page, runs):
    """`python scripts/results_tables.py PAGE`, in project/, would change nothing.

    A mean with its deviation is one of some run's score, wherever it stands.
    """
    text = page.read_text("utf8")
    assert fill(text, tables_of(runs)) == text
    known = {
        in_percent(summarize(found, score))
        for found in group(runs, "experiment", "data", "task", "variant", "share").values()
        for score in found[0].scores
    }
    assert set(FIGURE.findall(text)) <= known


def test_all_tables_are_shown(runs):
    shown = {mark[2] for page in PAGES for mark in MARK.finditer(page.read_text("utf8"))}
    assert shown == set(tables_of(runs))


# The entry for spaCy's universe


# Keys that the README of spaCy's website asks for, without those of the repository's address.
KEYS = {"id", "title", "slogan", "description", "pip", "code_example", "category", "tags", "author"}
CATEGORIES = {"pipeline", "standalone", "models", "training", "research", "visualizers"}


def test_the_entry_for_the_universe_is_true(capsys):
    entry = json.loads((ROOT / "docs" / "universe.json").read_text("utf8"))
    assert entry.keys() >= KEYS
    assert set(entry["category"]) <= CATEGORIES
    exec("\n".join(entry["code_example"]), {})
    shapes, similarity = capsys.readouterr().out.splitlines()
    assert shapes == "(14, 256) (256,)"
    # Two senses, far from equal: equal words without a context would have 1.
    assert re.fullmatch(r"0\.[4-8]\d*", similarity)
