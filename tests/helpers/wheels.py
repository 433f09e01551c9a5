"""The models of `wheels/`, as if their wheels were installed."""

import re
import sys
from pathlib import Path

from packaging.specifiers import SpecifierSet

from helpers.page_blocks import ROOT

sys.path.insert(0, str(ROOT / "wheels"))
try:
    import model as builder
finally:
    sys.path.pop(0)

# The range of spaCy versions that the package supports.
_PYPROJECT = (ROOT / "pyproject.toml").read_text("utf8")
SPACY = SpecifierSet(re.findall(r'^    "spacy([<>=].*)",$', _PYPROJECT, re.MULTILINE)[0])
TRAINED = [model for model in builder.MODELS.values() if isinstance(model, builder.Pipeline)]


def install(model: builder.Model, folder: Path) -> None:
    """Write what an installed wheel has. Python finds it when the folder is in `sys.path`.

    model (Model): The model.
    folder (Path): An empty folder.
    """
    builder.write_sources(model, folder)
    info = folder / f"{model.module}-{model.version}.dist-info"
    info.mkdir()
    metadata = f"Metadata-Version: 2.1\nName: {model.package}\nVersion: {model.version}\n"
    (info / "METADATA").write_text(metadata, "utf8")
