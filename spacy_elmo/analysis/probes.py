"""Linear probes: what a logistic regression reads from each layer."""

import time
from collections.abc import Iterator, Sequence

import numpy as np

from .baselines import most_frequent, most_frequent_by_word
from .classifier import fit_and_predict
from .report import Row
from .sample import Sample, describe_input, select_input


def probe_labels(train: Sample, test: Sample, inputs: Sequence[str]) -> Iterator[Row]:
    """Predict labels without vectors, and from each input by a logistic regression
    (Peters et al. 2018, section 5.3 and table 6). A label that the training data
    does not have is never predicted, and so counts as wrong.

    train (Sample): What to train on.
    test (Sample): What to predict.
    inputs (List[str]): What to read: layers, "average", "concat".
    YIELDS (Row): The most frequent label, of all and of the word, then a row an input.
        Scores: "accuracy", and "macro_f", the mean over the labels of the test data of F1.
    """
    predicted = [most_frequent(train.labels)] * len(test)
    yield Row("most frequent label", "", _scores(predicted, test), 0.0)
    if any(train.words):
        predicted = most_frequent_by_word(train.labels, train.words, test.words)
        yield Row("most frequent label of the word", "", _scores(predicted, test), 0.0)
    for name in inputs:
        start = time.perf_counter()
        predicted, converged = fit_and_predict(
            select_input(train.layers, name), train.labels, select_input(test.layers, name)
        )
        seconds = time.perf_counter() - start
        scores = _scores(predicted, test)
        yield Row("logistic regression", describe_input(name), scores, seconds, converged)


def _scores(predicted: Sequence[str], test: Sample) -> dict[str, float]:
    from sklearn.metrics import f1_score

    gold = test.labels
    return {
        "accuracy": float(np.mean([one == other for one, other in zip(predicted, gold)])),
        "macro_f": float(
            f1_score(gold, predicted, labels=sorted(set(gold)), average="macro", zero_division=0.0)
        ),
    }
