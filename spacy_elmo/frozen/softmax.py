"""Softmax of a language model in NumPy, for evaluation without training."""

from collections.abc import Iterator, Mapping

import numpy as np

from .encoder import as_float32

# Maximum number of logits in memory.
CHUNK_LOGITS = 2**22
_CUTOFFS = (2_000, 10_000, 60_000)
_HEAD = "layers.head"


class FrozenSoftmax:
    """Softmax over a vocabulary, shared by both directions.

    The softmax is full or adaptive (Grave et al. 2017).

    arrays (Mapping[str, numpy.ndarray]): float32 or float16, by the names in
        `LanguageModelSoftmax.state_dict()` or `AdaptiveSoftmax.state_dict()`.
    """

    def __init__(self, arrays: Mapping[str, np.ndarray]):
        self._arrays = dict(arrays)
        self.kind = "full" if "weight" in arrays else "adaptive"

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the weights by name."""
        return dict(self._arrays)

    @property
    def sizes(self) -> tuple[int, int]:
        """Number of words, V, and width of a context vector, P."""
        first = self._arrays["weight" if self.kind == "full" else f"{_HEAD}.weight"]
        n_words = len(first)
        if self.kind == "adaptive":
            n_words += sum(len(low) - 1 for _, low in self._tails())
        return n_words, first.shape[1]

    def log_probabilities(self, contexts: np.ndarray) -> np.ndarray:
        """Compute the log-probability of every word.

        contexts (numpy.ndarray): Context vectors. *Shape:* `(n, P)`
        RETURNS (numpy.ndarray): float64. *Shape:* `(n, V)`
        """
        if self.kind == "full":
            return _log_softmax(self._scores(contexts, "weight", "bias"))
        head = _log_softmax(self._scores(contexts, f"{_HEAD}.weight", f"{_HEAD}.bias"))
        tails = list(self._tails())
        found, of_clusters = np.split(head, [head.shape[1] - len(tails)], axis=1)
        parts = [found]
        for i, (down, low) in enumerate(tails):
            inner = contexts @ as_float32(down).T @ as_float32(low).T
            parts.append(_log_softmax(inner) + of_clusters[:, i, None])
        return np.concatenate(parts, axis=1)

    def negative_log_likelihood(self, contexts: np.ndarray, targets: np.ndarray) -> float:
        """Compute the sum of the targets' negative log-probabilities, in nats.

        contexts (numpy.ndarray): Context vectors. *Shape:* `(n, P)`
        targets (numpy.ndarray): Word ids. *Shape:* `(n,)`
        RETURNS (float): The sum.
        """
        size = max(1, CHUNK_LOGITS // self.sizes[0])
        total = 0.0
        for start in range(0, len(contexts), size):
            wanted = targets[start : start + size]
            found = self.log_probabilities(contexts[start : start + size])
            total -= float(found[np.arange(len(wanted)), wanted].sum())
        return total

    def _scores(self, contexts: np.ndarray, weight: str, bias: str) -> np.ndarray:
        arrays = self._arrays
        scores: np.ndarray = contexts @ as_float32(arrays[weight]).T + as_float32(arrays[bias])
        return scores

    def _tails(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the two weights of each cluster of rare words.

        The first, `(low, P)`, maps a context vector to a smaller width. The second, `(n_words,
        low)`, maps the result to logits.
        """
        n_tails = sum(name.endswith(".0.weight") for name in self._arrays)
        for i in range(n_tails):
            names = (f"layers.tail.{i}.{k}.weight" for k in (0, 1))
            yield tuple(self._arrays[name] for name in names)  # type: ignore[misc]


def adaptive_cutoffs(n_words: int) -> list[int]:
    """Return the rank at which each cluster of rare words of an adaptive softmax starts."""
    cutoffs = [cutoff for cutoff in _CUTOFFS if cutoff < n_words - 1]
    # An adaptive softmax needs at least one cluster, so very small vocabularies are cut in half.
    return cutoffs or [max(1, n_words // 2)]


def softmax_shapes(kind: str, *, n_words: int, width: int) -> dict[str, tuple[int, ...]]:
    """Return names and shapes of the weights of a softmax.

    kind (str): "full" or "adaptive".
    n_words (int): Size of the vocabulary, V.
    width (int): Size of a context vector, P.
    RETURNS (Dict[str, Tuple[int, ...]]): Shape of each weight, by its name in `state_dict()`.
    """
    if kind == "full":
        return {"weight": (n_words, width), "bias": (n_words,)}
    cutoffs = adaptive_cutoffs(n_words)
    n_head = cutoffs[0] + len(cutoffs)
    shapes: dict[str, tuple[int, ...]] = {
        f"{_HEAD}.weight": (n_head, width),
        f"{_HEAD}.bias": (n_head,),
    }
    for i, (start, end) in enumerate(zip(cutoffs, [*cutoffs[1:], n_words])):
        low = width // 2 ** (i + 1)
        shapes[f"layers.tail.{i}.0.weight"] = (low, width)
        shapes[f"layers.tail.{i}.1.weight"] = (end - start, low)
    return shapes


def _log_softmax(scores: np.ndarray) -> np.ndarray:
    exact = scores.astype("float64")
    exact -= exact.max(axis=1, keepdims=True)
    exact -= np.log(np.exp(exact).sum(axis=1, keepdims=True))
    return exact
