"""Runs whose numbers are no longer finite. They end before such numbers are written: a model of
them cannot be read again, and a checkpoint of them cannot be resumed. All processes hold the same
weights and optimizers, and so all of them end at the same step."""

from collections.abc import Mapping
from typing import Any, Optional

from torch import Tensor

from ..bilm.finite import is_finite
from .config import TrainingSettings

# Settings of which a lower value may let a diverged run go on.
LOWERED = ("learn_rate", "muon_learn_rate", "grad_clip")


def find_not_finite(states: Mapping[Any, Any]) -> Optional[str]:
    """Find a tensor that is not finite.

    states (Mapping): Tensors by name, at any depth.
    RETURNS (Optional[str]): The dotted name of the first; None if all are finite.
    """
    for name, value in states.items():
        if isinstance(value, Mapping):
            found = find_not_finite(value)
            if found is not None:
                return f"{name}.{found}"
        elif isinstance(value, Tensor) and not is_finite(value):
            return str(name)
    return None


def check_finite(states: Mapping[str, Any], step: int, settings: TrainingSettings) -> None:
    """Check what a checkpoint or a model is written of.

    states (Mapping): Tensors by name, at any depth.
    step (int): The step that they are of.
    settings (TrainingSettings): The settings of the run.
    RAISES (FloatingPointError): One is not finite.
    """
    name = find_not_finite(states)
    if name is not None:
        raise diverged(f"{name} became NaN or infinite", step, settings)


def diverged(what: str, step: int, settings: TrainingSettings) -> FloatingPointError:
    """RETURNS (FloatingPointError): What is not finite, and what to do."""
    names = [n for n in LOWERED if n != "muon_learn_rate" or settings.optimizer == "muon"]
    values = " or ".join(f"{name} ({getattr(settings, name)})" for name in names)
    return FloatingPointError(
        f"{what} at step {step}: lower {values}. Resume the run with the lower value; if it ends "
        f"like this again, overwrite it."
    )
