"""Kinds of tests that take long, seen in the names that a test uses, itself or through helpers."""

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import pytest

TESTS = Path(__file__).parents[1]
KINDS = {
    "processes": "subprocess multiprocessing fork project_run",
    "training": "initialize init_nlp train make_trained pretrain Trainer backward",
    "threads": "ThreadPoolExecutor",
    "pipelines": "add_pipe fill_config load_model_from_config",
    "corpora": "embed_corpus prepare",
    "commands": "run_elmo",
}


def mark(item: pytest.Function) -> None:
    """Give a test the marks of its kinds."""
    names = names_used(item)
    for kind, telling in KINDS.items():
        if names & set(telling.split()):
            item.add_marker(kind)


def names_used(item: pytest.Function) -> set[str]:
    """Collect the names in the code of a test, its fixtures, and what they call in `tests`."""
    fixtures = item._fixtureinfo.name2fixturedefs.values()
    waiting = [item.function, *(definitions[-1].func for definitions in fixtures)]
    names: set[str] = set()
    seen = set()
    while waiting:
        function = inspect.unwrap(waiting.pop())
        code = getattr(function, "__code__", None)
        if code in seen or code is None or not Path(code.co_filename).is_relative_to(TESTS):
            continue
        seen.add(code)
        found = set(names_in(code))
        names |= found
        waiting += called(found, function.__globals__)
    return names


def names_in(code: CodeType) -> Iterator[str]:
    """Yield the global names and attributes of a function and of those within it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from names_in(constant)


def called(names: set[str], space: dict[str, Any]) -> list[Callable]:
    """Return the functions among the names, and those of modules and classes among them."""
    found = [space[name] for name in names if name in space]
    homes = [vars(home) for home in found if isinstance(home, ModuleType | type)]
    found += [home[name] for home in homes for name in names if name in home]
    return [value for value in found if isinstance(value, FunctionType)]
