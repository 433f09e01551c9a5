"""Errors of all commands: one line, an exit code, and no traceback unless asked for."""

import logging
import os
import sys
import warnings
from functools import partial

import numpy as np
import pytest
import torch
import typer
from typer.main import get_command
from typer.testing import CliRunner

import spacy_elmo.cli
from spacy_elmo.cli.errors import command

from helpers.commands import shown_by
from helpers.components import listener
from helpers.tasks import QA, question_examples

ALL = get_command(spacy_elmo.cli.elmo_cli).commands
COMMANDS = sorted(name for name, command in ALL.items() if not command.hidden)


def invoke(run, *arguments):
    """A function as a command."""
    other = typer.Typer()
    other.command()(command(run))
    return CliRunner().invoke(other, arguments)


def fail(error, *more):
    def run(number: int, name: str = "x") -> None:
        """Fail."""
        assert (number, name) == (3, "y")
        raise error

    return invoke(run, "3", "--name", "y", *more)


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
def test_an_error_is_one_line_and_an_exit_code(error, status):
    result = fail(error)
    assert result.exit_code == status
    assert isinstance(result.exception, SystemExit)
    assert ("oh" in result.output) == (status != 130)
    assert "\n" not in result.output.strip()


def test_verbose_shows_the_traceback():
    error = OwnStatus("oh\x1b[2J")
    result = fail(error, "--verbose")
    assert result.exit_code == 7
    assert "test_errors.py" in result.stderr
    assert r"OwnStatus: oh\x1b[2J" in result.stderr
    assert "\x1b[2J" not in result.output
    assert fail(error).stderr == ""  # the next one has none
    for bug in (AssertionError("bug"), RuntimeError("bug")):  # no errors of the input
        assert fail(bug).exception is bug


def test_logs_and_warnings_are_printable_lines_beside_the_output(caplog):
    def run() -> None:
        """Log and warn."""
        logging.getLogger("spacy").warning("%s is 5 %% full", "a\x1b[2J")
        warnings.warn("b\x1b[2J", stacklevel=1)
        warnings.warn("b\x1b[2J", stacklevel=1)  # Python would show it again.
        print("{}")

    result = invoke(run)
    assert caplog.messages == [r"a\x1b[2J is 5 % full"]
    assert result.stdout == "{}\n"
    assert result.stderr.count(r"b\x1b[2J") == 1
    assert "UserWarning" not in result.stderr


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("set `name`, or `name=5`, or `the_name=True`", "set --name, or --name 5, or --the-name"),
        ("`other=True`, `model.other`", "`other=True`, `model.other`"),
        ("`keep_softmax=False`", "--no-softmax"),
    ],
)
def test_errors_name_settings_as_options(message, shown):
    def run(
        name: str = typer.Option("x", help="A name"),
        the_name: bool = typer.Option(False, "-t", "--the-name", help="A switch"),
    ) -> None:
        """Warn and fail."""
        warnings.warn(f"Warned: {message}", stacklevel=1)
        raise ValueError(f"Failed: {message}")

    output = " ".join(invoke(run).output.split())
    assert f"Warned: {shown}" in output
    assert f"Failed: {shown}" in output


def test_errors_name_settings_of_a_config_as_options():
    def run(ctx: typer.Context) -> None:
        """Fail."""
        raise ValueError("set `training.max_steps=5`")

    assert "set --training.max_steps 5" in invoke(run).output


@pytest.mark.parametrize(
    "allocate",
    [bytearray, partial(np.empty, dtype="uint8"), partial(torch.empty, dtype=torch.uint8)],
)
def test_too_little_memory_is_named(allocate):
    """The array has more bytes than there are addresses."""
    with pytest.raises((MemoryError, RuntimeError)) as raised:
        allocate(1 << 60)
    result = fail(raised.value)
    assert result.exit_code == 1
    assert isinstance(result.exception, SystemExit)
    assert "not enough memory" in result.output
    assert len(result.output) < 150


ASKED = ("--sentence", "a b", "--token", "b")
READ = [
    ("ask", "pipeline", "fifo.txt", "Who?"),
    ("convert", "pipeline", "out.safetensors", "--provenance", "fifo.jsonl"),
    ("embed", "pipeline", "fifo.txt", "out.hdf5"),
    ("evaluate", "pipeline", "fifo.jsonl"),
    ("evaluate", "pipeline", "fifo.spacy"),
    ("info", "pipeline", "--audit", "fifo.txt"),
    ("init-training", "out.cfg", "--train", "fifo.jsonl", "--weights", "pipeline"),
    ("neighbors", "pipeline", "fifo.txt", *ASKED),
    ("pretrain", "fifo.cfg", "-o", "out"),
    ("probe", "pipeline", "fifo.spacy", "fifo.spacy", "--task", "tag"),
    ("senses", "pipeline", "fifo.txt", "--word", "a"),
    ("wsd", "pipeline", "fifo.jsonl", "fifo.jsonl"),
]


@pytest.mark.training
@pytest.mark.pipelines
@pytest.mark.commands
@pytest.mark.skipif(sys.platform == "win32", reason="needs FIFOs")
@pytest.mark.timeout(120)
def test_fifos_without_a_writer_are_refused(here, make_nlp):
    """Opening such a FIFO would wait forever."""
    nlp = QA.add(make_nlp(), listener())
    nlp.initialize(lambda: question_examples(nlp))
    nlp.to_disk("pipeline")
    for ending in ("cfg", "jsonl", "spacy", "tsv", "txt"):
        os.mkfifo(f"fifo.{ending}")
    before = sorted(os.listdir())
    for arguments in READ:
        assert "fifo." in shown_by(*arguments, status=1), arguments
    assert sorted(os.listdir()) == before


@pytest.mark.commands
@pytest.mark.parametrize("name", COMMANDS)
def test_help_shows_the_options(name):
    words = shown_by(name, "--help")
    assert f"Example: python -m spacy elmo {name} " in words
    assert "--verbose" in words


@pytest.mark.commands
def test_earlier_names_are_hidden():
    """Earlier names of commands work, but the help shows only the new ones."""
    shown = shown_by("--help")
    assert "init-pretraining" in shown
    assert "init-config" not in shown
    assert "Write a config for `spacy elmo pretrain`" in shown_by("init-config", "--help")


@pytest.mark.commands
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("corpus", "a.txt", "memory://out"), "memory://out: a corpus cannot be written to a URL"),
        (("init-training", "a.cfg", "--train", "missing.spacy"), "missing.spacy"),
        (("neighbors", "a", "b", *ASKED, "-n", "0"), "'-n'"),
        (("neighbors", "a", "b", "--token", "1"), "--sentence"),
        (("senses", "a", "b", "--word", "c", "--limit", "0"), "'--limit'"),
        (("substitutes", "a", *ASKED, "-n", "0"), "'-n'"),
    ],
)
def test_wrong_command_lines_say_what_to_give(arguments, message):
    assert message in shown_by(*arguments, status=2)
