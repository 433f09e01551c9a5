"""Section with maps of the occurrences of words, their groups and neighbors."""

from collections.abc import Sequence
from typing import Any, Optional

import numpy as np
from thinc.types import Floats2d, Floats3d, Ints1d

from ..analysis.clusters import agreement, find_clusters, match_clusters, typical_words
from ..analysis.occurrences import Drawn, Occurrence
from ..analysis.sample import unit_vectors
from .page import pack_fractions, pack_numbers
from .projection import align_places, check_projection, nearest, project

N_NEIGHBORS = 10
CONTEXT = 50  # Number of tokens to show on each side of a word.
WINDOW = 5  # Number of tokens on each side of a word that typical words are searched in.

Section = dict[str, Any]


def senses_section(
    drawn: Sequence[Drawn],
    vectors: Sequence[Floats3d],
    names: Sequence[str],
    *,
    projection: str = "pca",
    seed: int = 0,
) -> Section:
    """Make the section with maps of the occurrences of words.

    drawn (Sequence[Drawn]): The occurrences of each word.
    vectors (Sequence[Floats3d]): For each word, the vectors of its occurrences in each view (the
        layers and the mix). *Shape:* `(n_views, n, width)` each
    names (Sequence[str]): The names of the views.
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
    # A map needs at least two occurrences.
    views, table = _views(drawn, vectors, names, projection, seed) if len(found) > 1 else ([], [])
    heads = ["", "variance shown", "groups", "silhouette", "purity", "adjusted Rand index"]
    return {
        "word": drawn.word,
        "total": drawn.n_total,
        "notice": _notice(drawn),
        "before": before,
        "itself": itself,
        "after": after,
        "views": views,
        "table": {"heads": heads[: len(table[0])] if table else heads[:4], "rows": table},
    }


def _views(
    drawn: Drawn, vectors: Floats3d, names: Sequence[str], projection: str, seed: int
) -> tuple[list[Section], list[list[str]]]:
    """Make a view (map, clusters, neighbors) of each layer and of the mix.

    Each map is rotated to match the map of the previous view. Clusters are also renumbered to match
    the previous view.

    RETURNS (Tuple[List[dict], List[List[str]]]): The views; and a table with a row per view: its
        name, share of the variance, number of clusters and scores.
    """
    senses = [one.sense for one in drawn.occurrences]
    contexts = [_context(one) for one in drawn.occurrences]
    views: list[Section] = []
    table: list[list[str]] = []
    below: Optional[tuple[Floats2d, Ints1d]] = None
    for name, layer in zip(names, vectors):
        units = unit_vectors(layer)
        places, variance = project(units, projection, seed=seed)
        numbers, silhouette = find_clusters(units, seed=seed)
        if below is not None:
            places, numbers = align_places(places, below[0]), match_clusters(numbers, below[1])
        below = places, numbers
        n_groups = len(np.unique(numbers))
        row = [name, _figure(variance, ".1%"), str(n_groups), _figure(silhouette, ".3f")]
        colorings = [_by_group(numbers, contexts)]
        if any(senses):
            purity, adjusted_rand = agreement(numbers, senses)
            row += [f"{purity:.1%}", f"{adjusted_rand:.3f}"]
            colorings.insert(0, _by_sense(senses))
        table.append(row)
        neighbors, cosines = nearest(units, N_NEIGHBORS)
        views.append(
            {
                "facts": _facts(variance, drawn),
                "places": pack_fractions(places / (np.abs(places).max() or 1.0)),
                "neighbors": pack_numbers(neighbors),
                "cosines": pack_fractions(cosines),
                "colorings": colorings,
            }
        )
    return views, table


def _notice(drawn: Drawn) -> str:
    """Return the text to show instead of a map; "" if there is a map."""
    if not drawn.n_total:
        return f"“{drawn.word}” does not occur in this text."
    if len(drawn.occurrences) > 1:
        return ""
    drawn_of = "" if drawn.n_total == 1 else f" One of {drawn.n_total:,} occurrences was drawn."
    return f"“{drawn.word}” occurs only once here: there is nothing to compare it with.{drawn_of}"


def _parts(one: Occurrence) -> tuple[str, str, str]:
    """Split a sentence into the context before a word, the word, and the context after it."""
    sentence = one.sentence
    start = max(sentence.start, one.start - CONTEXT)
    end = min(max(sentence.end, one.end), one.end + CONTEXT)
    before = ("… " if start > sentence.start else "") + one.doc[start : one.start].text
    after = one.doc[one.end : end].text + (" …" if end < sentence.end else "")
    return before, one.doc[one.start : one.end].text, after


def _by_sense(senses: Sequence[str]) -> Section:
    labels = sorted(set(senses))
    numbers = np.array([labels.index(sense) for sense in senses])
    return {
        "name": "Gold senses",
        "kind": "sense",
        "of": pack_numbers(numbers),
        "labels": labels,
        "typical": [],
        "note": "Click a sense to show only its occurrences.",
    }


def _by_group(numbers: Ints1d, contexts: Sequence[Sequence[str]]) -> Section:
    typical = typical_words(contexts, numbers)
    labels = range(int(numbers.max()) + 1)
    several = (
        "The words below a group are more frequent near its occurrences (within five tokens) than "
        "near other occurrences. Similar groups of two layers have the same number. Click a group "
        "to show only its occurrences."
    )
    return {
        "name": "Groups",
        "kind": "group",
        "of": pack_numbers(numbers),
        "labels": [f"group {number + 1}" for number in labels],
        "typical": [typical.get(number, []) for number in labels],
        "note": several if len(typical) > 1 else "These vectors form no groups.",
    }


def _facts(variance: Optional[float], drawn: Drawn) -> str:
    """Return the line of text about a map: number of occurrences, and share of the variance."""
    n = len(drawn.occurrences)
    facts = [f"{drawn.n_total:,} occurrences"]
    if n < drawn.n_total:
        facts = [f"{n:,} of {drawn.n_total:,} occurrences, drawn evenly"]
    if variance is None:
        facts.append("t-SNE: distances between groups mean little")
    elif variance == 0:
        facts.append("all have the same vector: this layer does not see the context")
    else:
        facts.append(f"the two axes show {variance:.1%} of the variance")
    return "; ".join(facts) + "."


def _figure(value: Optional[float], form: str) -> str:
    return "-" if value is None else format(value, form)


def _context(one: Occurrence) -> list[str]:
    """Return the words up to five tokens before and after an occurrence, in lower case.

    Punctuation and the occurrence itself are left out.
    """
    sentence = one.sentence
    around = [
        *one.doc[max(sentence.start, one.start - WINDOW) : one.start],
        *one.doc[one.end : min(max(sentence.end, one.end), one.end + WINDOW)],
    ]
    return [token.text.lower() for token in around if any(map(str.isalnum, token.text))]
