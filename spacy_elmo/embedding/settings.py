"""Settings of a language model in a pipeline: one object for pipe, shim and embedding code."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, Literal, Optional, Union

from pydantic import Field, TypeAdapter, ValidationError

from ..files import PathSetting
from ..files.schema import Natural, Positive, record
from ..frozen.model import FrozenBiLM
from ..model.config import check_precision
from .features import FeatureCache
from .mix import Mix, check_mix
from .segmenters import Segmenter, SentencesOrWindows, segmenter_config

WeightsSetting = Union[None, PathSetting, Callable[[], FrozenBiLM]]


@dataclass(frozen=True)
class ElmoSettings:
    """Settings of a language model, except its sizes.

    weights (Union[str, int, Path, Callable[[], FrozenBiLM], None]): Name, path or reader of
        the weights. They are read when they are first needed. A saved pipeline contains its
        weights.
    mix (Union[str, int, List[float]]): The layers for `doc.tensor`: "top" (the last layer),
        "average" (of all layers), the index of a layer, or a list with a weight for each layer.
    initial_state (str): LSTM state at the start of a sequence: "zeros"; "warm", the state after an
        empty sentence (`<S> </S>`); "carry", the final state of the previous sequence in the Doc,
        and zeros for the first sequence.
    segmenter (Callable[[Doc], List[Segment]]): Function that cuts Docs into sequences.
    frozen (bool): Whether training leaves the weights unchanged.
    learn_rate_factor (float): Factor for the optimizer's learning rate and weight decay, if the
        weights are fine-tuned.
    store_layers (Union[bool, str]): Whether to set `doc._.elmo`, a float32 array
        of shape `(L + 1, n_tokens, 2P)`. "auto": only if a component listens.
    set_vectors (bool): Whether to set `doc.tensor`, and hooks that make
        `.vector` and `.similarity` contextual.
    max_batch_tokens (int): Maximum number of tokens in a batch. A batch of one sequence may have
        more.
    cache (int): Number of token strings whose context-free vectors are cached; 0 for no cache.
    precision (str): Precision of the language model's matrix products, except in fine-tuning:
        "float32", "bfloat16", "int8", or "auto" (the fastest good precision on this machine).
    align (Union[str, int, Path, None]): File with a matrix W (`.npy`, or rows of numbers). Each
        vector v becomes `W v`, to align it with the vectors of another model. W is read with the
        weights. A saved pipeline contains W.
    features (Optional[FeatureCache]): Cache of layers in training, so that a frozen language
        model computes them only once. None: no cache.
    RAISES (ValueError): A setting is invalid.
    """

    weights: WeightsSetting = None
    mix: Mix = "top"
    initial_state: Literal["zeros", "warm", "carry"] = "warm"
    segmenter: Segmenter = field(default_factory=SentencesOrWindows)
    frozen: bool = True
    learn_rate_factor: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    store_layers: Union[bool, Literal["auto"]] = "auto"
    set_vectors: bool = True
    max_batch_tokens: Positive = 4096
    cache: Natural = 20_000
    precision: str = "float32"
    align: Optional[PathSetting] = None
    features: Optional[FeatureCache] = None

    def __post_init__(self) -> None:
        try:
            _CHECK.validate_python(vars(self), strict=True)
        except ValidationError as error:
            found = error.errors()
            name = str(found[0]["loc"][0])
            expected = " or ".join(one["msg"] for one in found if one["loc"][0] == name)
            raise ValueError(f"{name}: {expected}, got {getattr(self, name)!r}") from None
        check_precision(self.precision)
        # A config reads a name such as `2018` as a number.
        for name in ("weights", "align"):
            if isinstance(getattr(self, name), int):
                object.__setattr__(self, name, str(getattr(self, name)))
        object.__setattr__(self, "mix", check_mix(self.mix))
        # NumPy's numbers cannot be saved as JSON.
        object.__setattr__(self, "learn_rate_factor", float(self.learn_rate_factor))

    @classmethod
    def from_arguments(cls, arguments: Mapping[str, Any]) -> "ElmoSettings":
        """Make the settings from the arguments of a function. Ignore those that are no settings."""
        names = [one.name for one in fields(cls) if one.name in arguments]
        return cls(**{name: arguments[name] for name in names})

    def config_of(self, name: str) -> Any:
        """Return the value of a setting in the form that a config needs.

        If `weights` is a reader, the value is None, because a saved pipeline contains the weights.

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
        """Return those settings that a Tok2VecElmo has, in the form that a config needs.

        `weights` is None, because the weights are saved with the component.

        RAISES (ValueError): The segmenter has no method `config`.
        """
        names = (
            *("initial_state", "frozen", "learn_rate_factor", "max_batch_tokens", "cache"),
            *("precision", "segmenter", "features"),
        )
        return {"weights": None, **{name: self.config_of(name) for name in names}}


_KINDS = {one.name: one.type for one in fields(ElmoSettings)}
for _name in ("mix", "precision", "features"):  # These are checked elsewhere.
    del _KINDS[_name]
_CHECK: TypeAdapter[dict[str, Any]] = TypeAdapter(record(_KINDS))
