"""Our own format: one `.safetensors` file, config and provenance in its metadata,
vocabularies as tensors of bytes."""

from pathlib import Path
from typing import Any, Optional

import numpy as np
import srsly
import torch
from safetensors import SafetensorError
from safetensors.torch import load, save

from ..bilm.config import BiLMConfig
from ..bilm.meta_device import on_meta_device
from ..bilm.model import BiLM
from ..bilm.vocabulary import InputVocabulary, Vocabularies
from ..files import atomic_write

FORMAT = "spacy-elmo"
SUFFIX = ".safetensors"
MODEL_FILE = "model.safetensors"
# A header could not hold the longest ones.
VOCABULARY = "vocabulary."


def find(path: Path) -> Optional[Path]:
    """Find the file that a path means: itself, the one `.safetensors` file of a
    folder, or the one pipe of a spaCy pipeline that holds a biLM.

    path (Path): An existing path.
    RETURNS (Optional[Path]): The file, or None if the path means something else.
    RAISES (ValueError): There are several.
    """
    if path.is_file():
        return path if path.suffix == SUFFIX else None
    found = sorted(path.glob(f"*/{MODEL_FILE}")) if (path / "config.cfg").is_file() else []
    found = found or sorted(path.glob(f"*{SUFFIX}"))
    if len(found) > 1:
        names = ", ".join(str(file.relative_to(path)) for file in found)
        raise ValueError(f"{path} holds several models: {names}. Give the path of one of them.")
    return found[0] if found else None


def read(path: Path) -> BiLM:
    """Read a file.

    path (Path): The file.
    RETURNS (BiLM): The model, frozen, in float32.
    RAISES (ValueError): The file is no such file, or broken.
    """
    return from_bytes(path.read_bytes(), str(path))


def write(bilm: BiLM, path: Path, dtype: torch.dtype = torch.float32) -> None:
    """Write a file, whole or not at all.

    bilm (BiLM): The model.
    path (Path): The file to write.
    dtype (torch.dtype): Type of the weights on disk; they are read as float32.
    RAISES (ValueError): A weight is too large for the type.
    """
    atomic_write(path, to_bytes(bilm, dtype))


def to_bytes(bilm: BiLM, dtype: torch.dtype = torch.float32) -> bytes:
    """RETURNS (bytes): The content of a file; the arguments are those of `write`."""
    metadata = {
        "format": FORMAT,
        "config": srsly.json_dumps(bilm.config.to_dict()),
        "provenance": srsly.json_dumps(bilm.provenance),
    }
    state = {name: _cast(name, value, dtype) for name, value in bilm.state_dict().items()}
    for name, vocabulary in bilm.encoder.indexer.vocabularies._asdict().items():
        if vocabulary is not None:
            array = np.frombuffer(vocabulary.to_bytes(), dtype="uint8")
            state[VOCABULARY + name] = torch.from_numpy(array.copy())
    data: bytes = save(state, metadata=metadata)
    return data


def _cast(name: str, value: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    cast = value.to(dtype).contiguous()
    if dtype != value.dtype and (cast.isinf() & value.isfinite()).any():
        raise ValueError(
            f"'{name}' holds {value.abs().max():.3g}, which is too large for {dtype}: "
            f"use bfloat16 or float32"
        )
    return cast


def from_bytes(data: bytes, source: str = "the given bytes") -> BiLM:
    """Read the content of a file.

    data (bytes): The content.
    source (str): Its name in error messages.
    RETURNS (BiLM): The model, frozen, in float32.
    RAISES (ValueError): The content is not such a file's, or broken.
    """
    try:
        tensors = load(data)
        metadata = _metadata(data)
        config = BiLMConfig.from_dict(srsly.json_loads(metadata["config"]))
        provenance = srsly.json_loads(metadata.get("provenance", "{}"))
    except KeyError:
        raise ValueError(
            f"{source}: a .safetensors file without the metadata of spacy-elmo; "
            f"it was not written by spacy-elmo and cannot be read as a biLM"
        ) from None
    except (SafetensorError, ValueError, TypeError) as error:
        raise ValueError(f"{source}: not a readable .safetensors file: {error}") from error
    if not isinstance(provenance, dict):
        raise ValueError(f"{source}: its provenance is no JSON object")
    try:
        vocabularies = _take_vocabularies(tensors)
        with on_meta_device():
            bilm = BiLM(config, vocabularies)
    except ValueError as error:
        raise ValueError(f"{source}: {error}") from error
    _check_tensors(tensors, bilm, source)
    tensors = {name: tensor.to(torch.float32) for name, tensor in tensors.items()}
    for name, tensor in tensors.items():
        if not tensor.isfinite().all():
            raise ValueError(f"{source}: tensor '{name}' holds values that are not finite")
    bilm.load_state_dict(tensors, assign=True)
    bilm.provenance = provenance
    return bilm.eval().requires_grad_(False)


def _take_vocabularies(tensors: dict[str, torch.Tensor]) -> Vocabularies:
    found: dict[str, InputVocabulary] = {}
    for name in Vocabularies._fields:
        tensor = tensors.pop(VOCABULARY + name, None)
        if tensor is None:
            continue
        if tensor.dtype != torch.uint8:
            raise ValueError(f"tensor '{VOCABULARY}{name}' holds {tensor.dtype}, not bytes")
        try:
            found[name] = InputVocabulary.from_bytes(tensor.numpy().tobytes())
        except ValueError as error:
            raise ValueError(f"tensor '{VOCABULARY}{name}': {error}") from error
    return Vocabularies(**found)


def _metadata(data: bytes) -> dict[str, Any]:
    size = int.from_bytes(data[:8], "little")
    metadata: dict[str, Any] = srsly.json_loads(data[8 : 8 + size].decode("utf8"))["__metadata__"]
    return metadata


def _check_tensors(tensors: dict[str, torch.Tensor], bilm: BiLM, source: str) -> None:
    expected = bilm.state_dict()
    for name in sorted(set(expected) - set(tensors)):
        shape = tuple(expected[name].shape)
        raise ValueError(f"{source}: tensor '{name}' is missing; its shape should be {shape}")
    for name, tensor in tensors.items():
        if name not in expected:
            shape = tuple(tensor.shape)
            raise ValueError(f"{source}: tensor '{name}' {shape} has no place in its own config")
        got, want = tuple(tensor.shape), tuple(expected[name].shape)
        if got != want:
            raise ValueError(f"{source}: tensor '{name}' has shape {got}, its config says {want}")
        if not tensor.is_floating_point():
            raise ValueError(f"{source}: tensor '{name}' holds {tensor.dtype}, not floats")
