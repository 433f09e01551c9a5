"""The map of a word's occurrences, and their groups."""

from collections.abc import Sequence
from typing import Any, Optional

import numpy as np
from thinc.types import Floats2d, Floats3d, Ints1d

from ..analysis.clusters import agreement, find_clusters, match_clusters, typical_words
from ..analysis.occurrences import Drawn, Occurrence
from .packing import pack_fractions, pack_numbers
from .projection import align, nearest, project, unit_vectors

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
    words = [
        _word(one, views, projection=projection, seed=seed) for one, views in zip(drawn, vectors)
    ]
    return {"type": "senses", "views": list(names), "projection": projection, "words": words}


def _word(drawn: Drawn, vectors: Floats3d, *, projection: str, seed: int) -> Section:
    found = drawn.occurrences
    senses = [one.sense for one in found] if any(one.sense for one in found) else None
    parts = [_parts(one) for one in found]
    return {
        "word": drawn.word,
        "total": drawn.n_total,
        "before": [before for before, _, _ in parts],
        "itself": [itself for _, itself, _ in parts],
        "after": [after for _, _, after in parts],
        "gold": None if senses is None else _gold(senses),
        # A single occurrence has nothing to be compared with.
        "views": _views(vectors, found, senses, projection, seed) if len(found) > 1 else [],
    }


def _parts(one: Occurrence) -> tuple[str, str, str]:
    """What is shown: what precedes in the sentence, the word, and what follows."""
    sentence = one.sentence
    start = max(sentence.start, one.start - CONTEXT)
    end = min(max(sentence.end, one.end), one.end + CONTEXT)
    before = ("… " if start > sentence.start else "") + one.doc[start : one.start].text
    after = one.doc[one.end : end].text + (" …" if end < sentence.end else "")
    return before, one.doc[one.start : one.end].text, after


def _gold(senses: Sequence[str]) -> Section:
    labels = sorted(set(senses))
    numbers = [labels.index(sense) for sense in senses]
    return {"labels": labels, "of": pack_numbers(np.array(numbers))}


def _views(
    vectors: Floats3d,
    found: Sequence[Occurrence],
    senses: Optional[Sequence[str]],
    projection: str,
    seed: int,
) -> list[Section]:
    """Each with the places and clusters of the one below in mind."""
    contexts = [_context(one) for one in found]
    views = []
    places: Optional[Floats2d] = None
    numbers: Optional[Ints1d] = None
    for layer in vectors:
        units = unit_vectors(layer)
        unaligned, variance = project(units, projection, seed=seed)
        places = unaligned if places is None else align(unaligned, places)
        clusters = find_clusters(units, seed=seed)
        numbers = (
            clusters.numbers if numbers is None else match_clusters(clusters.numbers, numbers)
        )
        neighbors, cosines = nearest(units, N_NEIGHBORS)
        views.append(
            {
                "places": pack_fractions(places / (np.abs(places).max() or 1.0)),
                "variance": variance,
                "groups": _groups(numbers, contexts),
                "of": pack_numbers(numbers),
                "silhouette": clusters.silhouette,
                "agreement": agreement(numbers, senses)._asdict() if senses else None,
                "neighbors": pack_numbers(neighbors),
                "cosines": pack_fractions(cosines),
            }
        )
    return views


def _groups(numbers: Ints1d, contexts: Sequence[Sequence[str]]) -> list[Section]:
    typical = typical_words(contexts, numbers)
    return [
        {"number": number, "count": int((numbers == number).sum()), "words": words}
        for number, words in typical.items()
    ]


def _context(one: Occurrence) -> list[str]:
    """The words within five tokens in the sentence, in lower case; no punctuation."""
    sentence = one.sentence
    around = [
        *one.doc[max(sentence.start, one.start - WINDOW) : one.start],
        *one.doc[one.end : min(max(sentence.end, one.end), one.end + WINDOW)],
    ]
    return [token.lower_ for token in around if any(map(str.isalnum, token.text))]
