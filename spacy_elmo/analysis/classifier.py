"""Logistic regression, by scikit-learn."""

import warnings
from collections.abc import Sequence

import numpy as np
from thinc.types import Floats2d

# scikit-learn's C, the inverse of the penalty. Of 1, 0.1, 0.01 and 0.001 the best for senses, and
# for tags within 0.2 points of it; for whole sentences (SST-5) 1 to 5 points below the best.
STRENGTH = 1.0
TOLERANCE = 1e-4  # at 1e-3 the tags by layer 0 lost 0.7 points, those by layer 2 less than 0.1
MAX_ITERATIONS = 1000  # 50,000 vectors of width 256 with 50 labels took 250 to 500


def require_sklearn(purpose: str) -> None:
    """Check that scikit-learn is installed.

    purpose (str): What it does, for the message.
    RAISES (ImportError): It is not installed.
    """
    try:
        import sklearn  # noqa: F401
    except ImportError:
        raise ImportError(
            f"scikit-learn {purpose}, and is not installed: pip install 'spacy-elmo[analysis]'"
        ) from None


def fit_and_predict(
    train: Floats2d, labels: Sequence[str], test: Floats2d
) -> tuple[list[str], bool]:
    """Fit a multinomial logistic regression, every feature brought to mean 0 and
    variance 1 over the training data, and predict.

    train (Floats2d): *Shape:* `(n_train, width)`
    labels (List[str]): Their labels.
    test (Floats2d): *Shape:* `(n_test, width)`
    RETURNS (Tuple[List[str], bool]): The predicted labels, and whether the fit converged.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    if len(set(labels)) == 1:
        return [labels[0]] * len(test), True
    scaler = StandardScaler().fit(train)
    model = LogisticRegression(C=STRENGTH, tol=TOLERANCE, max_iter=MAX_ITERATIONS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the report says so
        model.fit(scaler.transform(train), np.asarray(labels))
    predicted = model.predict(scaler.transform(test)).tolist()
    return predicted, bool(model.n_iter_.max() < MAX_ITERATIONS)
