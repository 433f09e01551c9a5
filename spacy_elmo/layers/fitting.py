"""Conversion of a language model to the class that settings and device need.

The class is `FrozenBiLM` (arrays for the kernel) or `BiLM` (a PyTorch module).
"""

import sys
from dataclasses import asdict
from typing import Optional

from thinc.api import get_torch_default_device

from ..embedding.embed import AnyBiLM
from ..embedding.settings import ElmoSettings
from ..files.optional import import_optional
from ..frozen.kernel import resolve_precision
from ..frozen.model import FrozenBiLM
from ..model.config import BiLMConfig


def check_bilm(bilm: object) -> None:
    """Check that a reader of weights returned a FrozenBiLM or a BiLM.

    RAISES (ValueError): The reader returned something else.
    """
    if isinstance(getattr(bilm, "config", None), BiLMConfig) and hasattr(bilm, "embed"):
        return
    raise ValueError(
        f"a reader of weights must return a language model, got {type(bilm).__name__}. Return "
        f"a model as spacy_elmo.weights.read_weights does."
    )


def precision_of(bilm: AnyBiLM) -> str:
    """Return the number format in which a language model multiplies matrices.

    RETURNS (str): "float32", "bfloat16", "int8", or "float16" on some GPUs.
    """
    if isinstance(bilm, FrozenBiLM):
        return resolve_precision(bilm.precision, bilm.kernel)
    from ..bilm.precision import resolve_module_precision

    return resolve_module_precision(bilm.precision, bilm.device)


def fit_to_settings(bilm: AnyBiLM, settings: ElmoSettings, device: Optional[str] = None) -> AnyBiLM:
    """Convert a language model to the class that settings and device need.

    settings (ElmoSettings): Only `frozen`, `precision` and `cache` are used.
    device (Optional[str]): PyTorch's name. Default: the GPU of `bilm`, or Thinc's default device.
    RETURNS (Union[FrozenBiLM, BiLM]): A FrozenBiLM if the model is frozen and on a CPU, otherwise a
        PyTorch module on the device.
    """
    if device is None and not isinstance(bilm, FrozenBiLM) and bilm.device.type != "cpu":
        device = str(bilm.device)
    if device is None:
        # Thinc imports PyTorch if it is installed. Without PyTorch, the model runs on the CPU.
        has_torch = sys.modules.get("torch") is not None
        device = str(get_torch_default_device()) if has_torch else "cpu"
    if settings.frozen and device == "cpu":
        return as_frozen(bilm).replace(precision=settings.precision, cache=settings.cache)
    import_optional("torch", "A language model that is fine-tuned or runs on a GPU")
    from ..bilm.model import BiLM

    module = BiLM.from_frozen(bilm) if isinstance(bilm, FrozenBiLM) else bilm
    module.precision = settings.precision
    return module.eval().requires_grad_(not settings.frozen).to(device)


def as_frozen(bilm: AnyBiLM) -> FrozenBiLM:
    """Return a language model as a FrozenBiLM. The weights of a PyTorch module are copied."""
    return bilm if isinstance(bilm, FrozenBiLM) else bilm.freeze()


def config_differences(got: BiLMConfig, wanted: BiLMConfig) -> str:
    """Describe how sizes of weights (`got`) and config (`wanted`) differ, for an error message."""
    theirs, ours = asdict(got), asdict(wanted)
    return ", ".join(
        f"{name} is {theirs[name]} there and {ours[name]} in the config"
        for name in ours
        if theirs[name] != ours[name]
    )
