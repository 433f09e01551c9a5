"""Build the wheel `spacy-elmo-en-small` from the weights in this checkout.

    python wheels/en_small.py FOLDER

The wheel contains a pipeline for `spacy.load`. It has its own version, which changes with the
weights. So this file contains the checksum of the weights of the version.
"""

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from spacy_elmo.weights import BUNDLED, locate
from spacy_elmo.weights.convert import convert

VERSION = "1.0.0"
CHECKSUM = "70bd6b24363a548e5d5230495ec5abc9501f303af7a41045005b74c1bc435009"
LICENSE = "CC-BY-SA-4.0"
NAME = "spacy_elmo_en_small"
CARD = Path(__file__).with_suffix(".md")
PYPROJECT = f"""[build-system]
requires = ["setuptools>=77.0.3"]
build-backend = "setuptools.build_meta"

[project]
name = "spacy-elmo-en-small"
version = "{VERSION}"
description = "English language model for spacy-elmo, as a spaCy pipeline"
readme = "README.md"
license = "{LICENSE}"
license-files = ["ATTRIBUTION.md"]
authors = [{{name = "the spacy-elmo developers"}}]
requires-python = ">=3.10"
dependencies = ["spacy-elmo>=0.1,<1"]

[tool.setuptools.packages.find]
include = ["{NAME}*"]

[tool.setuptools.package-data]
"*" = ["*"]
"""
MODULE = f'''"""English language model for spacy-elmo: `spacy.load("{NAME}")`."""

from pathlib import Path

from spacy.util import load_model_from_path

__version__ = "{VERSION}"
path = Path(__file__).parent / "pipeline"


def load(**overrides):
    """Load the pipeline. The arguments are those of `spacy.load`."""
    return load_model_from_path(path, **overrides)
'''


def write_sources(folder: Path) -> None:
    """Write the sources of the wheel.

    folder (Path): An empty folder.
    RAISES (ValueError): The checksum of the weights does not belong to this version.
    """
    weights = locate(BUNDLED)
    checksum = hashlib.sha256(weights.read_bytes()).hexdigest()
    if checksum != CHECKSUM:
        raise ValueError(
            f"{weights} has the checksum {checksum}, which is not the one of version {VERSION}. "
            f"Increase VERSION in {Path(__file__).name}, and set CHECKSUM"
        )
    package = folder / NAME
    package.mkdir()
    convert(BUNDLED, package / "pipeline", format="pipeline", dtype="float16", allow_loss=True)
    meta_file = package / "pipeline" / "meta.json"
    meta = json.loads(meta_file.read_text("utf8"))
    meta.update(name=NAME, version=VERSION, license=LICENSE, author="the spacy-elmo developers")
    meta["spacy_version"] = ">=3.8.7,<4.0"
    meta_file.write_text(json.dumps(meta, indent=2), "utf8")
    (package / "__init__.py").write_text(MODULE, "utf8")
    (folder / "pyproject.toml").write_text(PYPROJECT, "utf8")
    shutil.copy(CARD, folder / "README.md")
    shutil.copy(weights.with_name(f"{weights.stem}-ATTRIBUTION.md"), folder / "ATTRIBUTION.md")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="output folder of the wheel")
    with TemporaryDirectory() as sources:
        write_sources(Path(sources))
        command = ["build", "--wheel", "--outdir", str(parser.parse_args().folder), sources]
        subprocess.run([sys.executable, "-m", *command], check=True)
