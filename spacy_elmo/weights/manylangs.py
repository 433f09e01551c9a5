"""Format of ELMoForManyLangs: a folder with two state dicts and two vocabularies."""

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from pathlib import Path, PureWindowsPath
from typing import Any, Optional

import numpy as np
import srsly

from ..files import atomic_folder
from ..files.errors import named_errors
from ..frozen.config import BiLMConfig, shortened
from ..frozen.gates import FORGET_BIAS, swapped_gates
from ..frozen.model import FrozenBiLM
from ..frozen.vocabulary import InputVocabulary, Vocabularies
from .archives import File, read_object
from .attribution import LICENSES_FILE
from .bundle import ModelBundle
from .format import Format, rounding
from .layout import (
    Arrays,
    Entry,
    build,
    open_files,
    plain,
    read_parameters,
    reread,
    stored_arrays,
)
from .manylangs_softmax import CLASSIFIER_FILE, read_classifier
from .state_dict_file import StateDict, import_torch, read_state_dict
from .vocabulary_files import dic_content, read_dic

ENCODER_FILE = "encoder.pkl"
TOKEN_ENCODER_FILE = "token_embedder.pkl"
CONFIG_FILE = "config.json"
SIZES_FILE = "sizes.json"
PROVENANCE = "spacy_elmo_provenance"
CHARACTERS = "char_emb_layer.embedding.weight"
WORDS = "word_emb_layer.embedding.weight"

# Sizes of all published models. Their archives name a file of sizes, but do not contain it.
PUBLIC_SIZES: dict[str, Any] = {
    "encoder": {
        "name": "elmo",
        "dim": 4096,
        "projection_dim": 512,
        "n_layers": 2,
        "cell_clip": 3,
        "proj_clip": 3,
    },
    "token_embedder": {
        "name": "cnn",
        "activation": "relu",
        "filters": [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256], [6, 512], [7, 1024]],
        "n_highway": 2,
        "word_dim": 100,
        "char_dim": 50,
        "max_characters_per_token": 50,
    },
}
_KEYS = {name: [key for key in sizes if key != "name"] for name, sizes in PUBLIC_SIZES.items()}


