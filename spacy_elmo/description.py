"""What can be said of a model."""

import hashlib
from pathlib import Path
from typing import Any, Union

import h5py
from safetensors import safe_open

from .bilm.softmax import LanguageModelSoftmax
from .content import ALLENNLP, PIPELINE, SAFETENSORS, Content, read_content
from .pretraining.language_model import SOFTMAX_FILE, VOCABULARY_FILE
from .weights import allennlp, allennlp_extras, find_named, safetensors_file
from .weights.named import NamedModel

_DTYPES = {"F32": "float32", "F16": "float16", "BF16": "bfloat16", "F64": "float64"}


def describe(source: Union[str, Path]) -> dict[str, Any]:
    """Describe a model. A published model that is not in the cache is not downloaded:
    only what is known of it is told.

    source (Union[str, Path]): The model, by name or path.
    RETURNS (dict): As JSON: path, format, languages, sizes, parameters, the
        checksum of the weights, which no format changes, and more.
    RAISES (ValueError): It cannot be read.
    """
    named = find_named(source)
    if named is not None and not named.is_cached:
        return {**_describe_named(named), "downloaded": False}
    content = read_content(source)
    config = content.bilm.config
    files = _files(content)
    return {
        **({} if named is None else _describe_named(named)),
        "path": str(content.place),
        "format": content.format,
        "languages": [content.lang] if content.lang else [],
        "dtype": _dtype(content, files[0]),
        "parameters": sum(weight.numel() for weight in content.bilm.parameters()),
        "layers": config.n_layers + 1,
        "width": config.width,
        "sizes": config.to_dict(),
        "softmax": _describe_softmax(content),
        "also": content.rest,
        "provenance": content.bilm.provenance,
        "checksum": content.bilm.checksum(),
        "files": [_describe_file(file) for file in files],
    }


def _describe_named(named: NamedModel) -> dict[str, Any]:
    return {
        "name": named.name,
        "format": named.format,
        "languages": [named.lang],
        "licence": named.licence,
        "urls": [file.url for file in named.files],
    }


def _describe_softmax(content: Content) -> Any:
    if content.prediction is None:
        return None
    softmax, vocabulary = content.prediction
    kind = "full" if isinstance(softmax, LanguageModelSoftmax) else "adaptive"
    return {"kind": kind, "words": len(vocabulary)}


def _files(content: Content) -> list[Path]:
    """The files that make the model, the weights first."""
    place = content.place
    if content.format in (SAFETENSORS, PIPELINE):
        weights = safetensors_file.find(place)
        assert weights is not None
        others = [place / name for name in (SOFTMAX_FILE, VOCABULARY_FILE)]
        return [weights, *(path for path in others if content.prediction and path.is_file())]
    if content.format == ALLENNLP:
        files = allennlp.find(place)
        assert files is not None
        options, weights = files
        words = allennlp_extras.find_beside(weights, VOCABULARY_FILE)
        return [weights, options, *([words] if words and content.prediction else [])]
    return [place] if place.is_file() else sorted(p for p in place.iterdir() if p.is_file())


def _dtype(content: Content, weights: Path) -> str:
    """The type of the weights on disk."""
    if content.format in (SAFETENSORS, PIPELINE):
        with safe_open(weights, framework="numpy") as file:
            names = {file.get_slice(name).get_dtype() for name in file.keys()}  # noqa: SIM118
        return ", ".join(sorted(_DTYPES.get(name, name) for name in names))
    if content.format == ALLENNLP:
        with h5py.File(weights, "r") as file:
            return str(file["char_embed"].dtype)
    return "float32"


def _describe_file(path: Path) -> dict[str, Any]:
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(1 << 20):
            digest.update(chunk)
    return {"name": path.name, "bytes": path.stat().st_size, "sha256": digest.hexdigest()}
