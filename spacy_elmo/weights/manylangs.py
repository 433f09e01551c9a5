"""Format of ELMoForManyLangs: a folder with two state dicts and two vocabularies."""

from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path, PureWindowsPath
from typing import Any, Optional

import numpy as np
import srsly

from ..files import atomic_folder
from ..files.errors import named_errors, shortened
from ..files.optional import import_optional
from ..frozen.model import FrozenBiLM
from ..model.config import NO_CHARACTERS, BiLMConfig, swapped_gates
from ..model.vocabulary import InputVocabulary, Vocabularies
from .archives import File, beside_weights, read_object
from .attribution import LICENSES_FILE
from .bundle import Format, ModelBundle
from .layout import (
    Entry,
    build,
    open_files,
    plain,
    read_parameters,
    reread,
    stored_arrays,
    with_forget_bias,
    without_forget_bias,
)
from .manylangs_softmax import CLASSIFIER_FILE, read_classifier
from .sizes import check_representable, read_sizes, under, write_sizes
from .state_dict_file import StateDict, read_state_dict
from .tensor_file import rounded
from .vocabulary_files import dic_content, read_dic

ENCODER_FILE = "encoder.pkl"
TOKEN_ENCODER_FILE = "token_embedder.pkl"
CONFIG_FILE = "config.json"
SIZES_FILE = "sizes.json"
PROVENANCE = "spacy_elmo_provenance"
CHARACTERS = "char_emb_layer.embedding.weight"
WORDS = "word_emb_layer.embedding.weight"

# Key path of each size in the configuration file.
PLACES = {
    "lstm_dim": ("encoder", "dim"),
    **under("encoder", "projection_dim", "n_layers", "cell_clip", "proj_clip"),
    **under("token_embedder", "activation", "filters", "n_highway"),
    "word_embed_dim": ("token_embedder", "word_dim"),
    "char_embed_dim": ("token_embedder", "char_dim"),
    **under("token_embedder", "max_characters_per_token"),
}
# Supported `name` of each section.
_KINDS = {"encoder": "elmo", "token_embedder": "cnn"}
# Sizes of all published models. Their archives do not contain the configuration file that they
# refer to.
PUBLIC_SIZES: dict[str, Any] = {
    "lstm_dim": 4096,
    "projection_dim": 512,
    "n_layers": 2,
    "cell_clip": 3,
    "proj_clip": 3,
    "activation": "relu",
    "filters": [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256], [6, 512], [7, 1024]],
    "n_highway": 2,
    "word_embed_dim": 100,
    "char_embed_dim": 50,
    "max_characters_per_token": 50,
}


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
        if path.name in LAYOUTS and path.is_file():
            return cls(path.parent)  # type: ignore[arg-type]
        return cls(path) if any((path / name).is_file() for name in LAYOUTS) else None

    def read(self, *, weights_only: bool = False, softmax: bool = True) -> ModelBundle:
        """Read settings, vocabularies, state dicts and the softmax (`classifier.pkl`)."""
        folder = self.folder
        needed = (CONFIG_FILE, *LAYOUTS)
        missing = ", ".join(name for name in needed if not (folder / name).is_file())
        if missing:
            raise ValueError(f"{folder}: {missing} is missing. An ELMoForManyLangs model needs it")
        for name in (CONFIG_FILE, TOKEN_ENCODER_FILE, CLASSIFIER_FILE, "char.dic", "word.dic"):
            beside_weights(folder / name, folder / ENCODER_FILE)
        settings = read_object(folder / CONFIG_FILE)
        sizes, sizes_from = _read_sizes(folder, settings)
        stored = [folder / name for name in LAYOUTS]
        files = open_files(*stored)
        token_encoder, encoder = map(read_state_dict, stored)
        with named_errors(sizes_from):
            config = _config(sizes, token_encoder, encoder)

        def parameters_of(*parts: StateDict) -> dict[str, np.ndarray]:
            parameters = {}
            for tensors, layout in zip(parts, LAYOUTS.values()):
                parameters.update(read_parameters(layout(config), tensors, sizes_from))
            return parameters

        vocabularies = Vocabularies(
            _read_dic(folder / "char.dic", config.n_characters, CHARACTERS),
            _read_dic(folder / "word.dic", config.n_words, WORDS),
        )
        parameters = parameters_of(token_encoder, encoder)
        read = reread(files, lambda *again: parameters_of(*map(read_state_dict, again)))
        bilm = build(config, vocabularies, parameters, source=folder, read=read)
        bundle = ModelBundle(bilm, missing=CLASSIFIER_FILE)
        bundle.add_provenance(settings.get(PROVENANCE), folder / CONFIG_FILE)
        if softmax and not weights_only and (folder / CLASSIFIER_FILE).is_file():
            bundle.prediction = read_classifier(folder, bilm)
        return bundle

    def files(self) -> list[Path]:
        """Return all files of the folder."""
        assert isinstance(self.folder, Path)
        return sorted(path for path in self.folder.iterdir() if path.is_file())

    @classmethod
    def check(cls, bundle: ModelBundle) -> None:
        """Raise a ValueError if the format cannot store the sizes or vocabularies of a model."""
        to_sizes(bundle.bilm.config)
        _dictionaries(bundle.bilm)

    @classmethod
    def as_read(cls, name: str, weight: np.ndarray, dtype: str) -> np.ndarray:
        """Return a weight as a reader gets it after it was written in this format.

        The file stores a forget bias plus 1, so rounding can change its last digits.
        """
        exact = rounded(weight, dtype)
        if name.startswith("stacks.") and name.endswith(".bias"):
            return without_forget_bias(with_forget_bias(exact))
        return exact

    @classmethod
    def write(cls, bundle: ModelBundle, target: Path, dtype: str = "float32") -> None:
        """Write the folder with state dicts, vocabularies and settings."""
        config = bundle.bilm.config
        sizes, dictionaries = to_sizes(config), _dictionaries(bundle.bilm)
        parameters = bundle.bilm.arrays()
        torch = import_optional("torch", "The format of ELMoForManyLangs")
        with atomic_folder(target) as folder:
            folder.mkdir()
            for file, layout in LAYOUTS.items():
                arrays = stored_arrays(layout(config), parameters)
                tensors = OrderedDict((name, torch.tensor(array)) for name, array in arrays)
                # If PyTorch writes to an open file, `full_disk` can find the error of a full
                # disk.
                with (folder / file).open("wb") as opened:
                    torch.save(tensors, opened)
            for name, content in dictionaries.items():
                (folder / name).write_text(content, "utf8", newline="\n")
            srsly.write_json(folder / SIZES_FILE, sizes)
            settings = {"config_path": SIZES_FILE, "max_chars": None, PROVENANCE: bundle.provenance}
            srsly.write_json(folder / CONFIG_FILE, settings)


