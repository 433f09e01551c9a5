"""HTML pages that show word senses, the similarity of two sentences, or learned layer mixes."""

from collections.abc import Sequence
from typing import Any, Optional, Union

import numpy as np
from spacy.language import Language
from spacy.tokens import Doc
from spacy.util import is_in_jupyter
from thinc.types import Floats3d

from ..analysis.occurrences import draw_occurrences
from ..embedding.doc_layers import last_layers
from ..pipeline.mixes import learned_mixes
from .page import in_frame, make_page
from .sections import heat_section, label_layers, mix_section
from .senses import senses_section

Shown = Union[Doc, Sequence[Doc], Language]


def render(
    docs: Shown,
    *,
    word: Union[str, Sequence[str], None] = None,
    style: str = "senses",
    jupyter: Optional[bool] = None,
    page: bool = True,
    options: Optional[dict[str, Any]] = None,
) -> Optional[str]:
    """Show word senses, the similarity of two sentences, or learned layer mixes.

    Like `spacy.displacy.render`, this displays the page in a notebook, and otherwise returns HTML.

    docs (Union[Doc, Sequence[Doc], Language]): For "senses": Docs that the pipe `elmo` has
        processed. For "heat": two such Docs. For "mix": a pipeline. If Docs have all layers
        (`store_layers = true`), the page shows all layers, and otherwise `doc.tensor`.
    word (Union[str, Sequence[str], None]): One word or several, for "senses".
    style (str): "senses" (occurrences of words), "heat" (cosines of two sentences) or "mix".
    jupyter (Optional[bool]): Whether to display the page in a notebook. Default: detect notebooks.
    page (bool): Whether to return a whole page. False: return an `iframe` for another page.
    options (Optional[dict]): For "senses": `gold`, `ignore_case` and `limit` of
        `draw_occurrences`, `projection` and `seed` of `senses_section`.
    RETURNS (Optional[str]): HTML; None if it is displayed in a notebook.
    RAISES (ValueError): The style is unknown, or the other arguments do not fit it.
    """
    title, section = _section(docs, word, style, dict(options or {}))
    html = make_page(title, [section])
    if jupyter or (jupyter is None and is_in_jupyter()):
        from IPython.display import HTML, display

        display(HTML(in_frame(html, title)))
        return None
    return html if page else in_frame(html, title)


def _section(
    docs: Shown, word: Union[str, Sequence[str], None], style: str, options: dict[str, Any]
) -> tuple[str, dict[str, Any]]:
    if style == "mix":
        if not isinstance(docs, Language):
            raise ValueError("style 'mix' shows a pipeline. Give the nlp object instead of Docs")
        return "Layer mixes", mix_section(learned_mixes(docs))
    if isinstance(docs, Language):
        raise ValueError(f"style '{style}' shows Docs, not a pipeline. Give Docs")
    docs = [docs] if isinstance(docs, Doc) else list(docs)
    if style == "heat":
        if len(docs) != 2:
            raise ValueError(f"style 'heat' shows two Docs, got {len(docs)}")
        (one, names), (other, other_names) = map(_views, docs)
        if names != other_names:
            raise ValueError(f"the Docs have different layers: {names} and {other_names}")
        tokens = [[token.text for token in doc] for doc in docs]
        return "Two sentences", heat_section(tokens, (one, other), names)
    if style != "senses":
        raise ValueError(f"style must be 'senses', 'heat' or 'mix', got '{style}'")
    if not word:
        raise ValueError("style 'senses' shows the occurrences of a word. Give one: word='bank'")
    return _senses(docs, [word] if isinstance(word, str) else word, options)


def _senses(
    docs: Sequence[Doc], words: Sequence[str], options: dict[str, Any]
) -> tuple[str, dict[str, Any]]:
    looks = {name: options.pop(name) for name in [*options] if name in ("projection", "seed")}
    drawn = draw_occurrences(docs, words, **options)
    if options.get("gold") is not None:
        looks["gold"] = options["gold"]
    views = {id(doc): _views(doc) for one in drawn for doc, *_ in one.occurrences}
    names = max((names for _, names in views.values()), default=[], key=len)
    vectors: list[Floats3d] = []
    for one in drawn:
        rows = [views[id(doc)][0][:, start:end].mean(1) for doc, start, end, _ in one.occurrences]
        if len({row.shape for row in rows}) > 1:
            raise ValueError("the Docs have different numbers of layers, or different widths")
        vectors.append(np.stack(rows, axis=1) if rows else np.zeros((0, 0, 0), dtype="float32"))
    title = f"{', '.join(words)}: occurrences by their vectors"
    return title, senses_section(drawn, vectors, names, **looks)


def _views(doc: Doc) -> tuple[Floats3d, list[str]]:
    """Return the vectors of a Doc in each view (layers and mix), and the names of the views."""
    layers = last_layers(doc)
    mix = doc.tensor if len(doc) and np.ndim(doc.tensor) == 2 else None
    if layers is None:
        if mix is None:
            raise ValueError(
                f"the Doc {doc[:10].text!r}... has no contextual vectors. Run the pipe 'elmo' first"
            )
        return mix[None], ["vectors"]
    names = label_layers(len(layers))
    if mix is None or mix.shape != layers.shape[1:]:
        return layers, names
    return np.concatenate([layers, mix[None]]), [*names, "mix"]


__all__ = ["render"]