class ManyLangs(Format):
    """Folder of an ELMoForManyLangs model."""

    name = "manylangs"
    marker = ENCODER_FILE
    written = frozenset(
        {ENCODER_FILE, TOKEN_ENCODER_FILE, "char.dic", "word.dic", SIZES_FILE, CONFIG_FILE}
        | {LICENSES_FILE}
    )
    contents = "model of ELMoForManyLangs"
    programs = "ELMoForManyLangs' programs"

    def __init__(self, folder: File):
        self.folder = folder

    @classmethod
    def find(cls, path: File) -> Optional["ManyLangs"]:
        """Find a model by its folder, or by one of its state dicts."""
        names = (ENCODER_FILE, TOKEN_ENCODER_FILE)
        if path.name in names and path.is_file():
            return cls(path.parent)  # type: ignore[arg-type]
        return cls(path) if any((path / name).is_file() for name in names) else None

    def read(self, *, weights_only: bool = False, softmax: bool = True) -> ModelBundle:
        """Read settings, vocabularies, state dicts and classifier."""
        folder = self.folder
        needed = (CONFIG_FILE, TOKEN_ENCODER_FILE, ENCODER_FILE)
        missing = ", ".join(name for name in needed if not (folder / name).is_file())
        if missing:
            raise ValueError(f"{folder}: {missing} is missing. An ELMoForManyLangs model needs it")
        settings = read_object(folder / CONFIG_FILE)
        sizes, sizes_from = _read_sizes(folder, settings)
        stored = folder / TOKEN_ENCODER_FILE, folder / ENCODER_FILE
        files = open_files(*stored)
        token_encoder, encoder = map(read_state_dict, stored)
        with named_errors(sizes_from):
            config = _config(sizes, token_encoder, encoder)
        layouts = [*_token_encoder_layout(config)], [*_encoder_layout(config)]

        def parameters_of(*parts: StateDict) -> dict[str, np.ndarray]:
            parameters = {}
            for tensors, layout in zip(parts, layouts):
                parameters.update(read_parameters(layout, tensors, sizes_from))
            return parameters

        vocabularies = Vocabularies(
            _read_dic(folder / "char.dic", config.n_characters, CHARACTERS),
            _read_dic(folder / "word.dic", config.n_words, WORDS),
        )
        parameters = parameters_of(token_encoder, encoder)
        read = reread(files, lambda *again: parameters_of(*map(read_state_dict, again)))
        bilm = build(config, vocabularies, parameters, source=folder, read=read)
        bundle = ModelBundle(bilm, provenance=bilm.provenance)
        bundle.add_provenance(settings.get(PROVENANCE), folder / CONFIG_FILE)
        bundle.missing = CLASSIFIER_FILE
        if softmax and not weights_only and (folder / CLASSIFIER_FILE).is_file():
            bundle.prediction = read_classifier(folder, bilm)
        return bundle

    def files(self) -> list[Path]:
        """Return all files of the folder."""
        assert isinstance(self.folder, Path)
        return sorted(path for path in self.folder.iterdir() if path.is_file())

    @classmethod
    def check(cls, bundle: ModelBundle) -> None:
        """Check that the format can store the model's sizes and vocabularies."""
        to_sizes(bundle.bilm.config)
        _dictionaries(bundle.bilm)

    @classmethod
    def losses(cls, bundle: ModelBundle, dtype: str) -> list[str]:
        """List what the format loses: parts that it cannot store, and forget biases by rounding."""
        lost = super().losses(bundle, dtype)
        n_changed, largest = rounding(_stored_biases(bundle.bilm))
        if n_changed:
            lost.append(
                f"precision ({n_changed:,} forget biases, stored plus 1 in this format, change by "
                f"up to {largest:.2g})"
            )
        return lost

    @classmethod
    def write(cls, bundle: ModelBundle, target: Path, dtype: str = "float32") -> None:
        """Write the folder with state dicts, vocabularies and settings."""
        config = bundle.bilm.config
        sizes, dictionaries = to_sizes(config), _dictionaries(bundle.bilm)
        parameters = bundle.bilm.arrays()
        torch = import_torch("The format of ELMoForManyLangs")
        with atomic_folder(target) as folder:
            folder.mkdir()
            for file, layout in (
                (TOKEN_ENCODER_FILE, _token_encoder_layout(config)),
                (ENCODER_FILE, _encoder_layout(config)),
            ):
                arrays = stored_arrays(layout, parameters)
                tensors = OrderedDict((name, torch.tensor(array)) for name, array in arrays)
                # `full_disk` only sees a full disk if we open the file.
                with (folder / file).open("wb") as opened:
                    torch.save(tensors, opened)
            for name, content in dictionaries.items():
                (folder / name).write_text(content, "utf8", newline="\n")
            srsly.write_json(folder / SIZES_FILE, sizes)
            settings = {"config_path": SIZES_FILE, "max_chars": None, PROVENANCE: bundle.provenance}
            srsly.write_json(folder / CONFIG_FILE, settings)


def to_sizes(config: BiLMConfig) -> dict[str, Any]:
    """Return the sizes in the form of ELMoForManyLangs' configuration files.

    config (BiLMConfig): The sizes.
    RETURNS (dict): All entries that their program reads, as JSON.
    RAISES (ValueError): The format cannot store such a model.
    """
    if config.token_encoder != "manylangs":
        raise ValueError(
            "the format of ELMoForManyLangs has no place for a model that reads tokens as UTF-8 "
            "bytes: it needs vocabularies of characters and words. Convert to NAME.safetensors, "
            "NAME.hdf5 or a pipeline"
        )
    lacks = {
        "one direction": not config.bidirectional,
        "highway connections": config.connections == "highway",
        "joined directions": config.joined_directions,
        "sentences without marks": not config.sentence_marks,
        "no skip connections": not config.use_skip_connections and config.n_layers > 1,
        "LSTMs without projection": config.projection_dim == config.lstm_dim
        and not config.square_projection,
    }
    lacking = ", ".join(name for name, is_so in lacks.items() if is_so)
    if lacking:
        raise ValueError(f"ELMoForManyLangs' format has no place for {lacking}")
    dims = {"dim": config.lstm_dim, "word_dim": config.word_embed_dim}
    sizes = {**config.to_dict(), **dims, "char_dim": config.char_embed_dim}
    return {
        "encoder": {"name": "elmo", **{key: sizes[key] for key in _KEYS["encoder"]}},
        "token_embedder": {"name": "cnn", **{key: sizes[key] for key in _KEYS["token_embedder"]}},
        "classifier": {"name": "sampled_softmax", "n_samples": 8192},
        "dropout": 0.1,
    }


