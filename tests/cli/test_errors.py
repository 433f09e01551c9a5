"""What all commands have in common."""

import logging
import warnings

import pytest
import typer
from spacy.cli._util import app
from typer.main import get_command
from typer.testing import CliRunner

import spacy_elmo.cli
from spacy_elmo.cli.errors import command

from commands import shown_by

ALL = get_command(spacy_elmo.cli.elmo_cli).commands
COMMANDS = sorted(name for name, command in ALL.items() if not command.hidden)


def fail(error):
    def run(
        number: int = typer.Argument(..., help="A number"),
        name: str = typer.Option("x", help="A name"),
    ) -> None:
        """Fail."""
        assert (number, name) == (3, "y")
        raise error

    other = typer.Typer()
    other.command()(command(run))
    return other


class OwnStatus(ValueError):
    exit_code = 7


@pytest.mark.parametrize(
    ("error", "status"),
    [
        *((kind("oh"), 1) for kind in (ValueError, OSError, ImportError, FloatingPointError)),
        (OwnStatus("oh"), 7),
        (KeyboardInterrupt(), 130),
    ],
)
def test_a_line_and_a_status(error, status):
    result = CliRunner().invoke(fail(error), ["3", "--name", "y"])
    assert result.exit_code == status
    assert isinstance(result.exception, SystemExit)
    assert ("oh" in result.output) == (status != 130)
    assert "\n" not in result.output.strip()


def test_verbose_shows_where_the_error_comes_from():
    error = OwnStatus("oh\x1b[2J")
    result = CliRunner().invoke(fail(error), ["3", "--name", "y", "--verbose"])
    assert result.exit_code == 7
    assert "test_errors.py" in result.stderr
    assert r"OwnStatus: oh\x1b[2J" in result.stderr
    assert "\x1b[2J" not in result.output
    result = CliRunner().invoke(fail(error), ["3", "--name", "y"])  # the next one has none
    assert (result.exit_code, result.stderr) == (7, "")


def test_logs_and_warnings_are_printable(caplog):
    def run() -> None:
        """Log."""
        logging.getLogger("spacy").warning("%s is 5 %% full", "a\x1b[2J")
        warnings.warn("b\x1b[2J", stacklevel=1)

    other = typer.Typer()
    other.command()(command(run))
    filters = list(logging.getLogger("spacy").filters)
    result = CliRunner().invoke(other, [])
    assert caplog.messages == [r"a\x1b[2J is 5 % full"]
    assert r"b\x1b[2J" in result.stderr
    assert logging.getLogger("spacy").filters == filters


def test_warnings_are_lines_beside_the_output():
    def run() -> None:
        """Warn."""
        warnings.warn("oh", stacklevel=1)
        print("{}")

    other = typer.Typer()
    other.command()(command(run))
    result = CliRunner().invoke(other, [])
    assert result.stdout == "{}\n"
    assert "oh" in result.stderr
    assert "UserWarning" not in result.stderr


def test_our_own_mistakes_are_no_input_errors():
    error = AssertionError("bug")
    assert CliRunner().invoke(fail(error), ["3", "--name", "y"]).exception is error


@pytest.mark.parametrize("name", COMMANDS)
def test_help(name):
    result = CliRunner().invoke(app, ["elmo", name, "--help"])
    assert result.exit_code == 0
    words = " ".join(result.output.split())
    assert f"Example: python -m spacy elmo {name} " in words
    assert "--verbose" in words


def test_earlier_names_are_hidden():
    """They go on, and only the new ones are shown."""
    shown = CliRunner().invoke(app, ["elmo", "--help"]).output
    assert "init-pretraining" in shown
    assert "init-config" not in shown
    result = CliRunner().invoke(app, ["elmo", "init-config", "--help"])
    assert "Write a config for `spacy elmo pretrain`" in " ".join(result.output.split())


ASKED = ("--sentence", "a b", "--token", "b")
TWO = ("train.spacy", "test.spacy", "--task", "tag")


@pytest.mark.parametrize(
    "arguments",
    [
        ("convert", "nowhere", "a.safetensors"),
        ("embed", "nowhere", "text.txt", "a.hdf5"),
        ("info", "nowhere"),
        ("init-training", "a.cfg", "--weights", "nowhere"),
        ("neighbors", "nowhere", "text.txt", *ASKED),
        ("perplexity", "nowhere", "text.txt"),
        ("probe", "nowhere", *TWO),
        ("senses", "nowhere", "text.txt", "--word", "a"),
        ("substitutes", "nowhere", *ASKED),
    ],
)
def test_what_functions_refuse_is_a_line(tmp_path, monkeypatch, arguments):
    """Whatever they refuse: what that is, their own tests say."""
    (tmp_path / "text.txt").write_text("a b\n")
    for name in ("train.spacy", "test.spacy"):
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)
    assert "no weights at 'nowhere'" in shown_by(*arguments, status=1)
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("corpus", "a.txt", "memory://out"), "memory://out: a corpus is written to a disk"),
        (("embed", "a", "b", "c", "--workers", "2"), "how many? --shards N"),
        (("embed", "a", "b", "memory://c.hdf5"), "URLs are for shards: how many?"),
        (("embed", "a", "b", "c", "--shards", "2", "-F"), "--force is not for --shards"),
        (("init-training", "a.cfg", "--train", "missing.spacy"), "missing.spacy"),
        (("neighbors", "a", "b", *ASKED, "-n", "0"), "'-n'"),
        (("neighbors", "a", "b", "--token", "1"), "--sentence"),
        (("senses", "a", "b", "--word", "c", "--limit", "0"), "'--limit'"),
        (("substitutes", "a", *ASKED, "-n", "0"), "'-n'"),
        (("substitutes", "a", "--token", "1"), "--sentence"),
    ],
)
def test_command_lines_that_are_wrong(arguments, message):
    assert message in shown_by(*arguments, status=2)
