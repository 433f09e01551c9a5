"""Section with maps of words: the occurrences of each word, their groups and nearest neighbors."""

from collections.abc import Collection, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, NamedTuple, Optional

import numpy as np
from spacy.util import get_lang_class
from thinc.types import Floats1d, Floats2d, Floats3d, Ints1d

from ..analysis.change import N_PERMUTATIONS, Change, measure_changes
from ..analysis.clusters import agreement, find_clusters, match_clusters, typical_words
from ..analysis.corpora import unit_vectors
from ..analysis.occurrences import Drawn, Occurrence
from .page import pack_fractions, pack_numbers

N_NEIGHBORS = 10
CONTEXT = 50  # Number of tokens to show on each side of a word.
WINDOW = 5  # Number of tokens on each side of a word that typical words are searched in.

Section = dict[str, Any]


class _Options(NamedTuple):
    """Settings of all words of a section: the arguments of `senses_section`, with `gold`'s NAME."""

    names: Sequence[str]
    projection: str
    seed: int
    label: str
    lang: Optional[str]


def senses_section(
    drawn: Sequence[Drawn],
    vectors: Sequence[Floats3d],
    names: Sequence[str],
    *,
    projection: str = "pca",
    seed: int = 0,
    gold: str = "spans:sense",
    lang: Optional[str] = None,
) -> Section:
    """Make the section with maps of the occurrences of words.

    drawn (Sequence[Drawn]): The occurrences of each word.
    vectors (Sequence[Floats3d]): For each word, the vectors of its occurrences in each view (the
        layers and the mix). *Shape:* `(n_views, n, width)` each
    names (Sequence[str]): The names of the views.
    projection (str): "pca" or "tsne".
    seed (int): Seed of k-means, t-SNE and permutations.
    gold (str): "spans:NAME", the span group that `Occurrence.sense` comes from. The page calls the
        labels NAME.
    lang (Optional[str]): Language of the text. Its stop words do not describe groups. Default: the
        language of each Doc's vocab.
    RETURNS (dict): The section, for `make_page`.
    """
    check_projection(projection)
    options = _Options(names, projection, seed, gold.partition(":")[2], lang)
    pairs = zip(drawn, vectors, strict=True)
    words = [_word(one, views, options) for one, views in pairs]
    return {"type": "senses", "views": list(names), "words": words}


def _word(
    drawn: Drawn,
    vectors: Floats3d,
    options: _Options,
) -> Section:
    found = drawn.occurrences
    before, itself, after = zip(*map(_parts, found)) if found else ((), (), ())
    origins = [one.origin for one in found]
    views: list[Section] = []
    table: list[list[str]] = []
    changes: list[list[Change]] = []
    if len(found) > 1:  # A map needs at least two occurrences.
        views, table = _views(drawn, vectors, options)
        changes = _changes(drawn, vectors, options.seed)
    heads = ["", "variance shown", "groups", "silhouette", "purity", "adjusted Rand index"]
    return {
        "word": drawn.word,
        "total": drawn.n_total,
        "notice": _notice(drawn),
        "before": before,
        "itself": itself,
        "after": after,
        # One source of all occurrences is known from the title of the page.
        "origins": origins if len(set(origins)) > 1 else [],
        "views": views,
        "table": {"heads": heads[: len(table[0])] if table else heads[:4], "rows": table},
        "changes": _change_table(changes, options.names),
    }


def _views(
    drawn: Drawn,
    vectors: Floats3d,
    options: _Options,
) -> tuple[list[Section], list[list[str]]]:
    """Make a view (map, clusters, neighbors) of each layer and of the mix.

    Each map is rotated, and its clusters are renumbered, to match the previous view.

    RETURNS (Tuple[List[dict], List[List[str]]]): The views; and a table with a row per view: its
        name, share of the variance, number of clusters and scores.
    """
    names, projection, seed, label, lang = options
    senses = [one.sense for one in drawn.occurrences]
    contexts = [_context(one, _stop_words(lang or one.doc.vocab.lang)) for one in drawn.occurrences]
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
            colorings.insert(0, _by_label(senses, label))
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


def _changes(drawn: Drawn, vectors: Floats3d, seed: int) -> list[list[Change]]:
    """Compare the labels of occurrences in each view. A list is empty if there is one label."""
    docs = [one.doc for one in drawn.occurrences]
    labels = [one.sense for one in drawn.occurrences]
    return [measure_changes(unit_vectors(layer), labels, docs, seed=seed) for layer in vectors]


def _change_table(changes: Sequence[Sequence[Change]], names: Sequence[str]) -> Section:
    """Make the table of the distances of labels: a row for each two labels, a column per view."""
    rows = [
        [f"{each[0].one}, {each[0].other}", *(show_change(change) for change in each)]
        for each in zip(*changes)
    ]
    note = (
        "Cosine distance of the mean vectors of two labels. p is the share of random divisions of "
        f"the same occurrences that have at least this distance, out of {N_PERMUTATIONS:,} and the "
        "real one. If p is small, the use of the word differs. If all occurrences in a Doc have "
        "the same label, whole Docs are divided."
    )
    return {"heads": ["", *names], "rows": rows, "note": note}


def show_change(change: Change) -> str:
    """Return distance and p of a change as text."""
    return f"{change.distance:.3f} (p = {change.p:.3f})"


def _by_label(senses: Sequence[str], name: str) -> Section:
    labels = sorted(set(senses))
    numbers = np.array([labels.index(sense) for sense in senses])
    note = f"Click a {name} to show only its occurrences."
    return _coloring(name, name, numbers, labels, [], note)


