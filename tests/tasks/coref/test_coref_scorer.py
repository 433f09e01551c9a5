"""Scores of coreference, against the worked examples of the papers that propose them."""

from itertools import permutations

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc
from spacy.training import Example

from spacy_elmo.tasks.coref.clusters import write_clusters
from spacy_elmo.tasks.coref.scorer import count_clusters, score_coref, total_scores


def clusters(text):
    """Clusters of mentions, a letter or digit each: "AB CD"."""
    return [[(ord(letter), ord(letter) + 1) for letter in word] for word in text.split()]


def scores(found, gold, metric):
    return count_clusters(clusters(found), clusters(gold))[metric].scores()


KEY = "12345 67 89ABC"  # of Bagga and Baldwin 1998, figure 1, and of Luo 2005


@pytest.mark.parametrize(
    ("metric", "gold", "found", "r", "p"),
    [
        # Vilain et al. 1995: a cluster is as many links as it has mentions, but one.
        ("muc", "ABCD", "AB CD", 2 / 3, 1),  # one link of three is missing
        ("muc", "AB CD", "ABCD", 1, 2 / 3),  # one of three is too much
        ("muc", "ABCD", "AB", 1 / 3, 1),
        ("muc", "ABC", "AC", 1 / 2, 1),
        ("muc", "AB", "CD", 0, 0),
        ("muc", "A BC", "A BC", 1, 1),  # a cluster of one has no links
        # Two clusters made one cost more the larger they are; for MUC both are a link of ten.
        ("b3", KEY, "12345 6789ABC", 1, (5 * 1 + 2 * 2 / 7 + 5 * 5 / 7) / 12),  # 16/21, 76.2 %
        ("b3", KEY, "1234589ABC 67", 1, (10 * 5 / 10 + 2 * 1) / 12),  # 7/12, 58.3 %
        ("muc", KEY, "12345 6789ABC", 1, 9 / 10),
        ("muc", KEY, "1234589ABC 67", 1, 9 / 10),
        # Luo 2005, table 1, the column of phi 4, with F of .733, .667, .294 and .178.
        ("ceafe", KEY, "12345 6789ABC", (1 + 2 * 5 / 12) / 3, (1 + 2 * 5 / 12) / 2),
        ("ceafe", KEY, "1234589ABC 67", (1 + 2 * 5 / 15) / 3, (1 + 2 * 5 / 15) / 2),
        ("ceafe", KEY, "123456789ABC", (2 * 5 / 17) / 3, (2 * 5 / 17) / 1),
        ("ceafe", KEY, "1 2 3 4 5 6 7 8 9 A B C", (4 / 6 + 2 / 3) / 3, (4 / 6 + 2 / 3) / 12),
        # Moosavi and Strube 2016, section 4, .24 and .33: of three links of abc one is found, of
        # six of defg one; of one link of ab one is right, of one of cd none, of six of fghi one.
        ("lea", "abc defg", "ab cd fghi", (3 * 1 / 3 + 4 * 1 / 6) / 7, (2 + 0 + 4 * 1 / 6) / 8),
        # A cluster of one is right if it is alone on the other side, too.
        ("lea", "a bc", "a b", 1 / 3, 1 / 2),
        ("mentions", "abx", "ab cd", 2 / 3, 2 / 4),
    ],
)
def test_scores_of_the_examples_in_the_papers(metric, gold, found, r, p):
    f = 2 * p * r / (p + r) if p + r else 0
    assert scores(found, gold, metric) == pytest.approx({"p": p, "r": r, "f": f})


def brute_ceaf(some, others):
    """The best of all ways to match clusters."""

    def similarity(one, other):
        return 2 * len(set(one) & set(other)) / (len(one) + len(other))

    few, many = sorted((some, others), key=len)
    return max(sum(map(similarity, few, chosen)) for chosen in permutations(many, len(few)))


def random_clusters(rng):
    mentions = rng.permutation(9)[: rng.integers(1, 10)]
    numbers = rng.integers(0, 5, size=len(mentions))
    return [
        [(int(m), int(m) + 1) for m in sorted(mentions[numbers == n])]
        for n in range(5)
        if (numbers == n).any()
    ]


def test_ceaf_is_the_best_of_all_matches():
    rng = np.random.default_rng(0)
    for _ in range(60):
        found, gold = random_clusters(rng), random_clusters(rng)
        counts = count_clusters(found, gold)
        assert counts["ceafe"].p_right == pytest.approx(brute_ceaf(found, gold))
        n_found, n_gold = (sum(map(len, side)) for side in (found, gold))
        for metric in ("lea", "b3", "mentions"):
            assert (counts[metric].p_all, counts[metric].r_all) == (n_found, n_gold)


# Of examples

NLP = spacy.blank("en")


def doc(*found):
    made = Doc(NLP.vocab, words=["Ann", "saw", "Bob", "and", "her", "cat", "saw", "him"])
    write_clusters(made, found)
    return made


ANN, BOB, CAT = [(0, 1), (4, 5)], [(2, 3), (7, 8)], [(4, 6)]


def test_scores_are_of_the_sum_of_documents():
    """A large document counts for more in a sum than in a mean."""
    first, second = Example(doc(ANN), doc(ANN, BOB)), Example(doc(BOB), doc(BOB))
    got = score_coref([first, second])
    assert got["coref_muc_r"] == pytest.approx(2 / 3)
    assert got["coref_b3_r"] == got["coref_lea_r"] == pytest.approx(4 / 6)
    assert got["coref_mentions_p"] == 1.0
    parts = [count_clusters([ANN], [ANN, BOB]), count_clusters([BOB], [BOB])]
    assert {**total_scores(parts), "coref_counts": parts} == got
    of = [got[f"coref_{name}_f"] for name in ("muc", "b3", "ceafe")]
    assert got["coref_f"] == pytest.approx(sum(of) / 3)


def test_scores_with_singletons_a_prefix_and_docs_without_annotation():
    one = Example(doc(ANN, BOB), doc(ANN, BOB, CAT))
    assert score_coref([one])["coref_mentions_r"] == pytest.approx(4 / 5)
    assert score_coref([one], singletons=False)["coref_mentions_r"] == 1.0
    both = Example(doc(ANN), doc(ANN))
    write_clusters(both.reference, [CAT], "mine")
    scores = score_coref([both]) | score_coref([both], span_cluster_prefix="mine")
    assert (scores["mine_f"], scores["mine_b3_r"]) == (scores["coref_f"], 0.0) == (0.0, 0.0)
    assert "coref_clusters_f" not in scores
    assert set(score_coref([Example(doc(ANN), doc())]).values()) == {None}
    both.reference.spans["coref_clusters_1"] = []
    invented = score_coref([both])
    assert invented["coref_f"] == invented["coref_mentions_p"] == 0.0
