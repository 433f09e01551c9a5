"""Descriptions of models, as `info` prints them."""

from pathlib import Path
from typing import Any, Union

from ..files import checksum
from ..frozen.config import count_parameters
from . import archives
from .formats import read_model
from .named import find_named


def describe(source: Union[str, Path]) -> dict[str, Any]:
    """Describe a model.

    A published model that is not in the cache is not downloaded; the description is then short.

    source (Union[str, Path]): The model's path, name or URL.
    RETURNS (dict): Path, format, languages, sizes, number of parameters and more, as JSON. The
        checksum of the weights is the same in all formats.
    RAISES (ValueError): The model cannot be read.
    RAISES (OSError): The model cannot be downloaded.
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
