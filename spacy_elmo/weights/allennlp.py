"""bilm-tf's and AllenNLP's format: `options.json` and `weights.hdf5`."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Optional

import numpy as np
import srsly
import torch

from ..bilm.config import BiLMConfig
from ..bilm.meta_device import on_meta_device
from ..bilm.model import BiLM
from ..bilm.softmax import LanguageModelSoftmax
from ..bilm.vocabulary import InputVocabulary, Vocabularies
from ..files.hdf5 import guarded_hdf5
from .archives import AnyFile, File, read_json, stem, suffix
from .hdf5_file import HDF5Arrays, open_hdf5
from .layout import Entry, build, plain, read_parameters, stored_arrays, transposed
from .vocabulary_files import read_vocab

WEIGHTS_SUFFIXES = (".hdf5", ".h5")
VOCABULARY_FILE = "vocab.txt"
EMBEDDING = "embedding"
# Parts of a file that this reader accounts for in full; others are ignored.
OUR_GROUPS = ("char_embed", "CNN", "RNN_", "rnn/")

Files = tuple[File, File]  # options, weights


def find(path: AnyFile) -> Optional[tuple[AnyFile, AnyFile]]:
    """Find options and weights: in a folder, beside a weights file, or by a prefix.

    path (Union[Path, zipfile.Path]): A folder, a `.hdf5` file, or the common
        beginning of both names.
    RETURNS (Optional[Tuple[File, File]]): The options and the weights file, or
        None if the path means something else.
    RAISES (ValueError): One of the two is missing, or there are several.
    """
    if path.is_file() and suffix(path) in WEIGHTS_SUFFIXES:
        return _options_beside(path), path
    if path.is_dir():
        weights = _weights_in(path)
        return (_options_beside(weights), weights) if weights else None
    if isinstance(path, Path):
        for separator in ("", "_"):
            weights = path.with_name(f"{path.name}{separator}weights.hdf5")
            if weights.is_file():
                return _options_beside(weights), weights
    return None


def read(
    files: Files, *, embeddings: Optional[File] = None, vocabulary: Optional[File] = None
) -> BiLM:
    """Read a model. One without characters looks words up in its vocabulary.

    files (Tuple[File, File]): The options and the weights file.
    embeddings (Optional[File]): An HDF5 file of ready-made vectors (`embedding`), as
        bilm-tf dumps them; words that it lacks are read by their characters.
    vocabulary (Optional[File]): The words of those vectors, or of a model without
        characters; if not given, the `vocab.txt` beside them.
    RETURNS (BiLM): The model, frozen, in float32.
    RAISES (ValueError): A file is broken or they do not fit one another; the message
        names the file, the dataset and both shapes.
    """
    options_path, weights_path = files
    options = read_json(options_path)
    is_model = isinstance(options, Mapping) and "lstm" in options
    words_only = is_model and "char_cnn" not in options
    words_path = embeddings or (weights_path if words_only else None)
    table, words = _read_words(words_path, vocabulary) if words_path else (None, None)
    with open_hdf5(weights_path) as stored:
        config = _config(options_path, stored, n_words=0 if words is None else len(words))
        layout = (entry for entry in _layout(config, stored) if entry.name != EMBEDDING)
        parameters = read_parameters(layout, stored, options_path.name, OUR_GROUPS)
    if table is not None:
        if table.shape[1] != config.projection_dim:
            raise ValueError(
                f"{words_path}: dataset '{EMBEDDING}' has shape {tuple(table.shape)}, by "
                f"{options_path.name} it should be {(len(table), config.projection_dim)}"
            )
        parameters["encoder.words.weight"] = table
    return build(config, Vocabularies(words=words), parameters, source=weights_path)


def read_softmax(
    files: Files, *, vocabulary: Optional[File] = None
) -> Optional[tuple[LanguageModelSoftmax, InputVocabulary]]:
    """Read the softmax of a model, where its file has one: bilm-tf leaves it out, other
    programs may add it.

    files (Tuple[File, File]): The options and the weights file.
    vocabulary (Optional[File]): The words; if not given, the `vocab.txt` beside the weights.
    RETURNS (Optional[Tuple[LanguageModelSoftmax, InputVocabulary]]): The softmax,
        frozen, and its words; None if there is none.
    RAISES (ValueError): A file is broken or they do not fit one another.
    """
    options_path, weights_path = files
    with open_hdf5(weights_path) as stored:
        shape = stored.shape("softmax/W")
        if shape is None and "softmax/b" not in stored:
            return None
        n_words = shape[0] if shape else 0
        width = _config(options_path, stored, n_words).projection_dim
        layout = [
            plain("softmax/W", (n_words, width), "weight"),
            plain("softmax/b", (n_words,), "bias"),
        ]
        parameters = read_parameters(layout, stored, options_path.name, ("softmax/",))
    words = _vocabulary_of("softmax/W", n_words, weights_path, vocabulary)
    with on_meta_device():
        softmax = LanguageModelSoftmax(n_words=n_words, width=width)
    softmax.load_state_dict(parameters, assign=True)
    return softmax.eval().requires_grad_(False), words


def write(bilm: BiLM, folder: Path) -> None:
    """Write `options.json` and `weights.hdf5`, and for words `vocab.txt`, each whole or
    not at all.

    bilm (BiLM): The model.
    folder (Path): Where to; made if need be.
    RAISES (ValueError): The format has no place for such a model.
    """
    options = bilm.config.to_options()
    folder.mkdir(parents=True, exist_ok=True)
    parameters = {name: value.cpu().numpy() for name, value in bilm.state_dict().items()}
    words = bilm.encoder.indexer.vocabularies.words
    names = ["options.json", *([VOCABULARY_FILE] if words else []), "weights.hdf5"]
    unfinished = {name: folder / f"{name}.part" for name in names}
    try:
        with guarded_hdf5(unfinished["weights.hdf5"]) as (file, check):
            for name, values in stored_arrays(_layout(bilm.config), parameters):
                file[name] = values
                check()
        srsly.write_json(unfinished["options.json"], options)
        if words:
            lines = "".join(f"{word or ''}\n" for word in words.strings)
            unfinished[VOCABULARY_FILE].write_text(lines, "utf8", newline="\n")
        for name, part in unfinished.items():
            os.replace(part, folder / name)
    finally:
        for part in unfinished.values():
            part.unlink(missing_ok=True)


def _read_words(path: File, vocabulary: Optional[File]) -> tuple[torch.Tensor, InputVocabulary]:
    """The word embeddings of a file, and their words."""
    with open_hdf5(path) as stored:
        shape = stored.shape(EMBEDDING)
        if shape is None or len(shape) != 2 or not shape[0]:
            raise ValueError(
                f"{path}: no dataset '{EMBEDDING}' with a row a word, which ready-made vectors "
                f"have, and models without 'char_cnn' in their options"
            )
        layout = [plain(EMBEDDING, shape, EMBEDDING)]
        parameters = read_parameters(layout, stored, path.name, ())
    return parameters[EMBEDDING], _vocabulary_of(EMBEDDING, shape[0], path, vocabulary)


def _vocabulary_of(
    name: str, n_words: int, path: File, vocabulary: Optional[File]
) -> InputVocabulary:
    """The words of a dataset's rows."""
    if vocabulary is None:
        paths = beside(path, VOCABULARY_FILE)
        vocabulary = next((file for file in paths if file.is_file()), None)
        if vocabulary is None:
            raise ValueError(
                f"{path}: no vocabulary beside it, without which '{name}' has no meaning; "
                f"expected {' or '.join(map(str, paths))}"
            )
    words = read_vocab(vocabulary)
    if len(words) != n_words:
        raise ValueError(
            f"{vocabulary}: {len(words)} words, but dataset '{name}' in {path} has {n_words} rows"
        )
    return words


