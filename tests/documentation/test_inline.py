"""Commands, options, files and links that sentences and tables of the pages name exist."""

import re
import shlex

import pytest
from typer.main import get_command

import spacy_elmo.cli

from helpers.page_blocks import PAGES, ROOT

CODE = re.compile(r"(?<!`)`([^`]+)`(?!`)")
SCRIPT = re.compile(r"python ((?:benchmarks|project|scripts)/\S+\.py)(.*)")
COMMAND = re.compile(r"python -m spacy elmo ([\w-]+)(.*)")
COMMANDS = get_command(spacy_elmo.cli.elmo_cli).commands


FILE = re.compile(r"(?:benchmarks|configs|docs|project|spacy_elmo|tests)/[\w./-]+\.\w+")
LINK = re.compile(r"\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)")
MAKEFILE = (ROOT / "Makefile").read_text("utf8")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_names_in_sentences_exist(page):
    text = page.read_text("utf8")
    for code in CODE.findall(re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)):
        code = re.sub(r"\s+", " ", code)
        script, command = SCRIPT.match(code), COMMAND.match(code)
        if script:
            path = ROOT / script[1]
            assert path.is_file() or (ROOT / "project" / script[1]).is_file(), code
            source = path.read_text("utf8") if path.is_file() else ""
            for option in re.findall(r"--[\w-]+", script[2]):
                assert not source or f'"{option}"' in source, code
        if command and "[" not in code:
            assert command[1] in COMMANDS, code
            options = {name for option in COMMANDS[command[1]].params for name in option.opts}
            for word in shlex.split(command[2]):
                assert not word.startswith("--") or "." in word or word in options, code
        target = re.match(r"make ([a-z]+)", code)
        assert not target or re.search(rf"^{target[1]}:", MAKEFILE, re.MULTILINE), code
        assert not FILE.fullmatch(code) or (ROOT / code).exists(), code
    assert [link for link in LINK.findall(text) if not (page.parent / link).exists()] == []


def test_every_command_is_listed():
    text = (ROOT / "docs" / "api.md").read_text("utf8")
    table = re.search(r"## Commands\n(.*?)\n## ", text, re.DOTALL)[1]
    listed = re.findall(r"^\| `python -m spacy elmo ([\w-]+)", table, re.MULTILINE)
    assert sorted(listed) == sorted(name for name, one in COMMANDS.items() if not one.hidden)
