"""List of all formats, and functions that read or describe a model of any format."""

import re
from pathlib import Path
from typing import Any, Optional, Union

from ..files import checksum
from ..model.config import count_parameters
from .allennlp import AllenNLP
from .archives import ZIP_SUFFIX, opened_path
from .bundle import Format, ModelBundle
from .checkpoint_file import Checkpoint
from .manylangs import ManyLangs
from .named import SOURCES, did_you_mean, find_named, locate
from .pipeline_folder import PipelineFolder
from .safetensors_file import SafetensorsFile
from .vocabulary_files import VOCABULARY_FILE

# Suffixes of archives that are not supported.
OTHER_ARCHIVES = re.compile(r"\.(tar|tar\.\w+|tgz|tbz2?|txz|7z|rar)$", re.IGNORECASE)
_ORIGIN = ("name", "urls", "licence")
# The order matters: the first format whose `find` returns a model reads it.
FORMATS: list[type[Format]] = [PipelineFolder, SafetensorsFile, ManyLangs, AllenNLP]
READ_ONLY: list[type[Format]] = [Checkpoint]


def read_model(
    source: Union[str, Path], *, weights_only: bool = False, softmax: bool = True
) -> tuple[Format, ModelBundle]:
    """Read a model of any format. Of a pipeline, read only the pipe with the biLM.

    source (Union[str, Path]): Path, name or URL; see `locate`.
    weights_only (bool): If True, read only the biLM, and ignore `softmax`.
    softmax (bool): If True, also read the softmax and its vocabulary.
    RAISES (ValueError): There is no such model, or its files are broken.
    RAISES (OSError): The model cannot be downloaded.
    """
    named = find_named(source)
    path = locate(source)
    with opened_path(path) as opened:
        stored = _find(opened)
        if stored is None:
            if not path.exists():
                raise ValueError(
                    f"no weights at '{source}'. {did_you_mean(source) or f'Give {SOURCES}.'}"
                )
            if opened.is_dir() and (opened / "saved_model.pb").is_file():
                raise ValueError(
                    f"{path} is a module of TensorFlow Hub, which cannot be read. Use 'original': "
                    f"AllenNLP's model of the same sizes and training text"
                )
            if OTHER_ARCHIVES.search(path.name):
                raise ValueError(
                    f"{path} is an archive, but only zip archives can be read. Unpack it, and "
                    f"give the path of the folder"
                )
            raise ValueError(
                f"{path} is not a model that spacy-elmo can read. Give a .safetensors file, an "
                f".hdf5 file with options.json, or a folder with encoder.pkl and token_embedder.pkl"
            )
        stored.path = path
        bundle = stored.read(weights_only=weights_only, softmax=softmax)
    if bundle.missing == VOCABULARY_FILE:
        bundle.extras.append(f"the softmax, because its {VOCABULARY_FILE} is missing")
    if named is not None:
        bundle.lang = named.lang or bundle.lang
        known = named.description
        origin: dict[str, Any] = {key: known[key] for key in _ORIGIN if key in known}
        bundle.bilm.provenance = {**origin, **bundle.provenance}
    if bundle.lang and not bundle.provenance.get("lang"):
        bundle.bilm.provenance = {**bundle.provenance, "lang": bundle.lang}
    return stored, bundle


def read_bundle(source: Union[str, Path], *, softmax: bool = True) -> ModelBundle:
    """Read the content of a model of any format. See `read_model`."""
    return read_model(source, softmax=softmax)[1]


def local_files(path: Path) -> list[Path]:
    """Return the files of the model at a path. The model is not read.

    RETURNS (List[Path]): Existing files; empty if there is no model.
    RAISES (ValueError): The file is a broken archive.
    """
    with opened_path(path) as opened:
        stored = _find(opened)
        files = [path] if stored is None or opened != path else [path, *stored.files()]
    return [file for file in files if file.exists()]


def _find(opened: Any) -> Optional[Format]:
    """Return the model at a path, or in an archive; None if no format fits."""
    candidates = (format.find(opened) for format in (*FORMATS, *READ_ONLY))
    return next((found for found in candidates if found is not None), None)


def describe(source: Union[str, Path]) -> dict[str, Any]:
    """Describe a model.

    For a published model that is not in the cache, the result has only name, format, language,
    license and URLs. Nothing is downloaded.

    source (Union[str, Path]): Path, name or URL.
    RETURNS (dict): Path, format, languages, sizes, number of parameters and more. JSON can store
        the dict. The checksum of the weights is the same in all formats.
    RAISES (ValueError): The model cannot be read.
    RAISES (OSError): The model cannot be downloaded.
    """
    named = find_named(source)
    known = {} if named is None else named.description
    if named is not None and named.is_published and not named.is_cached:
        return {**known, "downloaded": False}
    stored, bundle = read_model(source)
    config = bundle.bilm.config
    is_archive = stored.path.suffix.lower() == ZIP_SUFFIX
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
