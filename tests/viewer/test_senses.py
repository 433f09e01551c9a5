"""Maps of occurrences: projections, alignment, neighbors and packed numbers are right."""

import numpy as np
import pytest
from spacy.tokens import Doc
from spacy.vocab import Vocab

from spacy_elmo.analysis.corpora import unit_vectors
from spacy_elmo.analysis.occurrences import Occurrence
from spacy_elmo.viewer.page import pack_fractions, pack_numbers
from spacy_elmo.viewer.senses import _context, _stop_words, align_places, nearest, pca, project

from helpers import shown_pages

pytest.importorskip("sklearn")


@pytest.fixture
def vectors():
    return np.random.default_rng(0).normal(size=(40, 12)) * np.linspace(3, 0.5, 12)


def test_pca_does_not_depend_on_the_order(vectors):
    places, _ = pca(vectors)
    order = np.random.default_rng(1).permutation(len(vectors))
    np.testing.assert_allclose(pca(vectors[order])[0], places[order], atol=1e-9)


def test_pca_of_few_points():
    places, shares = pca(np.array([[0.0, 0, 3], [0, 0, 5]]))
    np.testing.assert_allclose(places, [[-1, 0], [1, 0]], atol=1e-12)
    np.testing.assert_allclose(shares, [1, 0], atol=1e-12)
    places, shares = pca(np.full((7, 4), 0.3) + 1e-8 * np.arange(7)[:, None])
    assert not places.any() and not shares.any()


def test_alignment_finds_the_best_turn(vectors):
    places = vectors[:, :2] - vectors[:, :2].mean(0)
    turned = places @ np.array([[0.6, -0.8], [0.8, 0.6]]) * [1, -1]
    np.testing.assert_allclose(align_places(3 * turned, places), 3 * places, atol=1e-9)
    noisy = turned + 0.1 * np.random.default_rng(2).normal(size=turned.shape)
    best = np.linalg.norm(align_places(noisy, places) - places)
    for angle in np.linspace(0, 2 * np.pi, 100):
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        for mirror in (1, -1):
            assert np.linalg.norm(noisy @ turn * [1, mirror] - places) >= best - 1e-9
    np.testing.assert_allclose(np.abs(align_places(places, 0 * places)), np.abs(places))


def test_neighbors_are_the_nearest_by_cosine(vectors):
    units = unit_vectors(vectors.astype("float32"))
    np.testing.assert_allclose(np.linalg.norm(units, axis=1), 1)
    numbers, cosines = nearest(units, 5)
    for i, one in enumerate(vectors):
        every = vectors @ one / np.linalg.norm(vectors, axis=1) / np.linalg.norm(one)
        order = [j for j in np.argsort(-every) if j != i][:5]
        assert numbers[i].tolist() == order
        np.testing.assert_allclose(cosines[i], every[order], atol=1e-6)
    assert nearest(unit_vectors(np.ones((3, 4))), 10)[0].tolist() == [[1, 2], [0, 2], [0, 1]]
    assert not unit_vectors(np.zeros((2, 4))).any()


def test_tsne_keeps_neighbors_near():
    clouds = np.repeat(np.eye(3), 20, axis=0) + 0.01 * np.random.default_rng(0).normal(size=(60, 3))
    places, variance = project(clouds, "tsne")
    assert variance is None
    distances = np.linalg.norm(places[:, None] - places[None], axis=2) + np.eye(60) * 1e9
    np.testing.assert_array_equal(distances.argmin(1) // 20, np.arange(60) // 20)
    np.testing.assert_array_equal(project(clouds, "tsne")[0], places)
    assert project(clouds[:2], "tsne")[1] == pytest.approx(1.0)  # too few


def test_packed_numbers_are_unpacked_by_the_page():
    found = shown_pages.fractions(pack_fractions(np.array([[-1.0, 0.25], [1.2, 1e-6]])))
    np.testing.assert_allclose(found, [-1, 0.25, 1, 0], atol=1 / 64_000)
    assert shown_pages.numbers(pack_numbers(np.array([0, 65_535]))).tolist() == [0, 65_535]
    assert pack_numbers(np.array([], dtype=int)) == ""
    with pytest.raises(ValueError, match="uint16"):
        pack_numbers(np.array([65_536]))


@pytest.mark.parametrize(
    ("lang", "expected"),
    [
        ("de", "by were fluss"),
        ("en", "i\u017ft dem fluss"),
        ("xx", "i\u017ft by dem were fluss"),
        ("unknown", "i\u017ft by dem were fluss"),
    ],
)
def test_stop_words_describe_no_group(lang, expected):
    """Stop words are those of the text's language. A long s counts as s."""
    doc = Doc(Vocab(), words=["i\u017ft", "By", ":", "Bank", "dem", "were", "Fluss"])
    assert _context(Occurrence(doc, 3, 4, ""), _stop_words(lang)) == expected.split()