def _by_group(numbers: Ints1d, contexts: Sequence[Sequence[str]]) -> Section:
    typical = typical_words(contexts, numbers)
    groups = range(int(numbers.max()) + 1)
    labels = [f"group {number + 1}" for number in groups]
    several = (
        "The words below a group are more frequent near its occurrences (within five tokens) than "
        "near other occurrences. Stop words are left out. Similar groups of two layers have the "
        "same number. Click a group to show only its occurrences."
    )
    note = several if len(typical) > 1 else "These vectors form no groups."
    words = [typical.get(number, []) for number in groups]
    return _coloring("Groups", "group", numbers, labels, words, note)


def _coloring(
    name: str, kind: str, numbers: Ints1d, labels: list[str], typical: list, note: str
) -> Section:
    """Make a coloring of the map: one of `labels` for each occurrence.

    `numbers` contains the index of each occurrence's label in `labels`.
    """
    return {
        "name": name,
        "kind": kind,
        "of": pack_numbers(numbers),
        "labels": labels,
        "typical": typical,
        "note": note,
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


@lru_cache(maxsize=16)
def _stop_words(lang: str) -> frozenset[str]:
    """Return spaCy's stop words of a language; none if spaCy does not know the language."""
    with suppress(ImportError):
        return frozenset(get_lang_class(lang).Defaults.stop_words)
    return frozenset()


def _context(one: Occurrence, stop_words: Collection[str]) -> list[str]:
    """Return the words among the five tokens before and after an occurrence, in lower case.

    Punctuation, stop words and the occurrence itself are left out. A long s counts as s.
    """
    sentence = one.sentence
    around = [
        *one.doc[max(sentence.start, one.start - WINDOW) : one.start],
        *one.doc[one.end : min(max(sentence.end, one.end), one.end + WINDOW)],
    ]
    words = [token.text.lower() for token in around if any(map(str.isalnum, token.text))]
    return [word for word in words if word.replace("\u017f", "s") not in stop_words]


def pca(vectors: Floats2d) -> tuple[Floats2d, Floats1d]:
    """Project vectors onto their first two principal components.

    vectors (Floats2d): At least one vector. *Shape:* `(n, width)`
    RETURNS (Tuple[Floats2d, Floats1d]): The points, `(n, 2)`; and the share of the variance of each
        component, `(2,)`. Both are zeros if all vectors are equal.
    """
    from sklearn.decomposition import PCA

    if np.ptp(vectors, axis=0).max() < 1e-5:  # Smaller values are rounding errors.
        return np.zeros((len(vectors), 2)), np.zeros(2)
    components = PCA(2, svd_solver="full")
    return components.fit_transform(vectors), components.explained_variance_ratio_


def project(vectors: Floats2d, method: str, *, seed: int = 0) -> tuple[Floats2d, Optional[float]]:
    """Project vectors to points of a map.

    t-SNE (van der Maaten and Hinton 2008) shows near neighbors well, but distances between groups
    mean little.

    vectors (Floats2d): *Shape:* `(n, width)`
    method (str): "pca" or "tsne". With fewer than four different vectors, always PCA.
    seed (int): Seed of t-SNE.
    RETURNS (Tuple[Floats2d, Optional[float]]): The points, `(n, 2)`; and the share of the variance
        that they show, None for t-SNE.
    """
    places, shares = pca(vectors)
    if method == "pca" or len(np.unique(vectors.round(4), axis=0)) < 4:
        return places, float(shares.sum())
    from sklearn.manifold import TSNE

    perplexity = min(30.0, (len(vectors) - 1) / 3)  # 30 is scikit-learn's default.
    found = TSNE(init="pca", perplexity=perplexity, random_state=seed).fit_transform(vectors)
    return found - found.mean(axis=0), None


def check_projection(method: str) -> None:
    """Check that a projection is "pca" or "tsne".

    RAISES (ValueError): There is no such projection.
    """
    if method not in ("pca", "tsne"):
        raise ValueError(f"the projection must be 'pca' or 'tsne', got '{method}'")


def align_places(places: Floats2d, others: Floats2d) -> Floats2d:
    """Rotate and mirror a map, so that it matches another map of the same items.

    The sum of squared distances between the maps is minimal (the orthogonal Procrustes problem,
    Schönemann 1966).

    places (Floats2d): Points of the map to rotate, with mean 0. *Shape:* `(n, 2)`
    others (Floats2d): Points of the other map, with mean 0. *Shape:* `(n, 2)`
    RETURNS (Floats2d): The new points. *Shape:* `(n, 2)`
    """
    left, _, right = np.linalg.svd(places.T @ others)
    return places @ left @ right


def nearest(units: Floats2d, n: int) -> tuple[np.ndarray, Floats2d]:
    """Find the nearest neighbors of each vector by cosine, the nearest first.

    units (Floats2d): Vectors of length 1. *Shape:* `(n_vectors, width)`
    n (int): Maximum number of neighbors.
    RETURNS (Tuple[Ints2d, Floats2d]): Indices and cosines of the neighbors. *Shape:*
        `(n_vectors, n)` each
    """
    cosines = units @ units.T
    np.fill_diagonal(cosines, -np.inf)
    # Round the cosines, so that the stable sort does not reorder equal ones.
    numbers = np.argsort(-cosines.round(6), axis=1, kind="stable")[:, : min(n, len(units) - 1)]
    return numbers, np.take_along_axis(cosines, numbers, axis=1)
