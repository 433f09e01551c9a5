"""Settings of a language model in a pipeline: one object from the config to the segments."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Optional, Union

from pydantic import Field, TypeAdapter, ValidationError

from ..files.schema import Natural, Positive, record
from ..frozen.config import check_precision
from .features import FeatureCache
from .segmenters import Segmenter, SentencesOrWindows, segmenter_config
from .vectors import Mix, check_mix

if TYPE_CHECKING:
    from ..frozen.model import FrozenBiLM

# `mix`, `precision` and `features` have checks of their own.
KINDS: dict[str, Any] = {
    "weights": Union[str, Path, Callable, None],
    "initial_state": Literal["zeros", "warm", "carry"],
    "segmenter": Callable,
    "frozen": bool,
    "learn_rate_factor": Annotated[float, Field(gt=0, allow_inf_nan=False)],
    "store_layers": Union[bool, Literal["auto"]],
    "set_vectors": bool,
    "max_batch_tokens": Positive,
    "cache": Natural,
    "align": Union[str, Path, None],
}
CHECK: TypeAdapter[dict[str, Any]] = TypeAdapter(record(KINDS))

Weights = Union[None, str, Path, Callable[[], "FrozenBiLM"]]


@dataclass(frozen=True)
class ElmoSettings:
    """Settings of a language model, beside its sizes.

    weights (Union[str, Path, Callable[[], FrozenBiLM], None]): Name, path or reader of
        the weights, which are read when first needed. A saved pipeline contains its own.
    mix (Union[str, int, List[float]]): The layers in `doc.tensor`: "top" for the last
        layer, "average" of all, the number of a layer, or a weight for each.
    initial_state (str): State in which the LSTMs start a sequence: "zeros", "warm" (the
        state after one empty sentence), or "carry" (zeros for the Doc's first sequence,
        then the state after the sequence before).
    segmenter (Callable[[Doc], List[Segment]]): Cuts Docs into sequences.
    frozen (bool): Whether training leaves the weights unchanged.
    learn_rate_factor (float): Multiplies the optimizer's learning rate and weight decay when
        the weights are fine-tuned.
    store_layers (Union[bool, str]): Whether to set `doc._.elmo`, a float32 array
        of shape `(L + 1, n_tokens, 2P)`; "auto": only if a component listens.
    set_vectors (bool): Whether to set `doc.tensor` and the hooks that make
        `.vector` and `.similarity` contextual.
    max_batch_tokens (int): Most tokens of a batch, unless a single sequence has more.
    cache (int): Token strings whose context-free vectors are kept.
    precision (str): Precision of the language model's products, except in fine-tuning:
        "float32", "bfloat16", "int8", or "auto" for the fastest good one.
    align (Union[str, Path, None]): File of a matrix W, `.npy` or numbers in rows. All layers
        are multiplied by it, `W v`, to align them with another model's. It is read with the
        weights; a saved pipeline contains it.
    features (Optional[FeatureCache]): Cache of layers in training, so that a frozen language
        model computes them once; None for no cache.
    RAISES (ValueError): A setting is invalid.
    """

    weights: Weights = None
    mix: Mix = "top"
    initial_state: str = "warm"
    segmenter: Segmenter = field(default_factory=SentencesOrWindows)
    frozen: bool = True
    learn_rate_factor: float = 1.0
    store_layers: Union[bool, str] = "auto"
    set_vectors: bool = True
    max_batch_tokens: int = 4096
    cache: int = 20_000
    precision: str = "float32"
    align: Union[str, Path, None] = None
    features: Optional[FeatureCache] = None

    def __post_init__(self) -> None:
        try:
            CHECK.validate_python({name: getattr(self, name) for name in KINDS}, strict=True)
        except ValidationError as error:
            found = error.errors()
            name = str(found[0]["loc"][0])
            expected = " or ".join(one["msg"] for one in found if one["loc"][0] == name)
            raise ValueError(f"{name}: {expected}, got {getattr(self, name)!r}") from None
        check_precision(self.precision)
        object.__setattr__(self, "mix", check_mix(self.mix))
        # NumPy's numbers cannot be saved as JSON.
        object.__setattr__(self, "learn_rate_factor", float(self.learn_rate_factor))

    @classmethod
    def from_arguments(cls, arguments: Mapping[str, Any]) -> "ElmoSettings":
        """Pick the settings from the arguments of a registered function."""
        names = [one.name for one in fields(cls) if one.name in arguments]
        return cls(**{name: arguments[name] for name in names})

    def config_of(self, name: str) -> Any:
        """Return a setting as it is written in a config.

        Weights of a reader are None, because a saved pipeline contains them.

        name (str): Name of the setting.
        RAISES (ValueError): The segmenter has no method `config`.
        """
        value = getattr(self, name)
        if name == "segmenter":
            return segmenter_config(value)
        if name == "features":
            return None if value is None else value.config()
        if name == "weights" and callable(value):
            return None
        return str(value) if isinstance(value, Path) else value

    def tok2vec_config(self) -> dict[str, Any]:
        """Return the settings of a Tok2VecElmo as they are written in a config.

        It finds its weights with those of its component.

        RAISES (ValueError): The segmenter has no method `config`.
        """
        names = (
            *("initial_state", "frozen", "learn_rate_factor", "max_batch_tokens", "cache"),
            *("precision", "segmenter", "features"),
        )
        return {"weights": None, **{name: self.config_of(name) for name in names}}
