"""Install the wheels of a folder into a new environment, and run the code of some pages there.

    python wheels/bare.py FOLDER

The environment contains only the wheels and their dependencies. The pages are README.md and the
cards of the models; their code runs without a network. Sybil, which reads the pages, is in a folder
outside the environment.
"""

import os
import subprocess
import sys
import venv
from pathlib import Path
from tempfile import TemporaryDirectory

from model import MODELS, ROOT

WHEELS = ("spacy-elmo", *(model.package for model in MODELS.values()))
PAGES = (ROOT / "README.md", *(model.card for model in MODELS.values()))
EXAMPLES = """
import os, socket, sys
from pathlib import Path

def refuse(*arguments, **options):
    raise OSError("there is no network here")

socket.socket.connect = refuse

from helpers.page_blocks import run_page
from helpers.page_inputs import make_workplace
import spacy_elmo

assert sys.prefix in spacy_elmo.__file__, spacy_elmo.__file__
make_workplace(Path.cwd())
for page in sys.argv[1:]:
    print(page, *run_page(Path(page)), sep="\\n")
"""


def run(*command: object, cwd: Path | None = None, env: dict[str, str] | None = None) -> None:
    """Run a command, and raise if it fails."""
    subprocess.run([str(word) for word in command], check=True, cwd=cwd, env=env)


def main(wheels: Path) -> None:
    """Install the wheels, and run the pages.

    wheels (Path): Folder of the wheels.
    """
    with TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "work").mkdir()
        venv.create(place / "venv", with_pip=True)
        python = place / "venv" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
        install = (python, "-m", "pip", "install", "--quiet")
        versions = ("--constraint", ROOT / "constraints.txt")
        run(*install, "--no-index", "--no-deps", "--find-links", wheels, *WHEELS)
        run(*install, *versions, *WHEELS)  # This installs their dependencies.
        run(*install, *versions, "--target", place / "sybil", "sybil")
        path = os.pathsep.join([str(place / "sybil"), str(ROOT / "tests")])
        environment = {**os.environ, "PYTHONPATH": path}
        run(python, "-c", EXAMPLES, *PAGES, cwd=place / "work", env=environment)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
