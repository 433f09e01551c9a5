"""The figures of the pages are those of the project's runs."""

import re

import pytest

from helpers.page_blocks import ROOT
from scripts.figures.results import group, in_percent, load, summarize
from scripts.figures.results_tables import MARK, fill, tables_of

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FIGURE = re.compile(r"\d+\.\d ± \d+\.\d")


@pytest.fixture(scope="module")
def runs():
    return load(ROOT / "project" / "metrics" / "runs")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_tables(page, runs):
    """`python scripts/results_tables.py PAGE`, in project/, would change nothing."""
    text = page.read_text("utf8")
    tables = tables_of(runs)
    assert {mark[2] for mark in MARK.finditer(text)} <= set(tables)
    assert fill(text, tables) == text


def test_all_tables_are_shown(runs):
    shown = {mark[2] for page in PAGES for mark in MARK.finditer(page.read_text("utf8"))}
    assert shown == set(tables_of(runs))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_figures_in_sentences(page, runs):
    """A mean with its deviation is one of some run's score, wherever it stands."""
    names = ("experiment", "data", "task", "variant", "share")
    known = {
        in_percent(summarize(found, score))
        for found in group(runs, *names).values()
        for score in found[0].scores
    }
    assert set(FIGURE.findall(page.read_text("utf8"))) <= known
