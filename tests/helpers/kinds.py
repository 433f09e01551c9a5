"""Kinds of tests that take long, seen in the names that a test uses, itself or through helpers."""

import inspect
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import pytest

TESTS = str(Path(__file__).parents[1])
KINDS = {
    "processes": "subprocess multiprocessing fork project_run",
    "training": "initialize init_nlp train make_trained pretrain Trainer backward",
    "threads": "ThreadPoolExecutor",
    "pipelines": "add_pipe fill_config load_model_from_config",
    "corpora": "embed_corpus prepare",
    "commands": "run_elmo",
    "conversions": "convert",
}


def mark(item: pytest.Function) -> None:
    """Give a test the marks of its kinds."""
    fixtures = item._fixtureinfo.name2fixturedefs.values()
    names = names_used(item.function, *(definitions[-1].func for definitions in fixtures))
    for kind, telling in KINDS.items():
        if names & set(telling.split()):
            item.add_marker(kind)


@cache  # The cases of a test have the same code.
def names_used(*functions: Callable) -> frozenset[str]:
    """Collect the names in the code of a test, its fixtures, and what they call in `tests`."""
    waiting = [inspect.unwrap(function) for function in functions]
    names: set[str] = set()
    seen = set()
    while waiting:
        function = waiting.pop()
        code = getattr(function, "__code__", None)
        if function in seen or code is None or not code.co_filename.startswith(TESTS):
            continue
        seen.add(function)
        found = frozenset(names_in(code))
        names |= found
        waiting += map(inspect.unwrap, called(found, function.__globals__))
    return frozenset(names)


def names_in(code: CodeType) -> Iterator[str]:
    """Yield the global names and attributes of a function and of those within it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from names_in(constant)


def called(names: frozenset[str], space: dict[str, Any]) -> list[Callable]:
    """Return the functions among the names, and those of modules and classes among them."""
    found = [space[name] for name in names if name in space]
    homes = [vars(home) for home in found if isinstance(home, ModuleType | type)]
    found += [home[name] for home in homes for name in names if name in home]
    return [value for value in found if isinstance(value, FunctionType)]
