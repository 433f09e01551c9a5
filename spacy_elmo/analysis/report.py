"""What a probe found."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One predictor and its scores.

    method (str): How it predicts, "logistic regression".
    input (str): What it reads, "layer 1"; "" of a baseline.
    scores (Dict[str, float]): From 0 to 1.
    seconds (float): How long it took.
    converged (bool): Whether the fit came to its end.
    """

    method: str
    input: str
    scores: dict[str, float]
    seconds: float
    converged: bool = True


@dataclass(frozen=True)
class Report:
    """All predictors of a probe on the same data.

    task (str): What was predicted, "tag".
    n_labels (int): Labels in the training data.
    n_train (int): Items that were trained on.
    n_test (int): Items that were predicted.
    n_unseen (int): Of those, items with a label that the training data does not
        have: no probe can be right.
    embedding_seconds (float): How long the language model took.
    rows (List[Row]): The predictors, baselines first.
    """

    task: str
    n_labels: int
    n_train: int
    n_test: int
    n_unseen: int
    embedding_seconds: float
    rows: list[Row]
