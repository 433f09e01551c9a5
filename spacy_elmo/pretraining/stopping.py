"""Reasons to end a run: signals, and numbers that are not finite.

A run ends before it writes such numbers: a model with them could not be read, and a checkpoint
could not be resumed. All processes have the same weights and optimizers, so all end at the same
step.
"""

import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, Optional

from torch import Tensor

from ..bilm.finite import is_finite
from .config import TrainingSettings

# A lower value of one of these settings may save a diverged run.
LOWERED = ("learn_rate", "muon_learn_rate", "grad_clip")


@contextmanager
def stop_signals() -> Iterator[list[int]]:
    """Collect the first SIGINT, SIGTERM or SIGHUP.

    A second one acts as usual, and so do all outside the main thread. Under `nohup`, SIGHUP stays
    ignored.

    YIELDS (List[int]): The signals so far.
    """
    received: list[int] = []
    with ExitStack() as restored:

        def receive(number: int, frame: Any) -> None:
            received.append(number)
            restored.close()
            print("\nStopping after this step; once more stops at once", file=sys.stderr)

        numbers = [signal.SIGINT, signal.SIGTERM]
        hang_up = getattr(signal, "SIGHUP", None)  # not on Windows
        if hang_up is not None and signal.getsignal(hang_up) != signal.SIG_IGN:
            numbers.append(hang_up)
        with suppress(ValueError):  # not the main thread
            for number in numbers:
                restored.callback(signal.signal, number, signal.signal(number, receive))
        yield received


def find_not_finite(states: Mapping[Any, Any]) -> Optional[str]:
    """Find a tensor that is not finite.

    states (Mapping): Tensors by name, at any depth.
    RETURNS (Optional[str]): The dotted name of the first one; None if all are finite.
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
    """Check the tensors of a checkpoint or a model before they are written.

    states (Mapping): Tensors by name, at any depth.
    step (int): The step of the run.
    settings (TrainingSettings): The settings of the run.
    RAISES (FloatingPointError): A tensor is not finite.
    """
    name = find_not_finite(states)
    if name is not None:
        raise diverged(f"{name} became NaN or infinite", step, settings)


def diverged(what: str, step: int, settings: TrainingSettings) -> FloatingPointError:
    """Make the error that says what is not finite, and what to do."""
    names = [n for n in LOWERED if n != "muon_learn_rate" or settings.optimizer == "muon"]
    values = " or ".join(f"{name} ({getattr(settings, name)})" for name in names)
    return FloatingPointError(
        f"{what} at step {step}: lower {values}. Resume the run with the lower value; if it ends "
        f"like this again, overwrite it."
    )
