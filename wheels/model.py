"""Install a model from the weights in this checkout, or build its wheel.

    python wheels/model.py NAME
    python wheels/model.py NAME FOLDER

NAME is the name of a language model or of a trained pipeline. The first command installs the model
into the environment of this Python, which must contain spacy-elmo and pip. The second command
writes the wheel to a folder. The wheel contains a pipeline for `spacy.load`. A model has its own
version, which changes with the weights. So the table of models contains the checksum of the weights
of each version.
"""

import argparse
import hashlib
import json
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from subprocess import run
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[1]
AUTHOR = "the spacy-elmo developers"


@dataclass(frozen=True)
class Model:
    """Model with a wheel of its own.

    name (str): Name of the model.
    description (str): Description in one line.
    version (str): Version of the wheel.
    checksum (str): SHA-256 of the files that belong to this version (see `weights`).
    folder (str): Folder of the files, relative to the checkout.
    license (str): SPDX identifier of the license of the weights.
    """

    name: str
    description: str
    version: str
    checksum: str
    folder: str
    license: str = "CC-BY-SA-4.0"

    @property
    def module(self) -> str:
        """Name of the Python package."""
        raise NotImplementedError

    @property
    def weights(self) -> Path:
        """File or folder of the weights."""
        raise NotImplementedError

    @property
    def attribution(self) -> Path:
        """File with the authors and licenses of the training data."""
        raise NotImplementedError

    @property
    def card(self) -> Path:
        """Description of the model, which is the README of the wheel."""
        raise NotImplementedError

    def write_pipeline(self, folder: Path) -> None:
        """Write a spaCy pipeline to a folder."""
        raise NotImplementedError

    @property
    def package(self) -> str:
        """Name of the wheel, without its version."""
        return self.module.replace("_", "-")


class LanguageModel(Model):
    """Language model: the file `NAME.safetensors`, and beside it `NAME-ATTRIBUTION.md`."""

    @property
    def module(self) -> str:
        """Name of the Python package."""
        return f"spacy_elmo_{self.name}"

    @property
    def weights(self) -> Path:
        """File of the weights."""
        return ROOT / self.folder / f"{self.name}.safetensors"

    @property
    def attribution(self) -> Path:
        """File with the authors and licenses of the training text."""
        return self.weights.with_name(f"{self.name}-ATTRIBUTION.md")

    @property
    def card(self) -> Path:
        """Description of the model, which is the README of the wheel."""
        return ROOT / "wheels" / f"{self.name}.md"

    def write_pipeline(self, folder: Path) -> None:
        """Write a pipeline with only the pipe `elmo`."""
        # wheels/bare.py imports this module where spacy-elmo is not installed.
        from spacy_elmo.weights.convert import convert

        convert(self.weights, folder, format="pipeline", dtype="float16", allow_loss=True)
        meta_file = folder / "meta.json"
        meta = json.loads(meta_file.read_text("utf8"))
        meta.update(name=self.module, version=self.version, license=self.license, author=AUTHOR)
        meta["description"] = self.description
        meta_file.write_text(json.dumps(meta, indent=2), "utf8")


class Pipeline(Model):
    """Trained pipeline: the folder NAME, which the project's `package-pipelines` writes.

    The folder contains the card and the attribution, and its `meta.json` is complete.
    """

    @property
    def module(self) -> str:
        """Name of the Python package."""
        return self.name

    @property
    def weights(self) -> Path:
        """Folder of the pipeline."""
        return ROOT / self.folder / self.name

    @property
    def attribution(self) -> Path:
        """File with the authors and licenses of the training data."""
        return self.weights / "LICENSES_SOURCES"

    @property
    def card(self) -> Path:
        """Description of the pipeline, which is the README of the wheel."""
        return self.weights / "README.md"

    def write_pipeline(self, folder: Path) -> None:
        """Copy the pipeline.

        RAISES (ValueError): The pipeline has another version than the wheel.
        """
        shutil.copytree(self.weights, folder)
        found = json.loads((folder / "meta.json").read_text("utf8"))["version"]
        if found != self.version:
            raise ValueError(
                f"{self.weights}: version {found}, expected {self.version}. Set the version in "
                f"project/configs/pipelines/{self.name}.yml, and package the pipeline again"
            )