def to_sizes(config: BiLMConfig) -> dict[str, Any]:
    """Return the content of ELMoForManyLangs' configuration file, as a dict.

    RAISES (ValueError): The format cannot store the model.
    """
    lacks = {
        "a model that reads UTF-8 bytes or only words": config.token_encoder != "manylangs",
        "one direction": not config.bidirectional,
        "highway connections": config.connections == "highway",
        "joined directions": config.joined_directions,
        "sentences without marks": not config.sentence_marks,
        "no skip connections": not config.use_skip_connections and config.n_layers > 1,
        "LSTMs without projection": config.projection_dim == config.lstm_dim
        and not config.square_projection,
    }
    check_representable("the format of ELMoForManyLangs", lacks)
    sizes: dict[str, Any] = {section: {"name": kind} for section, kind in _KINDS.items()}
    # Their programs ask for these settings, although vectors do not depend on them.
    sizes["classifier"] = {"name": "sampled_softmax", "n_samples": 8192}
    sizes["dropout"] = 0.1
    write_sizes(sizes, config, PLACES)
    return sizes


def _dictionaries(bilm: FrozenBiLM) -> dict[str, str]:
    """Return the content of the `.dic` files, by file name."""
    named = zip(("char.dic", "word.dic"), bilm.vocabularies)
    return {name: dic_content(words, name) for name, words in named if words is not None}


def _read_dic(file: File, n_rows: int, tensor: str) -> Optional[InputVocabulary]:
    return None if not n_rows else read_dic(file, n_rows, f"'{tensor}' in {TOKEN_ENCODER_FILE}")


