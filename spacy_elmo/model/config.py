"""Sizes of a biLM, and the shapes and layout of its weights."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import Annotated, Any, Literal, Optional, cast

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from ..files.errors import listed, shortened

# Added to the bias of the forget gate when a model runs. Stored weights do not include it.
FORGET_BIAS = 1.0
PRECISIONS = ("float32", "bfloat16", "int8", "auto")

# Number of AllenNLP's character ids: UTF-8 bytes, marks and a masked position.
N_BYTE_CHARACTERS = 262
# Limits for sizes from untrusted files, which no real model reaches.
LARGEST_SIZE = 2**20
LARGEST_VOCABULARY = 2**28
MAX_LAYERS = 100

Size = Annotated[int, Field(strict=True, ge=1, le=LARGEST_SIZE)]
Dim = Annotated[int, Field(ge=0, le=LARGEST_SIZE)]
Rows = Annotated[int, Field(ge=0, le=LARGEST_VOCABULARY)]
Clip = Optional[Annotated[float, Field(gt=0, le=1e30, allow_inf_nan=False)]]
Filter = Annotated[tuple[Size, Size], Field(strict=False)]  # JSON has lists instead of tuples.
Filters = Annotated[tuple[Filter, ...], Field(strict=False, max_length=MAX_LAYERS)]

# Sizes of a model that only reads words.
NO_CHARACTERS: Any = {"char_embed_dim": 0, "filters": (), "n_highway": 0, "n_characters": 0}
# Fields that only few models need. They are written only if they differ from the default.
_RARE = (
    *("bidirectional", "token_encoder", "n_characters", "n_words", "word_embed_dim"),
    *("connections", "joined_directions", "sentence_marks", "square_projection"),
)


@dataclass(frozen=True, kw_only=True)
class BiLMConfig:
    """Sizes of a biLM (Peters et al. 2018, section 3.4).

    The defaults are the sizes of the small English model.

    The token encoder reads characters, words, or both. If it reads both: in bilm-tf, words in the
    vocabulary have a ready-made vector, and all other words are read as characters. In
    ELMoForManyLangs, the encoder projects `[word ; characters]` for every token.

    lstm_dim (int): Cell size of each LSTM, D.
    projection_dim (int): Size of a token vector and of each LSTM's output, P. At most `lstm_dim`.
        If both are equal, `square_projection` decides whether the LSTM has a projection.
    n_layers (int): Number of LSTM layers of each direction, L.
    cell_clip (Optional[float]): The cell state is clipped to -cell_clip .. cell_clip at every step;
        None for no limit.
    proj_clip (Optional[float]): The projected output is clipped to -proj_clip .. proj_clip at every
        step; None for no limit.
    use_skip_connections (bool): Whether to add the input of a layer to its output, from the second
        layer on.
    char_embed_dim (int): Size of a character embedding; 0 if the model reads only words.
    filters (Tuple[Tuple[int, int], ...]): Width and number of filters of each convolution; empty
        if the model reads only words.
    n_highway (int): Number of highway layers over the convolutions' output.
    activation (str): Activation of the convolutions, "relu" or "tanh".
    max_characters_per_token (int): Maximum number of characters per token, including two marks for
        its start and end.
    bidirectional (bool): Whether the model has a backward stack in addition to the forward stack.
    token_encoder (str): "bilm-tf" reads UTF-8 bytes, "manylangs" reads Unicode code points.
    n_characters (int): Rows of the character embedding: 262 for bytes, the size of the vocabulary
        for code points, 0 if the model reads only words.
    n_words (int): Number of words with an embedding.
    word_embed_dim (int): Size of a word embedding; P in bilm-tf, 0 without words.
    connections (Optional[str]): Connection from the input to the output of a layer, from the
        second layer on: "residual", "highway" (with a gate) or "none". "residual"
        and "none" only set `use_skip_connections`. With None, `use_skip_connections` decides.
    square_projection (bool): Whether the output is projected and clipped even if `projection_dim`
        equals `lstm_dim`, as in ELMoForManyLangs.
    joined_directions (bool): Whether each layer, from the second layer on, reads both directions
        of the layer below, as in CoVe's encoder (McCann et al. 2017). Such a model cannot be a
        language model, because it sees the words to predict.
    sentence_marks (bool): Whether a sentence is read with a mark at its start and its end, such as
        `<S>` and `</S>`.
    RAISES (ValueError): A size is impossible. The message names the size.
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
        # Check before the conversions below: a wrong type would otherwise fail there, with a
        # message that does not name the field.
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
        # Only a gate has weights of its own. All other configs of the same model must be equal,
        # whichever of the two fields a file sets.
        if self.connections != "highway":
            object.__setattr__(self, "connections", None)
        if self.projection_dim > self.lstm_dim:
            raise ValueError(
                f"projection_dim ({self.projection_dim}) is larger than lstm_dim "
                f"({self.lstm_dim}). Decrease the first or increase the second."
            )
        if self.square_projection and self.projection_dim != self.lstm_dim:
            raise ValueError(
                f"square_projection needs equal sizes: projection_dim is {self.projection_dim}, "
                f"lstm_dim {self.lstm_dim}. Make them equal, or remove square_projection."
            )
        if self.joined_directions:
            _check_joined(self)
        if self.widest_filter > self.max_characters_per_token:
            raise ValueError(
                f"filters: width {self.widest_filter} is larger than max_characters_per_token "
                f"({self.max_characters_per_token}). Increase it or remove the filter."
            )
        _check_token_encoder(self)

    @cached_property
    def n_directions(self) -> int:
        """Number of LSTM stacks."""
        return 2 if self.bidirectional else 1

    @cached_property
    def width(self) -> int:
        """Width of a layer's output over all directions: 2P for two directions."""
        return self.n_directions * self.projection_dim

    @property
    def has_clips(self) -> bool:
        """True if the cell state or the projected output has a limit."""
        return self.cell_clip is not None or self.proj_clip is not None

    @property
    def n_filters(self) -> int:
        """Number of filters of all convolutions together, F."""
        return sum(number for _, number in self.filters)

    @property
    def widest_filter(self) -> int:
        """Width of the widest convolution, in characters."""
        return max((width for width, _ in self.filters), default=0)

    @property
    def projected_width(self) -> int:
        """Input width of the token encoder's projection; 0 without a projection."""
        if self.token_encoder == "manylangs":
            return self.word_embed_dim + self.n_filters
        return self.n_filters if self.n_filters != self.projection_dim else 0

    @classmethod
    def from_dict(cls, sizes: Mapping[str, Any]) -> "BiLMConfig":
        """Make a config from the values of a JSON file or a spaCy config.

        RAISES (ValueError): A name is unknown, or a value is impossible.
        """
        unknown = sorted(set(sizes) - {field.name for field in fields(cls)})
        if unknown:
            raise ValueError(f"unknown sizes of a biLM: {listed(unknown)}. Correct or remove them.")
        return cls(**sizes)

    def all_sizes(self) -> dict[str, Any]:
        """Return all sizes as a dict for JSON, including defaults."""
        return {**asdict(self), "filters": [list(pair) for pair in self.filters]}

    def to_dict(self) -> dict[str, Any]:
        """Return the sizes as a dict for JSON. `from_dict` reads it.

        Fields that only few models need are left out if they have their default.
        """
        # The default here is `...`, because None is a default of some sizes.
        rare = {field.name: field.default for field in fields(self) if field.name in _RARE}
        sizes = self.all_sizes()
        return {name: sizes[name] for name in sizes if rare.get(name, ...) != sizes[name]}


