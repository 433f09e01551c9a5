"""The commands, in this process."""

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
