"""Whose text and weights a model was made of, and under which license. The text stands in the
provenance, as `attribution`, so that it goes wherever the weights go; where people look for it,
it stands in a file, too."""

import re
from pathlib import Path
from typing import Any

import srsly

from ..files import atomic_write
from .archives import read_bytes
from .limits import LARGEST_JSON

ENDING = "-ATTRIBUTION.md"  # after the name of a file of weights
LICENSES_FILE = "LICENSES_SOURCES"  # which `spacy package` takes out of a pipeline's folder
META_FILE = "meta.json"  # which spaCy writes before the pipes
_NAMED_FILE = re.compile(rf"[\w.]+{re.escape(ENDING)}")
_KEYS = ("licence", "license", "attribution")


def beside(weights: Path) -> Path:
    """RETURNS (Path): The file that belongs to a file or folder of weights."""
    is_folder = weights.is_dir()
    return weights / LICENSES_FILE if is_folder else weights.with_name(weights.stem + ENDING)


def take_attribution(provenance: dict[str, Any], weights: Path) -> None:
    """Add what stands beside weights to what they say of themselves.

    provenance (dict): What they say.
    weights (Path): Their file.
    RAISES (ValueError): The file beside them cannot be read.
    """
    path = beside(weights)
    if "attribution" not in provenance and path.is_file():
        provenance["attribution"] = read_bytes(path, LARGEST_JSON).decode("utf8", "replace")


def inherited(provenance: dict[str, Any]) -> dict[str, Any]:
    """RETURNS (dict): What holds of all that is made of a model, too."""
    return {key: provenance[key] for key in _KEYS if key in provenance}


def attribution_of(provenance: dict[str, Any]) -> str:
    """RETURNS (str): What is to be said of a model; "" where nothing is known."""
    text = provenance.get("attribution")
    if isinstance(text, str) and text:
        return text
    named = _NAMED_FILE.search(_licence(provenance))  # all that early versions wrote
    path = Path(__file__).parent / named[0] if named else None
    return path.read_text("utf8") if path is not None and path.is_file() else ""


def license_of(provenance: dict[str, Any]) -> str:
    """RETURNS (str): The `license` of a pipeline's meta.json; "" where it is not known."""
    licence = _licence(provenance)
    if not attribution_of(provenance):
        return licence
    return _NAMED_FILE.sub(LICENSES_FILE, licence) or f"see {LICENSES_FILE}"


def write_attribution(provenance: dict[str, Any], path: Path) -> None:
    """Write what is to be said of a model, after what a file says already.

    provenance (dict): What the model says of itself.
    path (Path): The file.
    """
    text = attribution_of(provenance)
    said = path.read_text("utf8", "replace") if path.is_file() else ""
    if text not in said:
        atomic_write(path, f"{said}\n{text}" if said else text)


def names_pipe(folder: Path, pipe: str) -> bool:
    """RETURNS (bool): Whether this is the folder of a pipeline that has a pipe of this name."""
    path = folder / META_FILE
    meta = srsly.read_json(path) if path.is_file() else {}
    return isinstance(meta, dict) and pipe in meta.get("components", ())


def write_in_pipeline(provenance: dict[str, Any], folder: Path, pipe: str) -> None:
    """Write attribution and license where `spacy package` looks for them. spaCy gives a
    pipe a folder of its own alone, and has written meta.json before.

    provenance (dict): What the model says of itself.
    folder (Path): Of the pipeline; others are left as they are.
    pipe (str): Name of the pipe.
    """
    if not names_pipe(folder, pipe):
        return
    write_attribution(provenance, folder / LICENSES_FILE)
    license = license_of(provenance)
    meta = srsly.read_json(folder / META_FILE)
    if license and not meta.get("license"):
        atomic_write(folder / META_FILE, srsly.json_dumps({**meta, "license": license}, indent=2))


def _licence(provenance: dict[str, Any]) -> str:
    licence = provenance.get("license") or provenance.get("licence")
    return licence if isinstance(licence, str) else ""
