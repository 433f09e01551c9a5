"""The sizes of a biLM, and their form in bilm-tf's and AllenNLP's `options.json`."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Optional

Filters = tuple[tuple[int, int], ...]

PRECISIONS = ("float32", "bfloat16", "int8", "auto")

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


@dataclass(frozen=True, kw_only=True)
class BiLMConfig:
    """Every size of a biLM (Peters et al. 2018, section 3.4). The defaults are
    those of the small English model.

    lstm_dim (int): Cell size of each LSTM, D.
    projection_dim (int): Size of a token vector and of each LSTM's output, P.
        Smaller than `lstm_dim`, or equal to it: then there is no projection.
    n_layers (int): LSTM layers of each direction, L.
    cell_clip (Optional[float]): Bound of the cell state, at every step.
    proj_clip (Optional[float]): Bound of the projected output, at every step.
    use_skip_connections (bool): Add a layer's input to its output, from the second layer on.
    char_embed_dim (int): Size of a character embedding.
    filters (Tuple[Tuple[int, int], ...]): `(width, number)` of each convolution.
    n_highway (int): Highway layers over the convolutions' output.
    activation (str): "relu" or "tanh", of the convolutions.
    max_characters_per_token (int): Bytes of a token that are read, marks included.
    RAISES (ValueError): A size is impossible; the message names it.
    """

    lstm_dim: int = 512
    projection_dim: int = 128
    n_layers: int = 2
    cell_clip: Optional[float] = 3.0
    proj_clip: Optional[float] = 3.0
    use_skip_connections: bool = True
    char_embed_dim: int = 16
    filters: Filters = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256))
    n_highway: int = 1
    activation: str = "relu"
    max_characters_per_token: int = 50

    def __post_init__(self) -> None:
        for name in ("lstm_dim", "projection_dim", "n_layers", "char_embed_dim"):
            _check_int(name, getattr(self, name), 1)
        _check_int("n_highway", self.n_highway, 0)
        _check_int("max_characters_per_token", self.max_characters_per_token, 3)
        for name in ("cell_clip", "proj_clip"):
            _check_clip(name, getattr(self, name))
        if not isinstance(self.use_skip_connections, bool):
            raise ValueError(
                f"use_skip_connections must be true or false, got {self.use_skip_connections!r}"
            )
        if self.activation not in ("relu", "tanh"):
            raise ValueError(f"activation must be 'relu' or 'tanh', got {self.activation!r}")
        if self.projection_dim > self.lstm_dim:
            raise ValueError(
                f"projection_dim ({self.projection_dim}) must not be larger than "
                f"lstm_dim ({self.lstm_dim})"
            )
        object.__setattr__(
            self, "filters", _checked_filters(self.filters, self.max_characters_per_token)
        )

    @property
    def width(self) -> int:
        """RETURNS (int): Width of a layer's output, both directions: 2P."""
        return 2 * self.projection_dim

    @property
    def n_filters(self) -> int:
        """RETURNS (int): Sum of the filter counts, F."""
        return sum(number for _, number in self.filters)

    @property
    def widest_filter(self) -> int:
        """RETURNS (int): Width in characters of the widest convolution."""
        return max(width for width, _ in self.filters)

    @classmethod
    def from_dict(cls, sizes: Mapping[str, Any]) -> "BiLMConfig":
        """Make a config from keyword arguments as JSON or a spaCy config holds them.

        sizes (Mapping[str, Any]): Field names and values.
        RETURNS (BiLMConfig): The config.
        RAISES (ValueError): An unknown name or an impossible value.
        """
        unknown = sorted(set(sizes) - {field.name for field in fields(cls)})
        if unknown:
            raise ValueError(f"unknown biLM sizes: {', '.join(unknown)}")
        return cls(**sizes)

    def to_dict(self) -> dict[str, Any]:
        """RETURNS (dict): The sizes in JSON's types; `from_dict` reads them."""
        return {**asdict(self), "filters": [list(pair) for pair in self.filters]}

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> "BiLMConfig":
        """Read bilm-tf's and AllenNLP's `options.json`. Unknown keys are ignored.

        options (Mapping[str, Any]): The parsed file.
        RETURNS (BiLMConfig): The config.
        RAISES (ValueError): A key is missing or its value impossible.
        """
        if not isinstance(options, Mapping) or "lstm" not in options:
            raise ValueError("the options have no 'lstm': are they those of an ELMo model?")
        if "char_cnn" not in options:
            raise ValueError(
                "the options have no 'char_cnn': models of word ids are not supported, "
                "only models that read characters"
            )
        sizes = {name: _lookup(options, name, path) for name, path in _OPTIONS.items()}
        return cls(**sizes)

    def to_options(self) -> dict[str, Any]:
        """RETURNS (dict): The content of an `options.json` that AllenNLP reads
        (which asks for `n_characters` 262)."""
        options: dict[str, Any] = {"lstm": {}, "char_cnn": {"n_characters": 262}}
        for name, value in self.to_dict().items():
            *parents, key = _OPTIONS[name]
            section = options
            for parent in parents:
                section = section.setdefault(parent, {})
            section[key] = value
        return options


def _lookup(options: Mapping[str, Any], name: str, path: tuple[str, ...]) -> Any:
    value: Any = options
    for key in path:
        if not isinstance(value, Mapping) or key not in value:
            if name in _OPTIONAL:
                return _OPTIONAL[name]
            raise ValueError(f"the options lack '{'.'.join(path)}'")
        value = value[key]
    return value


def _check_int(name: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}")


def _check_clip(name: str, value: Any) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
        raise ValueError(f"{name} must be null or a number above 0, got {value!r}")


def _checked_filters(filters: Any, max_characters: int) -> Filters:
    try:
        pairs = tuple((width, number) for width, number in filters)
    except (TypeError, ValueError):
        raise ValueError(f"filters must be pairs [width, number], got {filters!r}") from None
    if not pairs:
        raise ValueError("filters must hold at least one pair [width, number]")
    for width, number in pairs:
        _check_int("filters: width", width, 1)
        _check_int("filters: number", number, 1)
        if width > max_characters:
            raise ValueError(
                f"filters: width {width} is larger than max_characters_per_token ({max_characters})"
            )
    return pairs


def check_precision(precision: str) -> None:
    """Check the name of a precision.

    precision (str): In which numbers matrix products are computed.
    RAISES (ValueError): There is no such precision.
    """
    if precision not in PRECISIONS:
        raise ValueError(f"precision must be one of {', '.join(PRECISIONS)}, got {precision!r}")
