"""Docstrings in spaCy's form, as Sphinx's fields.

`name (type): text`, `RETURNS (type): text`, `YIELDS (type): text` and `RAISES (type): text`, which
stand at the margin and go on in lines that are indented, become `:param name:` and the like.
"""

import re
from typing import Any

from sphinx.application import Sphinx

FIELD = re.compile(r"^(\*{0,2}\w+) \((.+?)\): ?(.*)$")
FIELDS = {"RETURNS": "returns", "YIELDS": "yields"}
SHAPE = re.compile(r"\*Shape:\* ")


def convert(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Change the lines of a docstring in place."""
    found: list[str] = []
    in_field = False
    for line in lines:
        field = FIELD.match(line)
        if field:
            if not in_field and found and found[-1]:
                found.append("")
            found += _field(*field.groups())
            in_field = True
        elif in_field and line.startswith(" "):
            found.append(f"    {line.strip()}")
        else:
            in_field = in_field and not line.strip()
            found.append(line)
    lines[:] = [SHAPE.sub("Shape: ", line) for line in found]


def _field(name: str, kind: str, text: str) -> list[str]:
    """The lines of a field."""
    if name == "RAISES":
        return [f":raises {kind}: {text}"]
    if name in FIELDS:
        return [f":{FIELDS[name]}: (``{kind}``) {text}"]
    return [f":param {name}: (``{kind}``) {text}"]


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("autodoc-process-docstring", convert)
    return {"version": "1", "parallel_read_safe": True}
