"""Events that end a run early: signals, and numbers that are NaN or infinite.

A run ends before it writes NaN or infinite numbers, because no program could read such a model, and
no run could resume from such a checkpoint. All processes have the same weights and optimizers, so
they all end at the same step.
"""

import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from operator import attrgetter
from typing import Any, Optional

from torch import Tensor

from ..bilm.model import is_finite
from .config import TrainingSettings

# If a run diverges, a lower value of one of these settings may help.
LOWERED = ("learn_rate", "advanced.muon_learn_rate", "grad_clip")


@contextmanager
def stop_signals() -> Iterator[list[int]]:
    """Context manager: catch the first SIGINT, SIGTERM or SIGHUP, so that the run can stop itself.

    A second signal has its usual effect. Outside the main thread, no signal is caught. Under
    `nohup`, SIGHUP is still ignored.

    YIELDS (List[int]): An empty list. When a signal comes, its number is added to the list.
    """
    received: list[int] = []
    with ExitStack() as restored:

        def receive(number: int, frame: Any) -> None:
            received.append(number)
            restored.close()
            print(
                "\nStopping after this step. To stop immediately, press Ctrl-C again",
                file=sys.stderr,
            )

        numbers = [signal.SIGINT, signal.SIGTERM]
        hang_up = getattr(signal, "SIGHUP", None)  # Windows has no SIGHUP.
        if hang_up is not None and signal.getsignal(hang_up) != signal.SIG_IGN:
            numbers.append(hang_up)
        with suppress(ValueError):  # Only the main thread can set signal handlers.
            for number in numbers:
                restored.callback(signal.signal, number, signal.signal(number, receive))
        yield received


def find_not_finite(states: Mapping[Any, Any]) -> Optional[str]:
    """Find a tensor with a NaN or an infinite number.

    states (Mapping): Nested dicts of tensors.
    RETURNS (Optional[str]): The dotted name of the first such tensor; None if all are finite.
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
    """Check that all tensors of a checkpoint or a model are finite, before they are written.

    states (Mapping): Nested dicts of tensors.
    step (int): The step of the run.
    settings (TrainingSettings): The settings of the run.
    RAISES (FloatingPointError): A tensor is not finite.
    """
    name = find_not_finite(states)
    if name is not None:
        raise diverged(f"{name} became NaN or infinite", step, settings)


def diverged(what: str, step: int, settings: TrainingSettings) -> FloatingPointError:
    """Return the error for a run that diverged. It names the settings to lower.

    what (str): Beginning of the message, for example "the loss became nan".
    step (int): The step of the run.
    settings (TrainingSettings): The settings of the run.
    RETURNS (FloatingPointError): The error for the caller to raise.
    """
    names = [n for n in LOWERED if "muon" not in n or settings.optimizer == "muon"]
    values = " or ".join(f"{name} ({attrgetter(name)(settings)})" for name in names)
    return FloatingPointError(
        f"{what} at step {step}: lower {values}. Resume the run with the lower value; if it ends "
        f"like this again, overwrite it."
    )
