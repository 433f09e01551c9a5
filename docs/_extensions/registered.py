"""Documentation of registered names, found by the entry points of the installed package.

In a page's source

    ```{registered} spacy_architectures spacy-elmo.BiLM.v1
    ```

becomes a heading and the signature and docstring of the registered function, wherever it stands;
of a factory it becomes the docstring of the pipe and the default config.
"""

import importlib
import re
from importlib import metadata
from typing import Any

import spacy
from spacy.language import Language
from sphinx.application import Sphinx
from thinc.api import Config

BLOCK = re.compile(r"^```\{registered\} (\S+) (\S+)\n```$", re.MULTILINE)


def replace(app: Sphinx, page: str, source: list[str]) -> None:
    """Change the source of a page in place."""
    source[0] = BLOCK.sub(lambda block: _described(*block.groups()), source[0])


def _described(group: str, name: str) -> str:
    (point,) = metadata.entry_points(group=group, name=name)
    place = point.value.replace(":", ".")
    if group != "spacy_factories":
        made = _at(place)
        directive = "autofunction"
        if isinstance(made, type):  # by its own name: another one is shown as an alias
            directive, place = "autoclass", f"{made.__module__}.{made.__qualname__}"
        return f"### {name}\n\n{_rst(f'.. {directive}:: {place}')}"
    _at(place)
    defaults = Language.get_factory_meta(name).default_config
    no_weights = {"weights": None} if "weights" in defaults else {}
    pipe = type(spacy.blank("en").create_pipe(name, config=no_weights))
    config = Config({"components": {name: {"factory": name, **defaults}}}).to_str()
    block = config.removeprefix("[components]\n\n")
    described = _rst(f".. autoclass:: {pipe.__module__}.{pipe.__qualname__}")
    return f"{described}\n\nThe factory `{name}` has these defaults:\n\n```ini\n{block}\n```"


def _at(place: str) -> Any:
    module, _, name = place.rpartition(".")
    return getattr(importlib.import_module(module), name)


def _rst(text: str) -> str:
    return f"```{{eval-rst}}\n{text}\n```"


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("source-read", replace)
    return {"version": "1", "parallel_read_safe": True}
