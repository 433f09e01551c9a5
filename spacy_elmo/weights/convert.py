"""From one format of weights to another, and what that would lose."""

import os
import tempfile
from pathlib import Path
from typing import Any, Optional, Union

import torch

from ..bilm.config import BiLMConfig
from ..bilm.model import BiLM
from ..bilm.softmax import LanguageModelSoftmax
from ..files import atomic_folder
from . import allennlp, allennlp_extras, manylangs, safetensors_file
from .bundle import ALLENNLP, FORMATS, MANYLANGS, PIPELINE, SAFETENSORS, ModelBundle, read_bundle
from .pipeline_folder import PIPE, write_pipeline
from .softmax_files import VOCABULARY_FILE

# The folders to write, and a file that each holds.
_FOLDERS = {PIPELINE: "config.cfg", MANYLANGS: manylangs.ENCODER_FILE}
_WHOSE = {ALLENNLP: "AllenNLP and bilm-tf", MANYLANGS: "ELMoForManyLangs' programs"}

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


class LossError(ValueError):
    """A conversion would lose something, and nobody said that it may."""

    exit_code = 3


def convert(
    source: Union[str, Path],
    target: Path,
    *,
    format: Optional[str] = None,
    dtype: str = "float32",
    keep_softmax: bool = True,
    lang: Optional[str] = None,
    provenance: Optional[dict[str, Any]] = None,
    allow_loss: bool = False,
    force: bool = False,
) -> tuple[ModelBundle, list[str]]:
    """Write a model in another format, whole or not at all.

    source (Union[str, Path]): The model, by name or path.
    target (Path): Where to write it.
    format (Optional[str]): One of `FORMATS`; None for the one that the target's name says.
    dtype (str): Type of the biLM's weights on disk: "float32", "float16" or "bfloat16".
    keep_softmax (bool): Whether softmax and vocabulary are wanted; if not, they are no loss.
    lang (Optional[str]): Language of the model, if the source does not say.
    provenance (Optional[dict]): Changes of the provenance, a JSON merge patch (RFC 7386).
    allow_loss (bool): Go on although something is lost.
    force (bool): Overwrite a model that is there.
    RETURNS (Tuple[ModelBundle, List[str]]): What was written, and what was lost.
    RAISES (LossError): Something would be lost.
    RAISES (ValueError): The source cannot be read, or the target not be written so.
    """
    format = _checked_format(target, format)
    if dtype not in DTYPES:
        raise ValueError(f"the dtype must be one of {', '.join(DTYPES)}, got '{dtype}'")
    if format in _WHOSE and dtype != "float32":
        raise ValueError(f"{_WHOSE[format]} read float32 alone: {target} cannot be {dtype}")
    _check_room(target, format, force)
    bundle = read_bundle(source)
    _check_sizes(bundle.bilm.config, format)
    bundle.lang = lang or bundle.lang
    if format == PIPELINE and not bundle.lang:
        raise ValueError("a pipeline has a language, and that of the model is not known: --lang en")
    known = {**bundle.bilm.provenance, **({"lang": bundle.lang} if bundle.lang else {})}
    bundle.bilm.provenance = _patched(known, provenance or {})
    if not keep_softmax:
        bundle.prediction = None
    lost = losses(bundle, format, dtype)
    if lost and not allow_loss:
        raise LossError(
            f"{target} would lose: {'; '.join(lost)}. Nothing was written; --allow-loss goes on"
        )
    if not _has_softmax_room(bundle, format):
        bundle.prediction = None
    target.parent.mkdir(parents=True, exist_ok=True)
    if format == SAFETENSORS:
        safetensors_file.write(bundle.bilm, target, DTYPES[dtype])
    elif format == ALLENNLP:
        _write_allennlp(bundle, target)
    elif format == MANYLANGS:
        with atomic_folder(target) as folder:
            folder.mkdir()
            manylangs.write(bundle.bilm, folder)
    else:
        _write_pipeline(bundle, target, DTYPES[dtype])
    return bundle, lost


def losses(bundle: ModelBundle, format: str, dtype: str) -> list[str]:
    """Find what a format has no room for.

    bundle (ModelBundle): The model.
    format (str): The format to write.
    dtype (str): Type of the biLM's weights on disk.
    RETURNS (List[str]): What would be lost, in words.
    """
    lost = list(bundle.extras)
    if bundle.prediction is not None and not _has_softmax_room(bundle, format):
        softmax, vocabulary = bundle.prediction
        kind = "" if isinstance(softmax, LanguageModelSoftmax) else "adaptive "
        lost.append(
            f"the {kind}softmax and its vocabulary of {len(vocabulary):,} words (--no-softmax if "
            f"they are not wanted)"
        )
    n_changed, largest = _rounding(bundle.bilm, DTYPES[dtype])
    if n_changed:
        lost.append(f"precision ({n_changed:,} weights change in {dtype}, by up to {largest:.2g})")
    if format == MANYLANGS:
        n_changed, largest = manylangs.rounded_biases(bundle.bilm)
        if n_changed:
            lost.append(
                f"precision ({n_changed:,} forget biases, of which this format holds the sum with "
                f"1, change by up to {largest:.2g})"
            )
    return lost


