"""The sizes of a biLM, and their form in bilm-tf's and AllenNLP's `options.json`."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import Annotated, Any, Literal, Optional, cast

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

PRECISIONS = ("float32", "bfloat16", "int8", "auto")

# UTF-8 bytes, the marks and a masked position: ids as in AllenNLP.
N_BYTE_CHARACTERS = 262
# Sizes come from files that anybody may have written: these are beyond any model.
LARGEST_SIZE = 2**20
LARGEST_VOCABULARY = 2**28
MAX_LAYERS = 100
# Most characters of a value, and most names, that a message shows.
LONGEST, SHOWN = 80, 5

Size = Annotated[int, Field(strict=True, ge=1, le=LARGEST_SIZE)]
Dim = Annotated[int, Field(ge=0, le=LARGEST_SIZE)]
Rows = Annotated[int, Field(ge=0, le=LARGEST_VOCABULARY)]
Clip = Optional[Annotated[float, Field(gt=0, le=1e30, allow_inf_nan=False)]]
Filter = Annotated[tuple[Size, Size], Field(strict=False)]  # JSON has no tuples
Filters = Annotated[tuple[Filter, ...], Field(strict=False, max_length=MAX_LAYERS)]

# Where each field stands in options.json.
_OPTIONS = {
    "lstm_dim": ("lstm", "dim"),
    "projection_dim": ("lstm", "projection_dim"),
    "n_layers": ("lstm", "n_layers"),
    "cell_clip": ("lstm", "cell_clip"),
    "proj_clip": ("lstm", "proj_clip"),
    "use_skip_connections": ("lstm", "use_skip_connections"),
    "char_embed_dim": ("char_cnn", "embedding", "dim"),
    "filters": ("char_cnn", "filters"),
    "n_highway": ("char_cnn", "n_highway"),
    "activation": ("char_cnn", "activation"),
    "max_characters_per_token": ("char_cnn", "max_characters_per_token"),
}
# What a missing key means there; a key that is not listed here must be given.
_OPTIONAL = {
    "n_layers": 1,
    "cell_clip": None,
    "proj_clip": None,
    "use_skip_connections": False,
    "n_highway": 0,
    "activation": "relu",
}
# The sizes of a model that reads words alone.
NO_CHARACTERS: Any = {"char_embed_dim": 0, "filters": (), "n_highway": 0, "n_characters": 0}
# Files of the package's first models, of bytes, know nothing of these.
_LATER = (
    *("bidirectional", "token_encoder", "n_characters", "n_words", "word_embed_dim"),
    *("connections", "joined_directions", "sentence_marks", "square_projection"),
)


@dataclass(frozen=True, kw_only=True)
class BiLMConfig:
    """Every size of a biLM (Peters et al. 2018, section 3.4). The defaults are
    those of the small English model.

    A token is read by its characters, by a word embedding, or by both. As in
    bilm-tf, words take the place of characters: those of the vocabulary have a
    ready-made vector, which others get from their characters, if there are any. As
    in ELMoForManyLangs, they stand beside them: `[word ; characters]`, projected.

    lstm_dim (int): Cell size of each LSTM, D.
    projection_dim (int): Size of a token vector and of each LSTM's output, P.
        Smaller than `lstm_dim`, or equal to it: then there is no projection, or a square one.
    n_layers (int): LSTM layers of each direction, L.
    cell_clip (Optional[float]): Bound of the cell state, at every step.
    proj_clip (Optional[float]): Bound of the projected output, at every step.
    use_skip_connections (bool): Add a layer's input to its output, from the second layer on.
    char_embed_dim (int): Size of a character embedding; 0 for words alone.
    filters (Tuple[Tuple[int, int], ...]): `(width, number)` of each convolution;
        none for words alone.
    n_highway (int): Highway layers over the convolutions' output.
    activation (str): "relu" or "tanh", of the convolutions.
    max_characters_per_token (int): Characters of a token that are read, marks included.
    bidirectional (bool): Whether there is a backward stack beside the forward one.
    token_encoder (str): "bilm-tf", where characters are UTF-8 bytes, or "manylangs",
        where they are Unicode code points.
    n_characters (int): Rows of the character embedding: 262 for bytes, the size of
        the vocabulary for code points, 0 for words alone.
    n_words (int): Words that have an embedding of their own.
    word_embed_dim (int): Size of a word embedding; P in bilm-tf, 0 without words.
    connections (Optional[str]): How the input of a layer, from the second layer on, joins its
        output: "residual", "highway" (by a gate) or "none"; None as `use_skip_connections`
        says. "residual" and "none" are kept as its values.
    square_projection (bool): Whether the output is projected (and clipped) where `projection_dim`
        is `lstm_dim`, too, as in ELMoForManyLangs.
    joined_directions (bool): Each layer, from the second on, reads what both directions of the
        layer below gave, as the encoder of CoVe does (McCann et al. 2017). Such a model
        sees the words that a language model predicts.
    sentence_marks (bool): Whether a sentence is read with a mark at its start and its end.
    RAISES (ValueError): A size is impossible; the message names it.
    """

    lstm_dim: Size = 512
    projection_dim: Size = 128
    n_layers: Annotated[int, Field(ge=1, le=MAX_LAYERS)] = 2
    cell_clip: Clip = 3.0
    proj_clip: Clip = 3.0
    use_skip_connections: bool = True
    char_embed_dim: Dim = 16
    filters: Filters = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256))
    n_highway: Annotated[int, Field(ge=0, le=MAX_LAYERS)] = 1
    activation: Literal["relu", "tanh"] = "relu"
    max_characters_per_token: Annotated[int, Field(ge=3, le=LARGEST_SIZE)] = 50
    bidirectional: bool = True
    token_encoder: Literal["bilm-tf", "manylangs"] = "bilm-tf"
    n_characters: Rows = N_BYTE_CHARACTERS
    n_words: Rows = 0
    word_embed_dim: Dim = 0
    connections: Optional[Literal["residual", "highway", "none"]] = None
    square_projection: bool = False
    joined_directions: bool = False
    sentence_marks: bool = True

    def __post_init__(self) -> None:
        for name, adapter in _FIELDS.items():
            try:
                adapter.validate_python(getattr(self, name))
            except ValidationError as error:
                first = error.errors()[0]
                raise ValueError(
                    f"{name}: {first['msg']}, got {shortened(first['input'])}"
                ) from None
        object.__setattr__(self, "filters", tuple(map(tuple, self.filters)))
        if self.connections is not None:
            object.__setattr__(self, "use_skip_connections", self.connections == "residual")
        if self.connections != "highway":
            object.__setattr__(self, "connections", None)
        if self.projection_dim > self.lstm_dim:
            raise ValueError(
                f"projection_dim ({self.projection_dim}) must not be larger than "
                f"lstm_dim ({self.lstm_dim})"
            )
        if self.square_projection and self.projection_dim != self.lstm_dim:
            raise ValueError(
                f"square_projection needs projection_dim ({self.projection_dim}) = lstm_dim "
                f"({self.lstm_dim})"
            )
        if self.joined_directions:
            _check_joined(self)
        if self.widest_filter > self.max_characters_per_token:
            raise ValueError(
                f"filters: width {self.widest_filter} is larger than max_characters_per_token "
                f"({self.max_characters_per_token})"
            )
        _check_token_encoder(self)

    @cached_property
    def n_directions(self) -> int:
        """RETURNS (int): Stacks of LSTMs."""
        return 2 if self.bidirectional else 1

    @cached_property
    def width(self) -> int:
        """RETURNS (int): Width of a layer's output, all directions: 2P."""
        return self.n_directions * self.projection_dim

    @property
    def n_filters(self) -> int:
        """RETURNS (int): Sum of the filter counts, F."""
        return sum(number for _, number in self.filters)

    @property
    def widest_filter(self) -> int:
        """RETURNS (int): Width in characters of the widest convolution."""
        return max((width for width, _ in self.filters), default=0)

    @property
    def projected_width(self) -> int:
        """RETURNS (int): Width of what the token encoder's projection reads; 0 if it
        has none."""
        if self.token_encoder == "manylangs":
            return self.word_embed_dim + self.n_filters
        return self.n_filters if self.n_filters != self.projection_dim else 0

    @classmethod
    def from_dict(cls, sizes: Mapping[str, Any]) -> "BiLMConfig":
        """Make a config from keyword arguments as JSON or a spaCy config holds them.

        sizes (Mapping[str, Any]): Field names and values.
        RETURNS (BiLMConfig): The config.
        RAISES (ValueError): An unknown name or an impossible value.
        """
        unknown = sorted(set(sizes) - {field.name for field in fields(cls)})
        if unknown:
            raise ValueError(f"unknown biLM sizes: {listed(unknown)}")
        return cls(**sizes)

    def to_dict(self) -> dict[str, Any]:
        """RETURNS (dict): The sizes in JSON's types; `from_dict` reads them. Those that
        came later than the first files are left out where they have their default."""
        sizes = {**asdict(self), "filters": [list(pair) for pair in self.filters]}
        later = {field.name: field.default for field in fields(self) if field.name in _LATER}
        return {name: size for name, size in sizes.items() if later.get(name, ...) != size}

    @classmethod
    def from_options(
        cls, options: Mapping[str, Any], *, n_words: int = 0, bidirectional: bool = True
    ) -> "BiLMConfig":
        """Read bilm-tf's and AllenNLP's `options.json`. Unknown keys are ignored.

        options (Mapping[str, Any]): The parsed file.
        n_words (int): Words that have a ready-made vector, of which the options say
            nothing. Without characters, all that there are.
        bidirectional (bool): Whether there are two directions.
        RETURNS (BiLMConfig): The config.
        RAISES (ValueError): A key is missing or its value impossible.
        """
        if not isinstance(options, Mapping) or "lstm" not in options:
            raise ValueError("the options have no 'lstm': are they those of an ELMo model?")
        has_characters = "char_cnn" in options
        if not has_characters and not n_words:
            raise ValueError(
                "the options have no 'char_cnn': the model reads word ids, and needs its "
                "'embedding' and a vocabulary"
            )
        sizes = {
            name: _lookup(options, name, path)
            for name, path in _OPTIONS.items()
            if has_characters or path[0] == "lstm"
        }
        if not has_characters:
            sizes.update(NO_CHARACTERS)
        if n_words:
            sizes.update(n_words=n_words, word_embed_dim=sizes["projection_dim"])
        return cls(**sizes, bidirectional=bidirectional)

    def to_options(self) -> dict[str, Any]:
        """RETURNS (dict): The content of an `options.json` that AllenNLP reads
        (which asks for `n_characters` 262).
        RAISES (ValueError): It has no place for ELMoForManyLangs' token encoder, for
            highways between LSTMs, for an encoder as of CoVe, or for words beside characters."""
        lacks = {
            f"the token encoder '{self.token_encoder}'": self.token_encoder != "bilm-tf",
            "connections = 'highway'": self.connections == "highway",
            "joined_directions = true": self.joined_directions,
            "square_projection = true": self.square_projection,
            "sentence_marks = false": not self.sentence_marks,
            "ready-made vectors beside characters": self.n_words > 0 and self.n_characters > 0,
        }
        lacking = ", ".join(name for name, is_so in lacks.items() if is_so)
        if lacking:
            raise ValueError(
                f"an options.json has no place for {lacking}: convert to NAME.safetensors or a "
                f"pipeline"
            )
        options: dict[str, Any] = {"lstm": {}}
        if self.n_characters:
            options["char_cnn"] = {"n_characters": self.n_characters}
        if not self.bidirectional:
            options["bidirectional"] = False
        sizes = self.to_dict()
        for name, (section, *parents, key) in _OPTIONS.items():
            if section not in options:
                continue
            values = options[section]
            for parent in parents:
                values = values.setdefault(parent, {})
            values[key] = sizes[name]
        return options


