"""What all commands have in common."""

import warnings

import pytest
import typer
from spacy.cli._util import app
from typer.main import get_command
from typer.testing import CliRunner

import spacy_elmo.cli
from spacy_elmo.cli.errors import command

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
    [(ValueError("oh"), 1), (OSError("oh"), 1), (OwnStatus("oh"), 7), (KeyboardInterrupt(), 130)],
)
def test_a_line_and_a_status(error, status):
    result = CliRunner().invoke(fail(error), ["3", "--name", "y"])
    assert result.exit_code == status
    assert isinstance(result.exception, SystemExit)
    assert ("oh" in result.output) == (status != 130)


def test_verbose_lets_the_error_through():
    error = ValueError("oh")
    result = CliRunner().invoke(fail(error), ["3", "--name", "y", "--verbose"])
    assert result.exception is error
    result = CliRunner().invoke(fail(error), ["3", "--name", "y"])  # the next one has none
    assert isinstance(result.exception, SystemExit)


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
