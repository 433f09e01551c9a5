"""Probes: classifiers that predict labels or word senses from each layer, and baselines."""

import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

import numpy as np
from spacy.language import Language
from thinc.types import Floats1d, Floats2d

from ..files import progress_bar
from ..files.optional import import_optional
from ..pipeline.load import elmo_pipe
from .corpora import Sample, check_inputs, describe_input, parse_task, read_sample, unit_vectors

Strings = Sequence[str]

SAME = 1e-6  # Smaller differences between cosines are rounding errors, so they count as equal.

# Function for one word. Arguments: vectors and senses of the training occurrences, vectors of the
# test occurrences. Result: the predicted senses, and whether the fit converged.
Predict = Callable[[Floats2d, Strings, Floats2d], tuple[list[str], bool]]

# scikit-learn's C, the inverse of the penalty. Of 1, 0.1, 0.01 and 0.001, 1 is the best for
# senses. For tags it is within 0.2 points of the best value, for SST-5 it is 1 to 5 points worse.
STRENGTH = 1.0
TOLERANCE = 1e-4  # With 1e-3, tags lose 0.7 points from layer 0, and less than 0.1 from layer 2.
MAX_ITERATIONS = 1000  # 50,000 vectors of width 256 with 50 labels need 250 to 500.


@dataclass(frozen=True)
class Row:
    """Row of a report: a probe or baseline, and its scores.

    method (str): The method, such as "logistic regression".
    input (str): The input, such as "layer 1"; "" for a baseline.
    scores (Dict[str, float]): Scores from 0 to 1.
    seconds (float): Time to fit and predict.
    converged (bool): Whether the fit converged.
    """

    method: str
    input: str
    scores: dict[str, float]
    seconds: float
    converged: bool = True


@dataclass(frozen=True)
class ProbeReport:
    """Report of all probes and baselines for a task.

    task (str): The task, such as "tag".
    n_labels (int): Number of labels in the training data.
    n_train (int): Number of training items.
    n_test (int): Number of test items.
    n_unseen (int): Number of test items whose label is not in the training data. No probe can
        predict these labels.
    embedding_seconds (float): Time to compute the layers.
    rows (List[Row]): Baselines and probes, baselines first.
    """

    task: str
    n_labels: int
    n_train: int
    n_test: int
    n_unseen: int
    embedding_seconds: float
    rows: list[Row]


def probe(
    nlp: Language,
    train: Path,
    test: Path,
    task: str,
    *,
    inputs: Optional[Sequence[str]] = None,
    limit: int = 50_000,
    seed: int = 0,
    neighbors: int = 1,
) -> ProbeReport:
    """Train probes on the layers of a language model, and evaluate them.

    nlp (Language): A pipeline with a pipe `elmo`. `read_pipeline` makes one from weights.
    train (Path): Labeled Docs to train on: a .spacy file, or a folder of them.
    test (Path): Labeled Docs to evaluate on: a .spacy file, or a folder of them.
    task (str): "tag", "pos", "dep", "ent", "cats", "spans:NAME" or "senses:NAME".
    inputs (Optional[List[str]]): The inputs of probes: numbers of layers ("0"), "average" (mean of
        all layers), "concat" (all layers concatenated). Default: each layer, and "average".
    limit (int): Maximum number of items (tokens, spans or Docs) from each corpus; 0 for all.
    neighbors (int): Number of neighbors that vote for a sense.
    RAISES (ValueError): An argument is wrong, or a corpus cannot be read.
    RAISES (ImportError): scikit-learn is not installed.
    """
    import_optional("sklearn", "The fit of the probes")
    goal = parse_task(task)
    inputs = check_inputs(inputs, elmo_pipe(nlp).bilm.config.n_layers)
    start = time.perf_counter()
    known, asked = (read_sample(nlp, path, goal, limit=limit, seed=seed) for path in (train, test))
    embedding_seconds = time.perf_counter() - start
    if goal.is_senses:
        rows = probe_senses(known, asked, inputs, k=neighbors)
    else:
        rows = probe_labels(known, asked, inputs)
    with progress_bar(None, "probes", in_logs=False, iterable=rows) as bar:
        found = list(bar)
    labels = set(known.labels)
    return ProbeReport(
        task=task,
        n_labels=len(labels),
        n_train=len(known),
        n_test=len(asked),
        n_unseen=sum(label not in labels for label in asked.labels),
        embedding_seconds=embedding_seconds,
        rows=found,
    )


def probe_labels(train: Sample, test: Sample, inputs: Strings) -> Iterator[Row]:
    """Predict labels with baselines, and with a logistic regression for each input.

    See Peters et al. 2018, section 5.3 and table 6. Test items whose label is not in the training
    data count as wrong.

    inputs (List[str]): Layers, "average" or "concat".
    YIELDS (Row): One row per baseline (most frequent label; most frequent label of the word, except
        for labels of Docs), then one row per input. Scores: "accuracy"; and "macro_f", the mean F1
        of the labels in the test data.
    """
    predicted = [most_frequent(train.labels)] * len(test)
    yield Row("most frequent label", "", _label_scores(predicted, test), 0.0)
    if any(train.words):
        predicted = most_frequent_by_word(train.labels, train.words, test.words)
        yield Row("most frequent label of the word", "", _label_scores(predicted, test), 0.0)
    for name in inputs:
        start = time.perf_counter()
        predicted, converged = fit_and_predict(train.select(name), train.labels, test.select(name))
        seconds = time.perf_counter() - start
        scores = _label_scores(predicted, test)
        yield Row("logistic regression", describe_input(name), scores, seconds, converged)