_MODELS = (
    LanguageModel(
        name="en_small",
        description="English language model for spacy-elmo, as a spaCy pipeline",
        version="1.1.0",
        checksum="9740312e3a7a434699d58cc51850e2587f920cdf21ceaab2ba8c8ea66e787256",
        folder="spacy_elmo/weights",
    ),
    LanguageModel(
        name="en_medium",
        description="Larger English language model for spacy-elmo, as a spaCy pipeline",
        version="1.1.0",
        checksum="2ef91a923909b2b6dee9c432d7aef18d9a745dd19695ee0dc7d62ff81537504e",
        folder="wheels",
    ),
    LanguageModel(
        name="de_historical",
        description="Language model of historical German for spacy-elmo, as a spaCy pipeline",
        version="1.0.0",
        checksum="527ddaee3a30bd509cec5a16cdd9373d79a584e2e47678d8bd3cb58c5bfdd294",
        folder="wheels",
    ),
    LanguageModel(
        name="fr_historical",
        description="Language model of French of 1840 to 1920 for spacy-elmo, as a spaCy pipeline",
        version="1.0.0",
        checksum="777504e1d94f422de547c6445fbba86c540716e43ae6887a0408918d526a2292",
        folder="wheels",
        license="CC-BY-4.0",
    ),
    Pipeline(
        name="en_elmo_web_sm",
        description="English pipeline with ELMo for text of the web",
        version="1.0.0",
        checksum="2809eed2b226c26ceab37668906bf5e6a837ac4543238a3cebc39241e0b74820",
        folder="wheels",
    ),
    Pipeline(
        name="de_elmo_historical_sm",
        description="German pipeline with ELMo for old newspapers",
        version="1.0.0",
        checksum="7fae52816b317981662d34f316ed9cbff6d8d301f8ea1a58573f3f95cfb55085",
        folder="wheels",
    ),
)
MODELS = {model.name: model for model in _MODELS}

PYPROJECT = """[build-system]
requires = ["setuptools>=77.0.3"]
build-backend = "setuptools.build_meta"

[project]
name = "{model.package}"
version = "{model.version}"
description = "{model.description}"
readme = "README.md"
license = "{model.license}"
license-files = ["ATTRIBUTION.md"]
authors = [{{name = "{AUTHOR}"}}]
requires-python = ">=3.10"
dependencies = ["spacy-elmo>=0.1,<1"]

[tool.setuptools.packages.find]
include = ["{model.module}*"]

[tool.setuptools.package-data]
"*" = ["*"]
"""
MODULE = '''"""{model.description}: `spacy.load("{model.module}")`."""

from pathlib import Path

from spacy.util import load_model_from_path

__version__ = "{model.version}"
path = Path(__file__).parent / "pipeline"


def load(**overrides):
    """Load the pipeline. The arguments are those of `spacy.load`."""
    return load_model_from_path(path, **overrides)
'''


def checksum_of(path: Path) -> str:
    """Return the SHA-256 of a file, or of the names and the contents of a folder's files."""
    if path.is_file():
        return hashlib.sha256(path.read_bytes()).hexdigest()
    total = hashlib.sha256()
    for name in sorted(
        one.relative_to(path).as_posix() for one in path.rglob("*") if one.is_file()
    ):
        total.update(f"{name}\0".encode())
        total.update(hashlib.sha256((path / name).read_bytes()).digest())
    return total.hexdigest()


def write_sources(model: Model, folder: Path) -> None:
    """Write the sources of the wheel.

    model (Model): The model.
    folder (Path): An empty folder.
    RAISES (ValueError): The checksum of the weights does not belong to this version.
    """
    checksum = checksum_of(model.weights)
    if checksum != model.checksum:
        raise ValueError(
            f"{model.weights} has the checksum {checksum}, which is not the one of version "
            f"{model.version}. Increase the version of {model.name} in {Path(__file__).name}, and "
            f"set its checksum"
        )
    package = folder / model.module
    package.mkdir()
    model.write_pipeline(package / "pipeline")
    # `spacy info` reads the copy.
    shutil.copy(package / "pipeline" / "meta.json", package)
    values = {"model": model, "AUTHOR": AUTHOR}
    (package / "__init__.py").write_text(MODULE.format(**values), "utf8")
    (folder / "pyproject.toml").write_text(PYPROJECT.format(**values), "utf8")
    shutil.copy(model.card, folder / "README.md")
    shutil.copy(model.attribution, folder / "ATTRIBUTION.md")


def main(arguments: Sequence[str]) -> None:
    """Install a model, or build its wheel.

    arguments (Sequence[str]): The arguments of the command line.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=MODELS, help="name of the model")
    parser.add_argument(
        "folder", type=Path, nargs="?", help="output folder of the wheel; default: install it"
    )
    given = parser.parse_args(arguments)
    if given.folder is None and find_spec("spacy_elmo") is None:
        parser.error(
            f"spacy-elmo is not installed for {sys.executable}, and {given.name} needs it. Install "
            "it first: pip install -c constraints.txt ."
        )
    target = ["install"] if given.folder is None else ["wheel", "--wheel-dir", str(given.folder)]
    with TemporaryDirectory() as sources:
        write_sources(MODELS[given.name], Path(sources))
        # spacy-elmo is installed. With its dependencies, pip would also install PyTorch.
        run([sys.executable, "-m", "pip", *target, "--no-deps", sources], check=True)


if __name__ == "__main__":
    main(sys.argv[1:])
