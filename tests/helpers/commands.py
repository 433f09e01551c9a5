"""Commands of the package in this process, and other processes."""

import os
import subprocess
import sys
from pathlib import Path

from spacy.cli._util import app
from typer.testing import CliRunner, Result

import spacy_elmo.cli  # noqa: F401  (adds the commands to spaCy's)


def run_elmo(*arguments: object, status: int = 0) -> Result:
    """Run `python -m spacy elmo ARGUMENTS`, which has to end with a status."""
    result = CliRunner().invoke(app, ["elmo", *map(str, arguments)])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == status, result.output
    return result


def shown_by(*arguments: object, status: int = 0) -> str:
    """Return the output of a command in one line, because the printer breaks lines."""
    return " ".join(run_elmo(*arguments, status=status).output.split())


def run_python(*arguments: object, cwd: Path | None = None, **environment: str) -> str:
    """Return the output of `python ARGUMENTS` in a new process."""
    words, env = [sys.executable, *map(str, arguments)], {**os.environ, **environment}
    done = subprocess.run(words, cwd=cwd, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
