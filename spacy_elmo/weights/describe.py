"""What can be said of a model."""

import hashlib
from pathlib import Path
from typing import Any, Optional, Union

import h5py
from safetensors import safe_open

from ..bilm.softmax import LanguageModelSoftmax
from . import allennlp, archives, find_named, manylangs, safetensors_file
from .bundle import MANYLANGS, PIPELINE, SAFETENSORS, ModelBundle, read_bundle
from .named import NamedModel
from .softmax_files import SOFTMAX_FILE, VOCABULARY_FILE

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
    bundle = read_bundle(source)
    config = bundle.bilm.config
    files = _files(bundle)
    return {
        **({} if named is None else _describe_named(named)),
        "path": str(bundle.path),
        "format": bundle.format,
        "languages": [bundle.lang] if bundle.lang else [],
        "dtype": _dtype(bundle, files[0]),
        "parameters": sum(weight.numel() for weight in bundle.bilm.parameters()),
        "layers": config.n_layers + 1,
        "width": config.width,
        "sizes": config.to_dict(),
        "softmax": _describe_softmax(bundle),
        "also": bundle.extras,
        "provenance": bundle.bilm.provenance,
        "checksum": bundle.bilm.checksum(),
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


def _describe_softmax(bundle: ModelBundle) -> Any:
    if bundle.prediction is None:
        return None
    softmax, vocabulary = bundle.prediction
    kind = "full" if isinstance(softmax, LanguageModelSoftmax) else "adaptive"
    return {"kind": kind, "words": len(vocabulary)}


def _files(bundle: ModelBundle) -> list[Path]:
    """The files that make the model, the weights first."""
    path = bundle.path
    if bundle.format in (SAFETENSORS, PIPELINE):
        file = safetensors_file.find(path)
        assert file is not None
        others = [path / name for name in (SOFTMAX_FILE, VOCABULARY_FILE)]
        return [file, *(other for other in others if bundle.prediction and other.is_file())]
    if path.suffix.lower() == archives.SUFFIX:
        return [path]
    if bundle.format == MANYLANGS:
        folder = manylangs.find(path)
        assert isinstance(folder, Path)
        return sorted(part for part in folder.iterdir() if part.is_file())
    files = allennlp.find(path)
    assert files is not None
    options, weights = files
    words = allennlp.beside(weights, VOCABULARY_FILE) if bundle.prediction else []
    found = [weights, options, *[word_file for word_file in words if word_file.is_file()][:1]]
    return [part for part in found if isinstance(part, Path)]


def _dtype(bundle: ModelBundle, weights: Path) -> Optional[str]:
    """The type of the weights on disk, where it is easily known."""
    names: set[str] = set()
    if bundle.format in (SAFETENSORS, PIPELINE):
        with safe_open(weights, framework="numpy") as file:
            kinds = {file.get_slice(name).get_dtype() for name in file.keys()}  # noqa: SIM118
        names = {_DTYPES[kind] for kind in kinds if kind in _DTYPES}
    elif weights.suffix in allennlp.WEIGHTS_SUFFIXES:
        with h5py.File(weights, "r") as file:
            file.visititems(lambda _, item: names.add(str(getattr(item, "dtype", ""))))
    return ", ".join(sorted(names - {""})) or None


def _describe_file(path: Path) -> dict[str, Any]:
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(1 << 20):
            digest.update(chunk)
    return {"name": path.name, "bytes": path.stat().st_size, "sha256": digest.hexdigest()}
