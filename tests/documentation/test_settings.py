"""The tables of docs/settings.md show what the code has."""

import importlib.util

from helpers.page_blocks import ROOT

SCRIPT = ROOT / "docs" / "_extensions" / "settings_page.py"


def test_tables():
    """Run `python docs/_extensions/settings_page.py` if this fails."""
    spec = importlib.util.spec_from_file_location("settings_page", SCRIPT)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    page = script.PAGE.read_text("utf8")
    assert {found[2] for found in script.TABLE.finditer(page)} == script.SOURCES.keys()
    assert script.fill(page) == page
    assert "|  |" not in page, "a setting has no description"