def _dictionaries(bilm: FrozenBiLM) -> dict[str, str]:
    """Return the content of each `.dic` file by its name."""
    named = zip(("char.dic", "word.dic"), bilm.vocabularies)
    return {name: dic_content(words, name) for name, words in named if words is not None}


def _stored_biases(bilm: FrozenBiLM) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield each LSTM bias, and its value after 1 was added for the file and subtracted again.

    Biases that were read from such a file do not change.
    """
    for name, bias in bilm.arrays().items():
        if name.startswith("stacks.") and name.endswith(".bias"):
            exact = np.asarray(bias, dtype="float32")
            (again,) = _without_forget_bias(_with_forget_bias([exact]))
            yield exact, again


def _read_dic(file: File, n_rows: int, tensor: str) -> Optional[InputVocabulary]:
    if not n_rows:
        return None
    if not file.is_file():
        raise ValueError(f"{file} is missing: it names the rows of '{tensor}'")
    return read_dic(file, n_rows, f"'{tensor}' in {TOKEN_ENCODER_FILE}")


def _read_sizes(folder: File, settings: dict[str, Any]) -> tuple[Mapping[str, Any], str]:
    """Read the sizes, and return them with their source.

    `config_path` is a path on the machine that trained the model. Only the folder is searched for
    the file; if it is missing, the published sizes are used.
    """
    named = settings.get("config_path")
    if not isinstance(named, str) or not named:
        raise ValueError(f"{folder / CONFIG_FILE}: 'config_path' is missing")
    path = PureWindowsPath(named)  # It splits at both kinds of slashes.
    names = [path.name, f"configs/{path.name}"] if path.name else []
    if not path.anchor and ".." not in path.parts:
        names.insert(0, path.as_posix())
    for name in names:
        if _is_file(folder / name):
            return read_object(folder / name), str(folder / name)
    missing = f"{shortened(named)} is not in {folder}; if you have it, copy it there"
    return PUBLIC_SIZES, f"the published sizes ({missing})"


def _is_file(path: File) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # Not a valid file name.
        return False


def _config(sizes: Mapping[str, Any], token_encoder: StateDict, stacks: StateDict) -> BiLMConfig:
    """Make the config; the tensors determine the sizes of the vocabularies."""
    encoder = _section(sizes, "encoder", "elmo")
    tokens = _section(sizes, "token_embedder", "cnn")
    has_characters = tokens["char_dim"] != 0
    return BiLMConfig(
        lstm_dim=encoder["dim"],
        projection_dim=encoder["projection_dim"],
        n_layers=encoder["n_layers"],
        cell_clip=encoder["cell_clip"] or None,
        proj_clip=encoder["proj_clip"] or None,
        use_skip_connections=True,
        char_embed_dim=tokens["char_dim"],
        filters=tokens["filters"] if has_characters else (),
        n_highway=tokens["n_highway"] if has_characters else 0,
        activation=tokens["activation"],
        max_characters_per_token=tokens["max_characters_per_token"],
        token_encoder="manylangs",
        n_characters=_n_rows(token_encoder, CHARACTERS) if has_characters else 0,
        n_words=_n_rows(token_encoder, WORDS) if tokens["word_dim"] != 0 else 0,
        word_embed_dim=tokens["word_dim"],
        square_projection=encoder["dim"] == encoder["projection_dim"]
        and "forward_layer_0.state_projection.weight" in stacks,
    )


def _section(sizes: Mapping[str, Any], name: str, kind: str) -> Mapping[str, Any]:
    section = sizes.get(name)
    if not isinstance(section, Mapping):
        raise ValueError(f"'{name}' is missing")
    if section.get("name", kind) != kind:
        raise ValueError(
            f"'{name}' has the name {shortened(section['name'])}; only '{kind}' is supported"
        )
    for key in _KEYS[name]:
        if key not in section:
            raise ValueError(f"'{name}.{key}' is missing")
    return section


def _n_rows(stored: StateDict, name: str) -> int:
    shape = stored.shape(name)
    if shape is None or len(shape) != 2:
        raise ValueError(f"{stored.source}: tensor '{name}' should be a matrix, its shape: {shape}")
    return shape[0]


def _token_encoder_layout(config: BiLMConfig) -> Iterator[Entry]:
    n_filters = config.n_filters
    if config.n_words:
        yield plain(WORDS, (config.n_words, config.word_embed_dim), "encoder.words.weight")
    if config.n_characters:
        shape = (config.n_characters, config.char_embed_dim)
        yield plain(CHARACTERS, shape, "encoder.embedding.weight")
    for i, (width, number) in enumerate(config.filters):
        ours, theirs = f"encoder.convolutions.{i}", f"convolutions.{i}"
        yield plain(f"{theirs}.weight", (number, config.char_embed_dim, width), f"{ours}.weight")
        yield plain(f"{theirs}.bias", (number,), f"{ours}.bias")
    for k in range(config.n_highway):
        ours, theirs = f"encoder.highways.{k}", f"highways._layers.{k}"
        for part, columns in (("weight", (n_filters,)), ("bias", ())):
            yield Entry(
                f"{theirs}.{part}",
                (2 * n_filters, *columns),
                (f"{ours}.nonlinear.{part}", f"{ours}.gate.{part}"),
                _highway_halves,
                lambda arrays: np.concatenate([arrays[0], -arrays[1]]),
            )
    width = config.projection_dim
    shape = (width, config.projected_width)
    yield plain("projection.weight", shape, "encoder.projection.weight")
    yield plain("projection.bias", (width,), "encoder.projection.bias")


def _highway_halves(values: np.ndarray) -> Arrays:
    """Split a highway layer, and negate the gate.

    Their gate weights the input, ours the transformed input: 1 - s(x) = s(-x).
    """
    nonlinear, gate = np.split(values, 2)
    return [nonlinear, -gate]


def _encoder_layout(config: BiLMConfig) -> Iterator[Entry]:
    width, gates = config.projection_dim, 4 * config.lstm_dim
    for number, direction in enumerate(("forward", "backward")):
        for layer in range(config.n_layers):
            theirs, ours = f"{direction}_layer_{layer}", f"stacks.{number}.{layer}"
            for their_part, our_part in (("input", "input_weight"), ("state", "state_weight")):
                yield Entry(
                    f"{theirs}.{their_part}_linearity.weight",
                    (gates, width),
                    (f"{ours}.{our_part}",),
                    lambda values: [swapped_gates(values)],
                    lambda arrays: swapped_gates(arrays[0]),
                )
            yield Entry(
                f"{theirs}.state_linearity.bias",
                (gates,),
                (f"{ours}.bias",),
                _without_forget_bias,
                _with_forget_bias,
            )
            if width < config.lstm_dim or config.square_projection:
                shape = (width, config.lstm_dim)
                yield plain(f"{theirs}.state_projection.weight", shape, f"{ours}.projection")


def _without_forget_bias(values: np.ndarray) -> Arrays:
    """Subtract the forget bias, which their files include and our LSTM adds when it runs."""
    i, j, f, o = np.split(swapped_gates(values), 4)
    return [np.concatenate([i, j, f - np.float32(FORGET_BIAS), o])]


def _with_forget_bias(arrays: Arrays) -> np.ndarray:
    i, j, f, o = np.split(arrays[0], 4)
    return swapped_gates(np.concatenate([i, j, f + np.float32(FORGET_BIAS), o]))
