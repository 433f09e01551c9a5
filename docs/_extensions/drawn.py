"""Pictures of analysed sentences, which displacy draws when the pages are built.

In a page's source

    ```{drawn} dep en_elmo_web_sm
    She works for Siemens now
    ```

becomes the tree of the sentence, and `ent` in place of `dep` draws the entities. The pipeline is a
folder in `wheels/`, so the pictures show what the published pipeline finds.
"""

from functools import cache
from html import escape
from pathlib import Path
from typing import Any

import spacy
from docutils import nodes
from spacy import displacy
from spacy.language import Language
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

WHEELS = Path(__file__).parents[2] / "wheels"
# The page has a light and a dark theme, so the lines have the color of the text.
OPTIONS = {
    "dep": {"compact": True, "distance": 110, "color": "currentColor", "bg": "transparent"},
    "ent": {"colors": {"PER": "#aa9cfc"}},
}


class Drawing(SphinxDirective):
    """Directive with a style of displacy, the name of a pipeline, and a sentence."""

    required_arguments = 2
    has_content = True

    def run(self) -> list[nodes.Node]:
        """Return the picture. A screen reader reads the sentence in place of the tree."""
        style, name = self.arguments
        text = " ".join(self.content)
        picture = displacy.render(load(name)(text), style, jupyter=False, options=OPTIONS[style])
        if style == "dep":
            title = escape(f"Tree of the sentence: {text}")
            picture = (
                f'<div role="img" aria-label="{title}" style="overflow-x: auto">{picture}</div>'
            )
        return [nodes.raw("", picture, format="html")]


@cache
def load(name: str) -> Language:
    """Return a pipeline of `wheels/`."""
    return spacy.load(WHEELS / name)


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("drawn", Drawing)
    return {"version": "1", "parallel_read_safe": True}
