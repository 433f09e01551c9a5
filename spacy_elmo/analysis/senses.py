"""Which sense a word has in its context, by layer."""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from thinc.types import Floats1d, Floats2d

from .baselines import most_frequent, most_frequent_by_word
from .classifier import fit_and_predict
from .report import Row
from .sample import Sample, describe_input, select_input, unit_vectors

SAME = 1e-6  # cosines that differ by less are equal: rounding decides nothing

# Vectors and senses of a word's training occurrences, vectors of its test
# occurrences -> the predicted senses, and whether a fit converged.
Predict = Callable[[Floats2d, Sequence[str], Floats2d], tuple[list[str], bool]]


def probe_senses(
    train: Sample, test: Sample, inputs: Sequence[str], *, k: int = 1
) -> Iterator[Row]:
    """Predict the sense of each word from its own training occurrences: the most
    frequent one, that of the nearest neighbor (Peters et al. 2018, section 5.3 and
    table 5), and by a logistic regression a word. Where a word has no training
    occurrence, the most frequent label of all stands in, in every row alike.

    train (Sample): Occurrences with known senses.
    test (Sample): Occurrences to predict.
    inputs (List[str]): What to read: layers, "average", "concat".
    k (int): Neighbors that vote.
    YIELDS (Row): The baseline, then a row a method and input. Scores: "accuracy" over
        all occurrences, and "word_accuracy", its mean over the words.
    RAISES (ValueError): There is no neighbor to ask.
    """
    if k < 1:
        raise ValueError(f"at least 1 neighbor must be asked, got {k}")
    without = most_frequent_by_word(train.labels, train.words, test.words)
    yield Row("most frequent sense", "", _scores(without, test), 0.0)
    methods: dict[str, Predict] = {
        "nearest neighbor": lambda known, senses, asked: (
            nearest_senses(known, senses, asked, k=k),
            True,
        ),
        "logistic regression": fit_and_predict,
    }
    for method, predict in methods.items():
        for name in inputs:
            start = time.perf_counter()
            predicted, converged = _by_word(train, test, name, predict, without)
            seconds = time.perf_counter() - start
            yield Row(method, describe_input(name), _scores(predicted, test), seconds, converged)


def nearest_senses(
    known: Floats2d, senses: Sequence[str], asked: Floats2d, *, k: int = 1
) -> list[str]:
    """The sense that most of the k nearest neighbors by cosine have. All that are
    as near as the k-th vote too; the more frequent sense wins a draw. So equal vectors,
    as a word's layer 0 is, fall back to the most frequent sense.

    known (Floats2d): *Shape:* `(n_known, width)`
    senses (List[str]): Their senses.
    asked (Floats2d): *Shape:* `(n_asked, width)`
    k (int): Neighbors that vote.
    RETURNS (List[str]): A sense each.
    """
    cosines = unit_vectors(asked) @ unit_vectors(known).T
    k = min(k, len(senses))
    kth = np.partition(cosines, -k, axis=1)[:, -k]
    return [_vote(row >= threshold - SAME, senses) for row, threshold in zip(cosines, kth)]


def _vote(voters: Floats1d, senses: Sequence[str]) -> str:
    votes = Counter(sense for sense, has_vote in zip(senses, voters) if has_vote)
    max_votes = max(votes.values())
    return most_frequent([sense for sense in senses if votes[sense] == max_votes])


def _by_word(
    train: Sample, test: Sample, name: str, predict: Predict, without: Sequence[str]
) -> tuple[list[str], bool]:
    """Predict word by word; `without` is for words without training occurrences."""
    known, asked = select_input(train.layers, name), select_input(test.layers, name)
    places = positions_by_word(train.words)
    predicted = list(without)
    converged = True
    for word, rows in positions_by_word(test.words).items():
        if word not in places:
            continue
        senses = [train.labels[i] for i in places[word]]
        answers, ended = predict(known[places[word]], senses, asked[rows])
        converged &= ended
        for row, answer in zip(rows, answers):
            predicted[row] = answer
    return predicted, converged


def positions_by_word(words: Sequence[str]) -> dict[str, list[int]]:
    """RETURNS (Dict[str, List[int]]): Where each word stands."""
    places: dict[str, list[int]] = defaultdict(list)
    for i, word in enumerate(words):
        places[word].append(i)
    return dict(places)


def _scores(predicted: Sequence[str], test: Sample) -> dict[str, float]:
    right = np.array([one == other for one, other in zip(predicted, test.labels)], dtype="float64")
    return {
        "accuracy": float(right.mean()),
        "word_accuracy": float(
            np.mean([right[rows].mean() for rows in positions_by_word(test.words).values()])
        ),
    }