_FIELDS: dict[str, TypeAdapter] = {
    field.name: TypeAdapter(cast(Any, field.type), config=ConfigDict(strict=True))
    for field in fields(BiLMConfig)
}


def _lookup(options: Mapping[str, Any], name: str, path: tuple[str, ...]) -> Any:
    value: Any = options
    for key in path:
        if not isinstance(value, Mapping) or key not in value:
            if name in _OPTIONAL:
                return _OPTIONAL[name]
            raise ValueError(f"the options lack '{'.'.join(path)}'")
        value = value[key]
    return value


def _check_joined(config: BiLMConfig) -> None:
    """That layers which read both directions have nothing that would not fit their input."""
    lacks = {
        "bidirectional": config.bidirectional,
        "projection_dim = lstm_dim": config.projection_dim == config.lstm_dim,
        "connections = 'none'": not config.use_skip_connections and config.connections is None,
    }
    for what, is_so in lacks.items():
        if not is_so:
            raise ValueError(f"joined_directions needs {what}")


def _check_token_encoder(config: BiLMConfig) -> None:
    """That the sizes of characters and words fit one another."""
    is_bilm_tf = config.token_encoder == "bilm-tf"
    if config.char_embed_dim:
        if not config.filters:
            raise ValueError("filters must hold at least one pair [width, number]")
        if is_bilm_tf and config.n_characters != N_BYTE_CHARACTERS:
            raise ValueError(
                f"n_characters must be {N_BYTE_CHARACTERS} where characters are bytes, "
                f"got {config.n_characters}"
            )
        if not config.n_characters:
            raise ValueError(f"n_characters is 0, but char_embed_dim is {config.char_embed_dim}")
    elif config.filters or config.n_highway or config.n_characters:
        raise ValueError(
            "char_embed_dim is 0, for words alone: there can be no filters, n_highway or "
            "n_characters then"
        )
    elif not config.n_words:
        raise ValueError("char_embed_dim and n_words are 0: a token needs one of the two")
    wanted = config.projection_dim if is_bilm_tf else max(1, config.word_embed_dim)
    if config.word_embed_dim != (wanted if config.n_words else 0):
        raise ValueError(
            f"word_embed_dim ({config.word_embed_dim}) does not go with n_words "
            f"({config.n_words}): it is projection_dim ({config.projection_dim}) in bilm-tf, "
            f"and 0 without words"
        )


