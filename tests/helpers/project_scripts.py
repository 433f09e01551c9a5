"""Scripts of the project, run and imported, for its tests."""

import importlib
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import spacy
import typer
from spacy.tokens import Doc, DocBin
from typer.testing import CliRunner

PROJECT = Path(__file__).parents[2] / "project"
VOCAB = spacy.blank("en").vocab


def command(name, *args):
    """Return the command line of a script, as "data.convert_trec"."""
    return [sys.executable, "-m", f"scripts.{name}", *map(str, args)]


def environment():
    """Return the environment in which scripts are found from any folder."""
    path = os.pathsep.join(filter(None, (str(PROJECT), os.environ.get("PYTHONPATH"))))
    return {**os.environ, "PYTHONPATH": path}


def run(name, *args, fails=False):
    """Run a script in a process of its own, and return its output in one line."""
    done = subprocess.run(command(name, *args), env=environment(), capture_output=True, text=True)
    return check(done.returncode, done.stdout + done.stderr, fails)


@cache
def app(name):
    app = typer.Typer()
    app.command()(importlib.import_module(f"scripts.{name}").main)
    return app


def call(name, *args, fails=False):
    """Run a script in this process, which takes less time, and return its output in one line."""
    done = CliRunner().invoke(app(name), [str(arg) for arg in args])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return check(done.exit_code, done.output, fails)


def check(code, printed, fails):
    assert (code != 0) == fails, printed
    return " ".join(printed.split())


def docs(path) -> list[Doc]:
    """Return the Docs of a .spacy file."""
    return list(DocBin().from_disk(path).get_docs(VOCAB))