def _config(options_path: File, stored: HDF5Arrays, n_words: int) -> BiLMConfig:
    options = read_json(options_path)
    declared = options.get("bidirectional") if isinstance(options, Mapping) else None
    # Published options do not say; bilm-tf names a single direction in another way.
    found = not any(name.startswith("rnn/") for name in stored)
    bidirectional = declared if isinstance(declared, bool) else found
    try:
        return BiLMConfig.from_options(options, n_words=n_words, bidirectional=bidirectional)
    except ValueError as error:
        raise ValueError(f"{options_path}: {error}") from error


def _layout(config: BiLMConfig, stored: Optional[HDF5Arrays] = None) -> Iterator[Entry]:
    """Every dataset of a model. Note the names: the file's W_carry is the
    highway's transform gate.

    config (BiLMConfig): The sizes.
    stored (Optional[HDF5Arrays]): The file, where programs differ in what they write.
    """
    width, n_filters = config.projection_dim, config.n_filters
    if config.n_words:
        yield plain(EMBEDDING, (config.n_words, width), "encoder.words.weight")
    if config.n_characters:
        yield _character_embedding(config.char_embed_dim, stored)
    for i, (size, number) in enumerate(config.filters):
        name = f"encoder.convolutions.{i}"
        yield Entry(
            f"CNN/W_cnn_{i}",
            (1, size, config.char_embed_dim, number),
            (f"{name}.weight",),
            lambda values: [values[0].transpose(2, 1, 0)],
            lambda arrays: arrays[0].transpose(2, 1, 0)[None],
        )
        yield plain(f"CNN/b_cnn_{i}", (number,), f"{name}.bias")
    for k in range(config.n_highway):
        for theirs, ours in (("carry", "gate"), ("transform", "nonlinear")):
            name = f"encoder.highways.{k}.{ours}"
            group = f"CNN_high_{k}"
            yield transposed(f"{group}/W_{theirs}", (n_filters, n_filters), f"{name}.weight")
            yield plain(f"{group}/b_{theirs}", (n_filters,), f"{name}.bias")
    if config.projected_width:
        yield transposed("CNN_proj/W_proj", (n_filters, width), "encoder.projection.weight")
        yield plain("CNN_proj/b_proj", (width,), "encoder.projection.bias")
    for direction in range(config.n_directions):
        for layer in range(config.n_layers):
            yield from _lstm(config, direction, layer, stored)