def _read_sizes(folder: File, settings: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """Find the sizes of a model. Return them, and their source for error messages.

    `settings` is the content of config.json. Its entry `config_path` names the file with the sizes,
    by a path on the machine that trained the model. If the model's folder contains a file of this
    name, it is read. Otherwise the sizes of the published models are used.
    """
    named = settings.get("config_path")
    if not isinstance(named, str) or not named:
        raise ValueError(f"{folder / CONFIG_FILE}: 'config_path' is missing")
    path = PureWindowsPath(named)  # It splits at slashes and at backslashes.
    names = [path.name, f"configs/{path.name}"] if path.name else []
    if not path.anchor and ".." not in path.parts:
        names.insert(0, path.as_posix())
    for name in names:
        if _is_file(folder / name):
            content = read_object(beside_weights(folder / name, folder / ENCODER_FILE))
            with named_errors(folder / name):
                return _sizes_in(content), str(folder / name)
    missing = f"{shortened(named)} is not in {folder}; if you have the file, copy it there"
    return PUBLIC_SIZES, f"the published sizes ({missing})"


def _sizes_in(content: dict[str, Any]) -> dict[str, Any]:
    sizes = read_sizes(content, PLACES)
    for section, kind in _KINDS.items():
        found = content[section].get("name", kind)
        if found != kind:
            raise ValueError(
                f"'{section}' has the name {shortened(found)}. Only '{kind}' is supported"
            )
    return sizes


def _is_file(path: File) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # This system does not allow the name.
        return False


def _config(sizes: dict[str, Any], token_encoder: StateDict, encoder: StateDict) -> BiLMConfig:
    """Make the config. The size of each vocabulary is the number of rows of its embedding."""
    clips = {name: sizes[name] or None for name in ("cell_clip", "proj_clip")}
    has_characters, has_words = sizes["char_embed_dim"] != 0, sizes["word_embed_dim"] != 0
    rows = {"n_characters": _n_rows(token_encoder, CHARACTERS)} if has_characters else NO_CHARACTERS
    return BiLMConfig(
        **{**sizes, **clips, **rows},
        token_encoder="manylangs",
        n_words=_n_rows(token_encoder, WORDS) if has_words else 0,
        square_projection=sizes["lstm_dim"] == sizes["projection_dim"]
        and "forward_layer_0.state_projection.weight" in encoder,
    )


def _n_rows(stored: StateDict, name: str) -> int:
    shape = stored.shape(name)
    if shape is None or len(shape) != 2:
        raise ValueError(f"{stored.source}: tensor '{name}' must be a matrix, not {shape}")
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
        # ELMoForManyLangs multiplies the input by the gate. bilm-tf multiplies the transformed
        # input by the gate. So bilm-tf's gate is 1 - sigmoid(x) = sigmoid(-x).
        for part, columns in (("weight", (n_filters,)), ("bias", ())):
            yield Entry(
                f"{theirs}.{part}",
                (2 * n_filters, *columns),
                (f"{ours}.nonlinear.{part}", f"{ours}.gate.{part}"),
                lambda values: [values[:n_filters], -values[n_filters:]],
                lambda arrays: np.concatenate([arrays[0], -arrays[1]]),
            )
    width = config.projection_dim
    shape = (width, config.projected_width)
    yield plain("projection.weight", shape, "encoder.projection.weight")
    yield plain("projection.bias", (width,), "encoder.projection.bias")


def _encoder_layout(config: BiLMConfig) -> Iterator[Entry]:
    width, gates = config.projection_dim, 4 * config.lstm_dim
    for number, direction in enumerate(("forward", "backward")):
        for layer in range(config.n_layers):
            theirs, ours = f"{direction}_layer_{layer}", f"stacks.{number}.{layer}"
            for part in ("input", "state"):
                their_name, our_name = f"{theirs}.{part}_linearity.weight", f"{ours}.{part}_weight"
                yield plain(their_name, (gates, width), our_name, swapped_gates)
            yield Entry(
                f"{theirs}.state_linearity.bias",
                (gates,),
                (f"{ours}.bias",),
                lambda values: [without_forget_bias(values)],
                lambda arrays: with_forget_bias(*arrays),
            )
            if width < config.lstm_dim or config.square_projection:
                shape = (width, config.lstm_dim)
                yield plain(f"{theirs}.state_projection.weight", shape, f"{ours}.projection")


# State dicts of a model, and their layouts.
LAYOUTS = {TOKEN_ENCODER_FILE: _token_encoder_layout, ENCODER_FILE: _encoder_layout}