def parameter_shapes(config: BiLMConfig) -> dict[str, tuple[int, ...]]:
    """Name the weights of a biLM.

    config (BiLMConfig): The sizes.
    RETURNS (Dict[str, Tuple[int, ...]]): Shapes by the names in `BiLM.state_dict()`, in its order.
    """
    shapes: dict[str, tuple[int, ...]] = {}

    def add(name: str, n_outputs: int, *inputs: int) -> None:
        shapes[f"{name}.weight"] = (n_outputs, *inputs)
        shapes[f"{name}.bias"] = (n_outputs,)

    width, n_filters, gates = config.projection_dim, config.n_filters, 4 * config.lstm_dim
    if config.n_characters:
        shapes["encoder.embedding.weight"] = (config.n_characters, config.char_embed_dim)
    for i, (size, number) in enumerate(config.filters):
        add(f"encoder.convolutions.{i}", number, config.char_embed_dim, size)
    for i in range(config.n_highway):
        add(f"encoder.highways.{i}.gate", n_filters, n_filters)
        add(f"encoder.highways.{i}.nonlinear", n_filters, n_filters)
    if config.projected_width:
        add("encoder.projection", width, config.projected_width)
    if config.n_words:
        shapes["encoder.words.weight"] = (config.n_words, config.word_embed_dim)
    for d in range(config.n_directions):
        for i in range(config.n_layers):
            name, joins = f"stacks.{d}.{i}", i > 0 and config.joined_directions
            shapes[f"{name}.input_weight"] = (gates, config.width if joins else width)
            shapes[f"{name}.state_weight"] = (gates, width)
            shapes[f"{name}.bias"] = (gates,)
            if width < config.lstm_dim or config.square_projection:
                shapes[f"{name}.projection"] = (width, config.lstm_dim)
    if config.connections == "highway":
        for d in range(config.n_directions):
            for i in range(config.n_layers - 1):
                add(f"highways.{d}.{i}.gate", width, width)
    return shapes


def count_parameters(config: BiLMConfig) -> int:
    """RETURNS (int): Numbers in the weights of a biLM."""
    return sum(math.prod(shape) for shape in parameter_shapes(config).values())


def shortened(value: Any) -> str:
    """RETURNS (str): What stands in a message for a value from a file."""
    text = repr(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def listed(names: Sequence[str]) -> str:
    """Join names from a file for a message: the first ones, each cut where it is too long.

    names (Sequence[str]): The names.
    RETURNS (str): The first names, and how many others there are.
    """
    shown = [name if len(name) <= LONGEST else f"{name[:LONGEST]}..." for name in names[:SHOWN]]
    more = [f"{len(names) - SHOWN:,} others"] if len(names) > SHOWN else []
    return ", ".join([*shown, *more])


def check_precision(precision: str) -> None:
    """Check the name of a precision.

    precision (str): In which numbers matrix products are computed.
    RAISES (ValueError): There is no such precision.
    """
    if precision not in PRECISIONS:
        raise ValueError(f"precision must be one of {', '.join(PRECISIONS)}, got {precision!r}")