def _check_sizes(config: BiLMConfig, format: str) -> None:
    """RAISES (ValueError): The format has no place for such a model."""
    if format == ALLENNLP:
        config.to_options()
    elif format == MANYLANGS:
        manylangs.to_sizes(config)


def _has_softmax_room(bundle: ModelBundle, format: str) -> bool:
    if bundle.prediction is None or format == PIPELINE:
        return True
    return format == ALLENNLP and isinstance(bundle.prediction[0], LanguageModelSoftmax)


def _rounding(bilm: BiLM, dtype: torch.dtype) -> tuple[int, float]:
    """How many weights another type changes, and by how much at most."""
    n_changed, largest = 0, 0.0
    for weight in bilm.state_dict().values():
        errors = (weight.to(dtype).to(weight.dtype) - weight).abs()
        n_changed += int(errors.count_nonzero())
        largest = max(largest, float(errors.max()))
    return n_changed, largest


def _checked_format(target: Path, format: Optional[str]) -> str:
    """The format to write; a file's name must say it, or it would not be read."""
    by_suffix = {safetensors_file.SUFFIX: SAFETENSORS}
    by_suffix.update(dict.fromkeys(allennlp.WEIGHTS_SUFFIXES, ALLENNLP))
    declared = by_suffix.get(target.suffix)
    if format is not None and format not in FORMATS:
        raise ValueError(f"the format must be one of {', '.join(FORMATS)}, got '{format}'")
    if format is None and declared is None and target.suffix[1:2].isalpha():
        raise ValueError(
            f"{target}: no format of files ends in '{target.suffix}', but .safetensors and .hdf5. "
            f"If it is to be a folder: --format {PIPELINE} or --format {MANYLANGS}"
        )
    if format in (SAFETENSORS, ALLENNLP) and format != declared:
        ends = " or ".join(suffix for suffix, kind in by_suffix.items() if kind == format)
        raise ValueError(f"{target}: the name of such a file ends in {ends}")
    return format or declared or PIPELINE


def _check_room(target: Path, format: str, force: bool) -> None:
    """That nothing is overwritten which nobody meant."""
    files = [target]
    if format == ALLENNLP:
        names = ("options.json", VOCABULARY_FILE)
        files += [_beside(target, name) for name in names]
    for path in files:
        is_folder = path.is_dir()
        if is_folder and format in _FOLDERS and not any(path.iterdir()):
            continue
        if path.exists() and is_folder != (format in _FOLDERS):
            raise ValueError(f"{path} is a {'folder' if is_folder else 'file'}: give another name")
        if is_folder and not (path / _FOLDERS[format]).is_file():
            kind = "pipeline" if format == PIPELINE else "model of ELMoForManyLangs"
            raise ValueError(f"{path} holds something else than a {kind}: give another name")
        if path.exists() and not force:
            raise ValueError(f"{path} exists already: give another name, or --force")


def _beside(target: Path, name: str) -> Path:
    """Where to write a file that belongs to the weights."""
    path = allennlp.beside(target, name)[0]
    assert isinstance(path, Path)
    return path


def _write_pipeline(bundle: ModelBundle, target: Path, dtype: torch.dtype) -> None:
    bilm, lang = bundle.bilm, bundle.lang
    assert lang is not None
    with atomic_folder(target) as folder:
        write_pipeline(bilm, folder, bundle.prediction, lang=lang, provenance=bilm.provenance)
        if dtype != torch.float32:
            safetensors_file.write(bilm, folder / PIPE / safetensors_file.MODEL_FILE, dtype)


def _write_allennlp(bundle: ModelBundle, target: Path) -> None:
    """All files are written elsewhere first, and the weights get their name last."""
    softmax = None
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as name:
        folder = Path(name)
        allennlp.write(bundle.bilm, folder)
        if bundle.prediction is not None:
            weights = bundle.prediction[0].state_dict()
            softmax = weights["weight"].numpy(), weights["bias"].numpy()
            words = folder / VOCABULARY_FILE
            read = words.read_bytes() if words.is_file() else None
            bundle.prediction[1].to_disk(words)
            if read not in (None, words.read_bytes()):
                raise ValueError(
                    f"{target}: the model reads other words than it predicts, and one "
                    f"{VOCABULARY_FILE} cannot hold both: --no-softmax"
                )
        allennlp_extras.write_extras(
            folder / "weights.hdf5", softmax=softmax, provenance=bundle.bilm.provenance
        )
        for file in ("options.json", VOCABULARY_FILE):
            if (folder / file).is_file():
                os.replace(folder / file, _beside(target, file))
        os.replace(folder / "weights.hdf5", target)


def _patched(value: Any, patch: Any) -> Any:
    """A JSON merge patch, applied."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(value) if isinstance(value, dict) else {}
    for key, change in patch.items():
        if change is None:
            merged.pop(key, None)
        else:
            merged[key] = _patched(merged.get(key), change)
    return merged
