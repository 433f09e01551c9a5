"""Notes of calls of functions, which still do what they did."""

from collections.abc import Callable
from typing import Any

import pytest


def note_calls(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, note: Callable[..., Any]
) -> list[Any]:
    """Note the calls of a function from now on.

    RETURNS (list): The result of `note` for the arguments of each call.
    """
    noted: list[Any] = []
    original = getattr(owner, name)

    def call(*arguments: Any, **settings: Any) -> Any:
        noted.append(note(*arguments, **settings))
        return original(*arguments, **settings)

    monkeypatch.setattr(owner, name, call)
    return noted
