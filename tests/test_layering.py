"""Layers of the package: which module may import which."""

import ast
import re
import sys
from collections import namedtuple
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "spacy_elmo"
GROUND = {"compat", "files", "registry"}
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
    "embedding": ["weights", "bilm"],
    "pretraining": ["language_model"],
    "language_model": ["text", "weights", "bilm"],
    "text": ["model"],
    "weights": ["frozen"],
    "bilm": ["frozen"],
    "frozen": ["model"],
    "model": [],
}
# As paths within the package.
MODULES = {file.relative_to(PACKAGE).with_suffix("").parts for file in PACKAGE.rglob("*.py")}


# A name that a module imports, anywhere in it, in parts; the module of the package that it is of;
# and whether importing the module imports it. The package itself, which is imported with each of
# its modules, is none: it is asked for its version.
Import = namedtuple("Import", "where module name target at_once")


@pytest.fixture(scope="module", autouse=True)
def no_trees_later():
    """Free the syntax trees, which are most of the objects that a garbage collection looks at."""
    yield
    trees.cache_clear()


@cache
def trees():
    """The source of each module and its syntax tree, by path."""
    files = {file: file.read_text("utf8") for file in sorted(PACKAGE.rglob("*.py"))}
    return {file: (text, ast.parse(text)) for file, text in files.items()}


@cache
def all_imports():
    found = []
    for module in sorted(MODULES):
        _, tree = trees()[PACKAGE.joinpath(*module).with_suffix(".py")]
        at_once = set(tree.body)
        for node in ast.walk(tree):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name.split(".") for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                above = ["spacy_elmo", *module[: -node.level]] if node.level else []
                origin = [*above, *(node.module.split(".") if node.module else [])]
                names = [[*origin, alias.name] for alias in node.names]
            elif isinstance(node, ast.Call):
                names = imported_by_call(module, node)
            for name in names:
                where = f"{'/'.join(module)}.py, line {node.lineno}: imports {'.'.join(name)}"
                found.append(Import(where, module, name, target_of(*name), node in at_once))
    return found


def imported_by_call(module, call):
    """Names that `import_module` or `__import__` is called with, if they are constants."""
    function = getattr(call.func, "attr", getattr(call.func, "id", None))
    if function not in ("import_module", "__import__") or not call.args:
        return []
    name = call.args[0]
    if not isinstance(name, ast.Constant):
        return []
    dots = len(name.value) - len(name.value.lstrip("."))
    above = ["spacy_elmo", *module[:-dots]] if dots else []
    return [[*above, *name.value[dots:].split(".")]]


def target_of(package, *name):
    if package != "spacy_elmo":
        return None
    possible = [name, (*name, "__init__"), name[:-1], (*name[:-1], "__init__")]
    found = (path for path in possible if path in MODULES and path != ("__init__",))
    return next(found, None)


@cache
def below(room):
    """Return the rooms that a room may import."""
    return {room} | GROUND | {found for lower in ARROWS.get(room, []) for found in below(lower)}


TRAINING = {("language_model", "model"), ("language_model", "processes")}
FREE = {"numpy", "pydantic", *sys.stdlib_module_names}
FORBIDDEN = {
    "an arrow points up": lambda one: one.target and one.target[0] not in below(one.module[0]),
    # A wing of the tasks imports `shared` and the core.
    "a wing imports another wing": lambda one: (
        (one.module[0], (one.target or [""])[0]) == ("tasks", "tasks")
        and len(one.module) > 2
        and one.target[1] not in (one.module[1], "shared")
    ),
    # The model needs PyTorch alone, and reading files no spaCy, which pipelines are.
    "a model imports spaCy": lambda one: (
        (
            one.module[0] in ("model", "frozen", "bilm")
            or (one.module[0], one.at_once) == ("weights", True)
        )
        and one.name[0] in ("spacy", "thinc")
    ),
    # Serving needs none: only what trains imports it at once, the rest within functions. Formats of
    # weights that need it, and the few functions below that do, import it with `files.optional`.
    "PyTorch below the modules": lambda one: (
        one.name[0] == "torch" and one.module[0] in ("files", "model", "frozen", "text", "weights")
    ),
    "compat imports something of the package, or a library at once": lambda one: (
        one.module == ("compat",)
        and (one.name[0] == "spacy_elmo" or (one.at_once and one.name[0] not in FREE))
    ),
    "a private part of a library": lambda one: (
        one.module != ("compat",)
        and one.name[0] not in {"spacy_elmo", "__future__"}
        and any(part.startswith("_") for part in one.name)
    ),
    "PyTorch at once": lambda one: (
        (one.name[0], one.at_once) == ("torch", True)
        and one.module[0] not in ("bilm", "pretraining", "tasks")
        and one.module not in TRAINING
    ),
    "frozen weights import something else": lambda one: (
        (one.module[0] in ("model", "frozen"), one.at_once) == (True, True)
        and one.name[0] not in FREE | {"spacy_elmo"}
    ),
}


@pytest.mark.parametrize("what", FORBIDDEN)
def test_imports_follow_the_arrows(what):
    found = [one.where for one in all_imports() if FORBIDDEN[what](one)]
    assert not found, "\n".join(found)


# Names that begin with an underscore, but are documented.
DOCUMENTED = {"_asdict", "_replace", "_exit"}
# Parts of libraries that are not documented, as their text in the code.
UNDOCUMENTED = re.compile(r"torch\.ops\b|torch\.lstm\b|thinc\.layers\.|\"\._\.\"")
FRAMES = re.compile(r"currentframe|_getframe|_current_frames|f_back\b|f_locals\b|inspect\.stack")


def own_names():
    """All private names that the package defines: functions, classes, variables, attributes."""
    for _, tree in trees().values():
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                yield node.name
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield node.id
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                is_own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
                yield from [node.attr] if is_own else []


def used_names(tree):
    """All private names after a dot, or as a constant of `getattr` and its like."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            name = node.attr
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "").endswith("attr"):
            name = getattr(node.args[1], "value", None) if len(node.args) > 1 else None
        else:
            continue
        if isinstance(name, str) and name.startswith("_") and not name.endswith("__"):
            yield node.lineno, name


def test_no_private_parts_of_libraries():
    """A private name that the package does not define belongs to a library."""
    allowed, found = DOCUMENTED | {*own_names()}, []
    for file, (text, tree) in trees().items():
        if file.name == "compat.py":
            continue
        found += [f"{file}:{line} {name}" for line, name in used_names(tree) if name not in allowed]
        found += [f"{file}: {match[0]}" for match in UNDOCUMENTED.finditer(text)]
    assert not found, "\n".join(found)


def test_no_stack_frames():
    found = [str(file) for file, (text, _) in trees().items() if FRAMES.search(text)]
    assert not found, "\n".join(found)


def test_imports_have_no_circles():
    graph = {module: set() for module in MODULES}
    for one in all_imports():
        graph[one.module] |= {one.target} - {None}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(".".join(module) for module in reversed(error.args[1])))


def test_the_top_floor_is_small():
    assert len([module for module in MODULES if len(module) == 1]) <= 6
