"""The map of a word's occurrences, and their groups."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Optional

import numpy as np
from thinc.types import Floats2d, Floats3d, Ints1d

from ..analysis.clusters import Agreement, agreement, find_clusters, match_clusters, typical_words
from ..analysis.occurrences import Drawn, Occurrence
from ..analysis.sample import unit_vectors
from .packing import pack_fractions, pack_numbers
from .projection import align, check_projection, nearest, project

N_NEIGHBORS = 10
CONTEXT = 50  # tokens of a sentence that are shown on either side
WINDOW = 5  # tokens on either side among which words are typical

Section = dict[str, Any]


def senses_section(
    drawn: Sequence[Drawn],
    vectors: Sequence[Floats3d],
    names: Sequence[str],
    *,
    projection: str = "pca",
    seed: int = 0,
) -> Section:
    """Make the part of a page that shows the occurrences of words.

    drawn (Sequence[Drawn]): The occurrences of each word.
    vectors (Sequence[Floats3d]): The vectors of each word's occurrences, in what the
        slider moves through: the layers and the mix. *Shape:* `(n_views, n, width)`
    names (Sequence[str]): The names of these views.
    projection (str): "pca" or "tsne".
    seed (int): Seed of k-means and t-SNE.
    RETURNS (dict): The section, for `make_page`.
    """
    check_projection(projection)
    words = [
        _word(one, views, names, projection, seed)
        for one, views in zip(drawn, vectors, strict=True)
    ]
    return {"type": "senses", "views": list(names), "words": words}


def _word(
    drawn: Drawn, vectors: Floats3d, names: Sequence[str], projection: str, seed: int
) -> Section:
    found = drawn.occurrences
    before, itself, after = zip(*map(_parts, found)) if found else ((), (), ())
    # A single occurrence has nothing to be compared with.
    views = _views(vectors, found, projection, seed) if len(found) > 1 else []
    return {
        "word": drawn.word,
        "total": drawn.n_total,
        "notice": _notice(drawn),
        "before": before,
        "itself": itself,
        "after": after,
        "views": [_shown(view, drawn) for view in views],
        "table": _table(views, names),
    }


def _notice(drawn: Drawn) -> str:
    """Where there is no map."""
    if not drawn.n_total:
        return f"“{drawn.word}” does not occur in this text."
    if len(drawn.occurrences) > 1:
        return ""
    drawn_of = "" if drawn.n_total == 1 else f" One of {drawn.n_total:,} occurrences was drawn."
    return f"“{drawn.word}” stands here once: there is nothing to compare it with.{drawn_of}"


def _parts(one: Occurrence) -> tuple[str, str, str]:
    """What is shown: what precedes in the sentence, the word, and what follows."""
    sentence = one.sentence
    start = max(sentence.start, one.start - CONTEXT)
    end = min(max(sentence.end, one.end), one.end + CONTEXT)
    before = ("… " if start > sentence.start else "") + one.doc[start : one.start].text
    after = one.doc[one.end : end].text + (" …" if end < sentence.end else "")
    return before, one.doc[one.start : one.end].text, after


@dataclass
class _View:
    """The occurrences in one layer, or in the mix."""

    places: Floats2d
    variance: Optional[float]
    numbers: Ints1d
    silhouette: Optional[float]
    agreement: Optional[Agreement]
    neighbors: tuple[np.ndarray, Floats2d]


def _views(
    vectors: Floats3d, found: Sequence[Occurrence], projection: str, seed: int
) -> list[_View]:
    """Each turned, and its clusters numbered, after the one below."""
    senses = [one.sense for one in found]
    views: list[_View] = []
    for layer in vectors:
        units = unit_vectors(layer)
        places, variance = project(units, projection, seed=seed)
        numbers, silhouette = find_clusters(units, seed=seed)
        if views:
            places = align(places, views[-1].places)
            numbers = match_clusters(numbers, views[-1].numbers)
        agrees = agreement(numbers, senses) if any(senses) else None
        near = nearest(units, N_NEIGHBORS)
        views.append(_View(places, variance, numbers, silhouette, agrees, near))
    return views


def _shown(view: _View, drawn: Drawn) -> Section:
    """As the page reads it."""
    found = drawn.occurrences
    neighbors, cosines = view.neighbors
    return {
        "facts": _facts(view, drawn),
        "places": pack_fractions(view.places / (np.abs(view.places).max() or 1.0)),
        "neighbors": pack_numbers(neighbors),
        "cosines": pack_fractions(cosines),
        "colorings": [
            *([_by_sense([one.sense for one in found])] if view.agreement else []),
            _by_group(view.numbers, [_context(one) for one in found]),
        ],
    }


def _by_sense(senses: Sequence[str]) -> Section:
    labels = sorted(set(senses))
    numbers = np.array([labels.index(sense) for sense in senses])
    return {
        "name": "Gold senses",
        "kind": "sense",
        "of": pack_numbers(numbers),
        "labels": labels,
        "typical": [],
        "note": "Click a sense to see it alone.",
    }


def _by_group(numbers: Ints1d, contexts: Sequence[Sequence[str]]) -> Section:
    typical = typical_words(contexts, numbers)
    labels = range(int(numbers.max()) + 1)
    several = (
        "Below each group the words that stand within five tokens of it rather than of the "
        "others. From layer to layer a group keeps its number as far as it is the same. Click a "
        "group to see it alone."
    )
    return {
        "name": "Groups",
        "kind": "group",
        "of": pack_numbers(numbers),
        "labels": [f"group {number + 1}" for number in labels],
        "typical": [typical.get(number, []) for number in labels],
        "note": several if len(typical) > 1 else "These vectors make no groups.",
    }


def _facts(view: _View, drawn: Drawn) -> str:
    """Below the slider."""
    n = len(drawn.occurrences)
    facts = [f"{drawn.n_total:,} occurrences"]
    if n < drawn.n_total:
        facts = [f"{n:,} of {drawn.n_total:,} occurrences, drawn evenly"]
    if view.variance is None:
        facts.append("t-SNE: distances between groups mean little")
    elif view.variance == 0:
        facts.append("all have the same vector: this layer does not see the context")
    else:
        facts.append(f"the two axes show {view.variance:.1%} of the variance")
    return "; ".join(facts) + "."


def _table(views: Sequence[_View], names: Sequence[str]) -> Section:
    """The figures of all layers; "-" where there is none."""
    heads = ["", "variance shown", "groups", "silhouette"]
    has_gold = any(view.agreement for view in views)
    rows = []
    for name, view in zip(names, views):
        n_groups = len(np.unique(view.numbers))
        row = [name, _figure(view.variance, ".1%"), str(n_groups), _figure(view.silhouette, ".3f")]
        if view.agreement:
            row += [f"{view.agreement.purity:.1%}", f"{view.agreement.adjusted_rand:.3f}"]
        rows.append(row)
    return {"heads": [*heads, "purity", "adjusted Rand index"] if has_gold else heads, "rows": rows}


def _figure(value: Optional[float], form: str) -> str:
    return "-" if value is None else format(value, form)


def _context(one: Occurrence) -> list[str]:
    """The words within five tokens in the sentence, in lower case; no punctuation."""
    sentence = one.sentence
    around = [
        *one.doc[max(sentence.start, one.start - WINDOW) : one.start],
        *one.doc[one.end : min(max(sentence.end, one.end), one.end + WINDOW)],
    ]
    return [token.text.lower() for token in around if any(map(str.isalnum, token.text))]
