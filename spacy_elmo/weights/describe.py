"""What can be said of a model."""

from pathlib import Path
from typing import Any, Union

from ..files import checksum
from ..frozen.config import count_parameters
from . import archives
from .formats import read_model
from .named import find_named


def describe(source: Union[str, Path]) -> dict[str, Any]:
    """Describe a model. A published model that is not in the cache is not downloaded:
    only what is known of it is told.

    source (Union[str, Path]): The model, by name, path or URL.
    RETURNS (dict): As JSON: path, format, languages, sizes, parameters, the
        checksum of the weights, which no format changes, and more.
    RAISES (ValueError): It cannot be read.
    RAISES (OSError): It cannot be downloaded.
    """
    named = find_named(source)
    known = {} if named is None else named.description
    if named is not None and named.is_published and not named.is_cached:
        return {**known, "downloaded": False}
    stored, bundle = read_model(source)
    config = bundle.bilm.config
    is_archive = stored.path.suffix.lower() == archives.SUFFIX
    files = [stored.path] if is_archive else stored.files()
    softmax = None
    if bundle.prediction is not None:
        found, words = bundle.prediction
        softmax = {"kind": found.kind, "words": len(words)}
    return {
        **known,
        "path": str(stored.path),
        "format": stored.name,
        "languages": [bundle.lang] if bundle.lang else [],
        "dtype": None if is_archive else stored.dtype(),
        "parameters": count_parameters(config),
        "layers": config.n_layers + 1,
        "width": config.width,
        "sizes": config.to_dict(),
        "aligned": bundle.bilm.alignment is not None,
        "softmax": softmax,
        "also": bundle.extras,
        "provenance": bundle.provenance,
        "checksum": bundle.bilm.checksum(),
        "files": [
            {"name": path.name, "bytes": path.stat().st_size, "sha256": checksum(path)}
            for path in files
        ],
    }