_FIELDS: dict[str, TypeAdapter] = {
    field.name: TypeAdapter(cast(Any, field.type), config=ConfigDict(strict=True))
    for field in fields(BiLMConfig)
}


def _check_joined(config: BiLMConfig) -> None:
    """Raise ValueError if the other sizes do not allow `joined_directions`."""
    lacks = {
        "bidirectional": config.bidirectional,
        "projection_dim = lstm_dim": config.projection_dim == config.lstm_dim,
        "connections = 'none'": not config.use_skip_connections and config.connections is None,
    }
    for what, is_so in lacks.items():
        if not is_so:
            raise ValueError(f"joined_directions needs {what}. Set it, or drop joined_directions.")


def _check_token_encoder(config: BiLMConfig) -> None:
    """Raise ValueError if the sizes of characters and words contradict each other."""
    is_bilm_tf = config.token_encoder == "bilm-tf"
    if config.char_embed_dim:
        if not config.filters:
            raise ValueError("filters is empty. Give at least one pair [width, number].")
        if is_bilm_tf and config.n_characters != N_BYTE_CHARACTERS:
            raise ValueError(
                f"n_characters must be {N_BYTE_CHARACTERS} if characters are bytes, "
                f"got {config.n_characters}"
            )
        if not config.n_characters:
            raise ValueError(
                f"n_characters is 0, but char_embed_dim is {config.char_embed_dim}. "
                f"Set both or neither."
            )
    elif config.filters or config.n_highway or config.n_characters:
        raise ValueError(
            "char_embed_dim is 0, so the model reads only words. Remove filters, n_highway and "
            "n_characters, or set char_embed_dim."
        )
    elif not config.n_words:
        raise ValueError("char_embed_dim and n_words are both 0. Set at least one of them.")
    wanted = config.projection_dim if is_bilm_tf else max(1, config.word_embed_dim)
    if config.word_embed_dim != (wanted if config.n_words else 0):
        raise ValueError(
            f"word_embed_dim ({config.word_embed_dim}) does not fit n_words ({config.n_words}). "
            f"It must be 0 without words, and in bilm-tf projection_dim ({config.projection_dim})."
        )


def parameter_shapes(config: BiLMConfig) -> dict[str, tuple[int, ...]]:
    """Return names and shapes of a biLM's weights.

    RETURNS (Dict[str, Tuple[int, ...]]): The names and the order are the same as in
        `BiLM.state_dict()`.
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
    """Return the number of parameters of a biLM."""
    return sum(math.prod(shape) for shape in parameter_shapes(config).values())


def check_precision(precision: str) -> None:
    """Raise ValueError if the name of a number format for matrix products is unknown."""
    if precision not in PRECISIONS:
        raise ValueError(f"precision must be one of {', '.join(PRECISIONS)}, got {precision!r}")


def swapped_gates(weight: Any) -> Any:
    """Swap the gates j and f: from the order i, j, f, o to PyTorch's i, f, j, o, or back.

    The files of ELMoForManyLangs have PyTorch's order, too.

    weight (Union[numpy.ndarray, Tensor]): *Shape:* `(4D, ...)`, also of the result.
    """
    gates = weight.reshape(4, -1, *weight.shape[1:])
    return gates[[0, 2, 1, 3]].reshape(weight.shape)
