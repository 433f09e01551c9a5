"""bilm-tf's and AllenNLP's format: `options.json` and `weights.hdf5`."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

import h5py
import numpy as np
import srsly
import torch

from ..bilm.config import BiLMConfig
from ..bilm.model import BiLM

WEIGHTS_SUFFIXES = (".hdf5", ".h5")
# Parts of a file that this reader accounts for in full; others are ignored.
OUR_GROUPS = ("char_embed", "CNN", "RNN_")

Arrays = list[np.ndarray]


@dataclass(frozen=True)
class _Dataset:
    """One HDF5 dataset: its shape, the parameters it holds, and both ways between."""

    name: str
    shape: tuple[int, ...]
    parameters: tuple[str, ...]
    to_parameters: Callable[[np.ndarray], Arrays]
    to_dataset: Callable[[Arrays], np.ndarray]


def find(path: Path) -> Optional[tuple[Path, Path]]:
    """Find options and weights: in a folder, beside a weights file, or by a prefix.

    path (Path): A folder, a `.hdf5` file, or the common beginning of both names.
    RETURNS (Optional[Tuple[Path, Path]]): The options and the weights file, or
        None if the path means something else.
    RAISES (ValueError): One of the two is missing, or there are several.
    """
    if path.is_file() and path.suffix in WEIGHTS_SUFFIXES:
        return _options_beside(path), path
    if path.is_dir():
        weights = _weights_in(path)
        return (_options_beside(weights), weights) if weights else None
    for separator in ("", "_"):
        weights = path.with_name(f"{path.name}{separator}weights.hdf5")
        if weights.is_file():
            return _options_beside(weights), weights
    return None


def read(files: tuple[Path, Path]) -> BiLM:
    """Read a model.

    files (Tuple[Path, Path]): The options and the weights file.
    RETURNS (BiLM): The model, frozen, in float32.
    RAISES (ValueError): A file is broken or the two do not fit; the message
        names the file, the dataset and both shapes.
    """
    options_path, weights_path = files
    try:
        config = BiLMConfig.from_options(srsly.read_json(options_path))
    except (ValueError, UnicodeDecodeError) as error:
        raise ValueError(f"{options_path}: {error}") from error
    with torch.device("meta"):
        bilm = BiLM(config)
    try:
        with h5py.File(weights_path, "r") as file:
            state = _read_parameters(file, config, weights_path, options_path)
    except (OSError, RuntimeError, KeyError) as error:
        raise ValueError(f"{weights_path}: not a readable HDF5 file: {error}") from error
    bilm.load_state_dict(state, assign=True)
    bilm.provenance = {"source": weights_path.name}
    return bilm.eval().requires_grad_(False)


def write(bilm: BiLM, folder: Path) -> None:
    """Write `options.json` and `weights.hdf5`, each whole or not at all.

    bilm (BiLM): The model.
    folder (Path): Where to; made if need be.
    """
    folder.mkdir(parents=True, exist_ok=True)
    parameters = {name: value.cpu().numpy() for name, value in bilm.state_dict().items()}
    unfinished = {name: folder / f"{name}.part" for name in ("options.json", "weights.hdf5")}
    try:
        with h5py.File(unfinished["weights.hdf5"], "w") as file:
            for dataset in _layout(bilm.config):
                arrays = [parameters[name] for name in dataset.parameters]
                file[dataset.name] = np.ascontiguousarray(
                    dataset.to_dataset(arrays), dtype="float32"
                )
        srsly.write_json(unfinished["options.json"], bilm.config.to_options())
        for name, part in unfinished.items():
            os.replace(part, folder / name)
    finally:
        for part in unfinished.values():
            part.unlink(missing_ok=True)


def _read_parameters(
    file: h5py.File, config: BiLMConfig, weights_path: Path, options_path: Path
) -> dict[str, torch.Tensor]:
    state = {}
    layout = list(_layout(config))
    _check_names(file, {dataset.name for dataset in layout}, weights_path, options_path)
    for dataset in layout:
        stored = file.get(dataset.name)
        if not isinstance(stored, h5py.Dataset):
            raise ValueError(
                f"{weights_path}: dataset '{dataset.name}' is missing; by {options_path.name} "
                f"its shape should be {dataset.shape}"
            )
        if stored.dtype.kind != "f":
            raise ValueError(
                f"{weights_path}: dataset '{dataset.name}' holds {stored.dtype}, not floats"
            )
        shape = tuple(stored.shape)
        if dataset.name == "char_embed" and shape == (262, dataset.shape[1]):
            shape = dataset.shape  # trained with a character id that nothing is spelled with
        if shape != dataset.shape:
            raise ValueError(
                f"{weights_path}: dataset '{dataset.name}' has shape {tuple(stored.shape)}, "
                f"by {options_path.name} it should be {dataset.shape}"
            )
        values = np.asarray(stored[: shape[0]], dtype="float32")
        for name, array in zip(dataset.parameters, dataset.to_parameters(values)):
            state[name] = torch.from_numpy(np.ascontiguousarray(array))
    return state


def _check_names(file: h5py.File, expected: set[str], weights: Path, options: Path) -> None:
    """A layer more than the options say is a mismatch as much as one less."""

    def check(name: str, item: object) -> None:
        known = name in expected or not name.startswith(OUR_GROUPS)
        if isinstance(item, h5py.Dataset) and not known:
            raise ValueError(
                f"{weights}: dataset '{name}' {tuple(item.shape)} has no place in the model "
                f"that {options.name} describes"
            )

    file.visititems(check)


def _layout(config: BiLMConfig) -> Iterator[_Dataset]:
    """Every dataset of a model. Note the names: the file's W_carry is the
    highway's transform gate."""
    width, lstm_dim, n_filters = config.projection_dim, config.lstm_dim, config.n_filters
    char_dim = config.char_embed_dim
    yield _Dataset(
        "char_embed",
        (261, char_dim),
        ("encoder.embedding.weight",),
        lambda values: [np.concatenate([np.zeros_like(values[:1]), values])],
        lambda arrays: arrays[0][1:],
    )
    for i, (size, number) in enumerate(config.filters):
        name = f"encoder.convolutions.{i}"
        yield _Dataset(
            f"CNN/W_cnn_{i}",
            (1, size, char_dim, number),
            (f"{name}.weight",),
            lambda values: [values[0].transpose(2, 1, 0)],
            lambda arrays: arrays[0].transpose(2, 1, 0)[None],
        )
        yield _plain(f"CNN/b_cnn_{i}", (number,), f"{name}.bias")
    for k in range(config.n_highway):
        for theirs, ours in (("carry", "gate"), ("transform", "nonlinear")):
            name = f"encoder.highways.{k}.{ours}"
            group = f"CNN_high_{k}"
            yield _transposed(f"{group}/W_{theirs}", (n_filters, n_filters), f"{name}.weight")
            yield _plain(f"{group}/b_{theirs}", (n_filters,), f"{name}.bias")
    if n_filters != width:
        yield _transposed("CNN_proj/W_proj", (n_filters, width), "encoder.projection.weight")
        yield _plain("CNN_proj/b_proj", (width,), "encoder.projection.bias")
    for direction in range(2):
        for layer in range(config.n_layers):
            name = f"stacks.{direction}.{layer}"
            group = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            yield _Dataset(
                f"{group}/W_0",
                (2 * width, 4 * lstm_dim),
                (f"{name}.input_weight", f"{name}.state_weight"),
                lambda values: [values[:width].T, values[width:].T],
                lambda arrays: np.concatenate([array.T for array in arrays]),
            )
            yield _plain(f"{group}/B", (4 * lstm_dim,), f"{name}.bias")
            if width < lstm_dim:
                yield _transposed(f"{group}/W_P_0", (lstm_dim, width), f"{name}.projection")


def _plain(name: str, shape: tuple[int, ...], parameter: str) -> _Dataset:
    return _Dataset(name, shape, (parameter,), lambda values: [values], lambda arrays: arrays[0])


def _transposed(name: str, shape: tuple[int, ...], parameter: str) -> _Dataset:
    return _Dataset(
        name, shape, (parameter,), lambda values: [values.T], lambda arrays: arrays[0].T
    )


def _weights_in(folder: Path) -> Optional[Path]:
    files = sorted(file for file in folder.iterdir() if file.suffix in WEIGHTS_SUFFIXES)
    named = [file for file in files if "weights" in file.stem]
    exact = [file for file in named if file.stem == "weights"]
    choice = exact or named or files
    if len(choice) > 1:
        names = ", ".join(file.name for file in choice)
        raise ValueError(f"{folder} holds several weights: {names}. Give the path of one of them.")
    return choice[0] if choice else None


def _options_beside(weights: Path) -> Path:
    own = weights.with_name(weights.stem.removesuffix("weights") + "options.json")
    for candidate in (own, weights.with_name("options.json")):
        if candidate.is_file():
            return candidate
    raise ValueError(
        f"{weights}: no options beside it; expected {own} or {weights.with_name('options.json')}"
    )
