"""Attribution: a text with authors and licenses of the data and weights that a model is made from.

The provenance inside the weights contains the attribution, so it cannot get lost. A separate file
next to the weights repeats it, because people look for it there.
"""

import re
from pathlib import Path
from typing import Any

import srsly

from ..files import atomic_write
from .archives import beside_weights, places_of, read_bytes
from .limits import LARGEST_JSON

ENDING = "-ATTRIBUTION.md"
LICENSES_FILE = "LICENSES_SOURCES"  # `spacy package` copies a file of this name.
META_FILE = "meta.json"
_NAMED_FILE = re.compile(rf"[\w.]+{re.escape(ENDING)}")
_KEYS = ("licence", "license", "attribution")


def beside(weights: Path) -> Path:
    """Return the path of the attribution file for a file or folder of weights."""
    return weights / LICENSES_FILE if weights.is_dir() else weights.with_name(weights.stem + ENDING)


def take_attribution(provenance: dict[str, Any], weights: Path) -> None:
    """Add the text of the attribution file to a provenance, in place, if it has no attribution.

    RAISES (ValueError): The attribution file cannot be read, or is a link to another folder.
    """
    if "attribution" in provenance:
        return
    for place in places_of(weights):
        path = beside(Path(str(place)))
        if path.is_file():
            beside_weights(path, weights)
            provenance["attribution"] = _decode(read_bytes(path, LARGEST_JSON))
            return


def inherited(provenance: dict[str, Any]) -> dict[str, Any]:
    """Return the entries of a provenance that also apply to models made from this model."""
    return {key: provenance[key] for key in _KEYS if key in provenance}


def attribution_of(provenance: dict[str, Any]) -> str:
    """Return the attribution of a model; "" if it has none."""
    text = provenance.get("attribution")
    if isinstance(text, str) and text:
        return text
    # The weights in this package only contain the name of their attribution file.
    named = _NAMED_FILE.search(_licence(provenance))
    path = Path(__file__).parent / named[0] if named else None
    return path.read_text("utf8") if path is not None and path.is_file() else ""


def write_attribution(provenance: dict[str, Any], path: Path) -> None:
    """Append the attribution of a model to a file, unless the file already contains it.

    The bytes of the file stay as they are, in any encoding. The file need not exist.

    RAISES (ValueError): The file is a link, which may lead to a file of something else.
    """
    if path.is_symlink():
        raise ValueError(f"{path} is a link, so the attribution is not added. Delete the link")
    text = attribution_of(provenance)
    content = path.read_bytes() if path.is_file() else b""
    if text not in _decode(content):
        atomic_write(path, content + (b"\n" if content else b"") + text.encode("utf8"))


def _decode(content: bytes) -> str:
    """Decode a text in UTF-8; a text in another encoding as Latin-1, in which no byte is lost."""
    try:
        return content.decode("utf8")
    except UnicodeDecodeError:
        return content.decode("latin-1")


def names_pipe(folder: Path, pipe: str) -> bool:
    """Return whether a folder is a pipeline with a pipe of this name."""
    path = folder / META_FILE
    meta = srsly.read_json(path) if path.is_file() else {}
    return isinstance(meta, dict) and pipe in meta.get("components", ())


def write_in_pipeline(provenance: dict[str, Any], folder: Path) -> None:
    """Write attribution and license to the files of a pipeline that `spacy package` reads.

    Call this function in `to_disk` of a pipe. At that point, spaCy has written `meta.json`.
    """
    write_attribution(provenance, folder / LICENSES_FILE)
    license = _licence(provenance)
    if attribution_of(provenance):
        license = _NAMED_FILE.sub(LICENSES_FILE, license) or f"see {LICENSES_FILE}"
    meta = srsly.read_json(folder / META_FILE)
    if license and not meta.get("license"):
        atomic_write(folder / META_FILE, srsly.json_dumps({**meta, "license": license}, indent=2))


def _licence(provenance: dict[str, Any]) -> str:
    licence = provenance.get("license") or provenance.get("licence")
    return licence if isinstance(licence, str) else ""