def _character_embedding(char_dim: int, stored: Optional[HDF5Arrays]) -> Entry:
    # Some were trained with one more character id, which nothing is spelled with.
    longer = (262, char_dim)
    has_more = stored is not None and stored.shape("char_embed") == longer
    return Entry(
        "char_embed",
        longer if has_more else (261, char_dim),
        ("encoder.embedding.weight",),
        lambda values: [np.concatenate([np.zeros_like(values[:1]), values[:261]])],
        lambda arrays: arrays[0][1:],
    )


def _lstm(
    config: BiLMConfig, direction: int, layer: int, stored: Optional[HDF5Arrays]
) -> Iterator[Entry]:
    width, lstm_dim = config.projection_dim, config.lstm_dim
    root, weight, bias, projection = f"RNN_{direction}/RNN", "W_0", "B", "W_P_0"
    if not config.bidirectional:  # bilm-tf's dump does not rename these
        root, weight, bias, projection = "rnn", "kernel", "bias", "projection/kernel"
    group = f"{root}/MultiRNNCell/Cell{layer}/LSTMCell"
    alone = f"{root}/LSTMCell"
    if config.n_layers == 1 and stored is not None and f"{alone}/{weight}" in stored:
        group = alone
    name = f"stacks.{direction}.{layer}"
    yield Entry(
        f"{group}/{weight}",
        (2 * width, 4 * lstm_dim),
        (f"{name}.input_weight", f"{name}.state_weight"),
        lambda values: [values[:width].T, values[width:].T],
        lambda arrays: np.concatenate([array.T for array in arrays]),
    )
    yield plain(f"{group}/{bias}", (4 * lstm_dim,), f"{name}.bias")
    if width < lstm_dim:
        yield transposed(f"{group}/{projection}", (lstm_dim, width), f"{name}.projection")


def _weights_in(folder: AnyFile) -> Optional[AnyFile]:
    files: list[Any] = sorted(
        (file for file in folder.iterdir() if suffix(file) in WEIGHTS_SUFFIXES),
        key=lambda file: file.name,
    )
    named = [file for file in files if "weights" in stem(file)]
    exact = [file for file in named if stem(file) == "weights"]
    choice = exact or named or files
    if len(choice) > 1:
        names = ", ".join(file.name for file in choice)
        raise ValueError(f"{folder} holds several weights: {names}. Give the path of one of them.")
    return choice[0] if choice else None


def _options_beside(weights: AnyFile) -> AnyFile:
    paths = beside(weights, "options.json")
    for candidate in paths:
        if candidate.is_file():
            return candidate
    raise ValueError(f"{weights}: no options beside it; expected {' or '.join(map(str, paths))}")


def beside(weights: AnyFile, name: str) -> list[AnyFile]:
    """Where a file that belongs to weights may be: as `elmo_small_vocab.txt` belongs to
    `elmo_small_weights.hdf5`, or by its general name.

    weights (Union[Path, zipfile.Path]): The HDF5 file.
    name (str): "options.json" or "vocab.txt".
    RETURNS (List[Union[Path, zipfile.Path]]): Both places, the special one first.
    """
    folder: Any = weights.parent
    return [folder / (stem(weights).removesuffix("weights") + name), folder / name]