def probe_senses(train: Sample, test: Sample, inputs: Strings, *, k: int = 1) -> Iterator[Row]:
    """Predict the sense of each word from the training occurrences of the same word.

    The methods are the most frequent sense, the nearest neighbors (Peters et al. 2018, section 5.3
    and table 5), and one logistic regression per word. If a word has no training occurrence, all
    methods predict the most frequent sense of the whole training data.

    inputs (List[str]): Layers, "average" or "concat".
    k (int): Number of neighbors that vote.
    YIELDS (Row): The baseline, then one row per method and input. Scores: "accuracy" over all
        occurrences, and "word_accuracy", the mean of the words' accuracies.
    RAISES (ValueError): k is below 1.
    """
    if k < 1:
        raise ValueError(f"the number of neighbors must be at least 1, got {k}")
    without = most_frequent_by_word(train.labels, train.words, test.words)
    yield Row("most frequent sense", "", _sense_scores(without, test), 0.0)
    methods: dict[str, Predict] = {
        "nearest neighbor": lambda *data: (nearest_senses(*data, k=k), True),
        "logistic regression": fit_and_predict,
    }
    for method, predict in methods.items():
        for name in inputs:
            start = time.perf_counter()
            predicted, converged = _by_word(train, test, name, predict, without)
            seconds = time.perf_counter() - start
            scores = _sense_scores(predicted, test)
            yield Row(method, describe_input(name), scores, seconds, converged)


def nearest_senses(known: Floats2d, senses: Strings, asked: Floats2d, *, k: int = 1) -> list[str]:
    """Predict the most frequent sense among the k nearest neighbors by cosine.

    Neighbors that are as near as the k-th neighbor also vote. If two senses have equal votes, the
    sense that is more frequent in `senses` wins. So if all vectors are equal, as in layer 0, the
    prediction is the most frequent sense.

    known (Floats2d): Vectors of training occurrences with `senses`. *Shape:* `(n_known, width)`
    asked (Floats2d): Vectors of test occurrences. *Shape:* `(n_asked, width)`
    """
    cosines = unit_vectors(asked) @ unit_vectors(known).T
    k = min(k, len(senses))
    kth = np.partition(cosines, -k, axis=1)[:, -k]
    return [_vote(row >= threshold - SAME, senses) for row, threshold in zip(cosines, kth)]


def _vote(voters: Floats1d, senses: Strings) -> str:
    votes = Counter(sense for sense, has_vote in zip(senses, voters) if has_vote)
    max_votes = max(votes.values())
    return most_frequent([sense for sense in senses if votes[sense] == max_votes])


def _by_word(
    train: Sample, test: Sample, name: str, predict: Predict, without: Strings
) -> tuple[list[str], bool]:
    """Predict the senses of each word's test occurrences from its training occurrences.

    `without` has a sense for each test occurrence. This sense is the prediction if the word has no
    training occurrence.
    """
    known, asked = train.select(name), test.select(name)
    places = positions_by_word(train.words)
    predicted = list(without)
    converged = True
    for word, rows in positions_by_word(test.words).items():
        if word in places:
            senses = [train.labels[i] for i in places[word]]
            answers, ended = predict(known[places[word]], senses, asked[rows])
            converged &= ended
            for row, answer in zip(rows, answers):
                predicted[row] = answer
    return predicted, converged


def positions_by_word(words: Sequence[str]) -> dict[str, list[int]]:
    """Return the indices at which each word occurs in a list."""
    places: dict[str, list[int]] = defaultdict(list)
    for i, word in enumerate(words):
        places[word].append(i)
    return dict(places)


def most_frequent(labels: Strings) -> str:
    """Return the most frequent label. If counts are equal, the first in alphabetical order wins."""
    counts = Counter(labels)
    return min(counts, key=lambda label: (-counts[label], label))


def most_frequent_by_word(labels: Strings, words: Strings, asked: Strings) -> list[str]:
    """Predict the most frequent label of each word, or of all words if the word is unknown."""
    places = positions_by_word(words).items()
    known = {word: most_frequent([labels[i] for i in found]) for word, found in places}
    default = most_frequent(labels)
    return [known.get(word, default) for word in asked]


def _label_scores(predicted: Strings, test: Sample) -> dict[str, float]:
    from sklearn.metrics import accuracy_score, f1_score

    gold, labels = test.labels, sorted(set(test.labels))
    macro_f = f1_score(gold, predicted, labels=labels, average="macro", zero_division=0.0)
    return {"accuracy": float(accuracy_score(gold, predicted)), "macro_f": float(macro_f)}


def _sense_scores(predicted: Strings, test: Sample) -> dict[str, float]:
    right = np.array([one == other for one, other in zip(predicted, test.labels)], dtype="float64")
    of_words = [right[rows].mean() for rows in positions_by_word(test.words).values()]
    return {"accuracy": float(right.mean()), "word_accuracy": float(np.mean(of_words))}


def fit_and_predict(train: Floats2d, labels: Strings, test: Floats2d) -> tuple[list[str], bool]:
    """Fit a multinomial logistic regression on labeled vectors, and predict labels of test vectors.

    Each feature is standardized to mean 0 and variance 1 in the training data.

    train (Floats2d): *Shape:* `(n_train, width)`
    test (Floats2d): *Shape:* `(n_test, width)`
    RETURNS (Tuple[List[str], bool]): The predicted labels, and whether the fit converged.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    # scikit-learn refuses data with only one label.
    if len(set(labels)) == 1:
        return [labels[0]] * len(test), True
    regression = LogisticRegression(C=STRENGTH, tol=TOLERANCE, max_iter=MAX_ITERATIONS)
    model = make_pipeline(StandardScaler(), regression)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # `Row.converged` reports it.
        model.fit(train, np.asarray(labels))
    return model.predict(test).tolist(), bool(regression.n_iter_.max() < MAX_ITERATIONS)
