"""Calls of functions that go on as they are, noted."""

from collections.abc import Callable
from typing import Any

import pytest


def note_calls(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, note: Callable[..., Any]
) -> list[Any]:
    """RETURNS (list): What `note` makes of the arguments of each call from now on."""
    noted: list[Any] = []
    original = getattr(owner, name)

    def call(*arguments: Any, **settings: Any) -> Any:
        noted.append(note(*arguments, **settings))
        return original(*arguments, **settings)

    monkeypatch.setattr(owner, name, call)
    return noted
