"""The arrows of the house: which room of the package may import which."""

import ast
import sys
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from torch import nn

from spacy_elmo.bilm.model import BiLM

PACKAGE = Path(__file__).parents[1] / "spacy_elmo"
GROUND = {"files", "registry"}
# What each room, and each module of the top floor, may import: these, and what is below them.
ARROWS = {
    "__init__": ["weights"],
    "architectures": ["layers"],
    "factories": ["tasks"],
    "vectors": ["embedding"],
    "cli": ["export", "analysis", "viewer", "tasks", "pretraining"],
    "export": ["pipeline", "language_model"],
    "analysis": ["pipeline", "language_model"],
    "viewer": ["analysis"],
    "tasks": ["pipeline"],
    "pipeline": ["layers"],
    "layers": ["embedding"],
    "embedding": ["weights"],
    "pretraining": ["language_model"],
    "language_model": ["text", "weights"],
    "text": ["bilm"],
    "weights": ["bilm"],
    "bilm": ["frozen"],
    "frozen": [],
}
# As paths within the package.
MODULES = {file.relative_to(PACKAGE).with_suffix("").parts for file in PACKAGE.rglob("*.py")}


@cache
def tree_of(module):
    return ast.parse(PACKAGE.joinpath(*module).with_suffix(".py").read_text("utf8"))


@cache
def imports(module):
    """What a module imports, anywhere in it: names in parts, the number of the line, and
    whether importing the module imports it at once."""
    tree, found = tree_of(module), []
    at_once = set(tree.body)
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name.split(".") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = ["spacy_elmo", *module[: -node.level]] if node.level else []
            origin = [*above, *(node.module.split(".") if node.module else [])]
            names = [[*origin, alias.name] for alias in node.names]
        found += [(name, node.lineno, node in at_once) for name in names]
    return found


@cache
def all_imports():
    """Where, of which module, the names, and whether at once."""
    return [
        (f"{'/'.join(module)}.py, line {line}: imports {'.'.join(name)}", module, name, at_once)
        for module in sorted(MODULES)
        for name, line, at_once in imports(module)
    ]


def targets(module):
    """The modules of the package that a module imports, and the numbers of the lines. The
    package itself, which is imported with each of them, is none: it is asked for its version."""
    for (package, *name), line, _ in imports(module):
        possible = [name, [*name, "__init__"], name[:-1], [*name[:-1], "__init__"]]
        found = [tuple(path) for path in possible if tuple(path) in MODULES - {("__init__",)}]
        if package == "spacy_elmo" and found and found[0] != THAWED.get(module):
            yield found[0], line


# What a frozen model thaws to, for annotations and within a function.
THAWED = {("frozen", name): ("bilm", name) for name in ("model", "softmax")}


def below(room):
    """What a room may import."""
    return {room} | GROUND | {found for lower in ARROWS.get(room, []) for found in below(lower)}


def test_arrows_point_down():
    up = [
        f"{'/'.join(module)}.py, line {line}: imports {'.'.join(target)}"
        for module in sorted(MODULES)
        for target, line in targets(module)
        if target[0] not in below(module[0])
    ]
    assert not up, "\n".join(up)


def test_no_circles():
    graph = {module: {target for target, _ in targets(module)} for module in MODULES}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(".".join(module) for module in reversed(error.args[1])))


@pytest.mark.parametrize("room", ["frozen", "bilm", "weights"])
def test_what_stands_without_spacy(room):
    """The model needs PyTorch alone, and reading files no spaCy, which pipelines are."""
    found = [
        where
        for where, module, name, at_once in all_imports()
        if module[0] == room and name[0] in ("spacy", "thinc") and (at_once or room != "weights")
    ]
    assert not found, "\n".join(found)


def test_who_imports_pytorch():
    """Serving needs none: only what trains imports it at once, the rest within functions."""
    found = {module for _, module, name, at_once in all_imports() if name[0] == "torch" and at_once}
    trains = {("language_model", "model"), ("language_model", "processes")}
    others = {
        module for module in found - trains if module[0] not in ("bilm", "pretraining", "tasks")
    }
    assert not others


def test_frozen_weights_import_nothing_else():
    """Themselves, files, numpy, pydantic and the standard library."""
    found = [
        where
        for where, module, name, at_once in all_imports()
        if module[0] == "frozen"
        and at_once
        and name[:2] not in (["spacy_elmo", "frozen"], ["spacy_elmo", "files"])
        and name[0] not in {"numpy", "pydantic", *sys.stdlib_module_names}
    ]
    assert not found, "\n".join(found)


def test_nobody_watches_weights():
    """Frozen weights cannot change, so nothing looks into PyTorch for what they were."""
    watching = {"_modules", "_buffers", "_version", "data_ptr", "register_at_fork"}
    found = [
        f"{'/'.join(module)}.py, line {node.lineno}: {node.attr}"
        for module in sorted(MODULES)
        if module[0] != "files"
        for node in ast.walk(tree_of(module))
        if isinstance(node, ast.Attribute) and node.attr in watching
    ]
    assert not found, "\n".join(found)
    assert BiLM.__mro__[1] is nn.Module


def test_wings_of_tasks_import_no_other_wing():
    """A wing imports `shared` and the core."""
    found = [
        f"{'/'.join(module)}.py, line {line}: imports {'.'.join(target)}"
        for module in sorted(MODULES)
        if module[0] == "tasks" and len(module) > 2
        for target, line in targets(module)
        if target[0] == "tasks" and target[1] not in (module[1], "shared")
    ]
    assert not found, "\n".join(found)


def test_the_top_floor_is_small():
    assert len([module for module in MODULES if len(module) == 1]) <= 6
