"""Commands inside sentences and tables: what they name is there."""

import re
import shlex

import pytest
from spacy.cli._util import app
from typer.main import get_command

import spacy_elmo.cli  # noqa: F401  (adds the commands to spaCy's)

from helpers.page_blocks import PAGES, ROOT

CODE = re.compile(r"(?<!`)`([^`]+)`(?!`)")
SCRIPT = re.compile(r"python ((?:benchmarks|project|scripts)/\S+\.py)(.*)")
COMMAND = re.compile(r"python -m spacy elmo ([\w-]+)(.*)")
COMMANDS = get_command(app).commands["elmo"].commands


def spans(page):
    """The inline code of a page, each on one line."""
    text = re.sub(r"^```.*?^```$", "", page.read_text("utf8"), flags=re.MULTILINE | re.DOTALL)
    return [re.sub(r"\s+", " ", code) for code in CODE.findall(text)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_scripts(page):
    for code in spans(page):
        script = SCRIPT.match(code)
        if script:
            path = ROOT / script[1]
            assert path.is_file() or (ROOT / "project" / script[1]).is_file(), code
            source = path.read_text("utf8") if path.is_file() else ""
            for option in re.findall(r"--[\w-]+", script[2]):
                assert not source or f'"{option}"' in source, code


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands(page):
    for code in spans(page):
        found = COMMAND.match(code)
        if found and "[" not in code:
            assert found[1] in COMMANDS, code
            options = {name for option in COMMANDS[found[1]].params for name in option.opts}
            for word in shlex.split(found[2]):
                assert not word.startswith("--") or "." in word or word in options, code


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_targets(page):
    makefile = (ROOT / "Makefile").read_text("utf8")
    for code in spans(page):
        target = re.match(r"make ([a-z]+)", code)
        assert not target or re.search(rf"^{target[1]}:", makefile, re.MULTILINE), code


def test_every_command_is_listed():
    text = (ROOT / "docs" / "api.md").read_text("utf8")
    table = re.search(r"## Commands\n(.*?)\n## ", text, re.DOTALL)[1]
    listed = re.findall(r"^\| `python -m spacy elmo ([\w-]+)", table, re.MULTILINE)
    assert sorted(listed) == sorted(name for name, one in COMMANDS.items() if not one.hidden)


FILE = re.compile(r"(?:benchmarks|configs|docs|project|spacy_elmo|tests)/[\w./-]+\.\w+")
LINK = re.compile(r"\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files(page):
    named = [ROOT / code for code in spans(page) if FILE.fullmatch(code)]
    linked = [page.parent / target for target in LINK.findall(page.read_text("utf8"))]
    assert [path for path in (*named, *linked) if not path.exists()] == []
