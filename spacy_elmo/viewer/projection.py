"""Projections of vectors to points of a map."""

from typing import Optional

import numpy as np
from thinc.types import Floats1d, Floats2d

PERPLEXITY = 30.0  # scikit-learn's default for t-SNE.


def pca(vectors: Floats2d) -> tuple[Floats2d, Floats1d]:
    """Project vectors onto their first two principal components.

    The sign of a component is arbitrary. Here its largest weight is positive, so that the map is
    always the same.

    vectors (Floats2d): *Shape:* `(n, width)`
    RETURNS (Tuple[Floats2d, Floats1d]): The points, `(n, 2)`; and the share of the variance of each
        component, `(2,)`. Both are zeros if all vectors are equal.
    """
    centered = vectors - vectors.mean(axis=0)
    if np.abs(centered).max(initial=0.0) < 1e-5:  # Smaller values are rounding errors.
        return np.zeros((len(vectors), 2)), np.zeros(2)
    _, lengths, components = np.linalg.svd(centered, full_matrices=False)
    shares = np.zeros(2)
    shares[: len(lengths)] = (lengths**2 / (lengths**2).sum())[:2]
    components = components[:2]
    largest = np.abs(components).argmax(axis=1)
    components = components * np.sign(components[np.arange(len(components)), largest])[:, None]
    places = np.zeros((len(vectors), 2))
    places[:, : len(components)] = centered @ components.T
    return places, shares


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

    perplexity = min(PERPLEXITY, (len(vectors) - 1) / 3)
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

    places (Floats2d): Points of the map, with mean 0. *Shape:* `(n, 2)`
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
