"""What can be predicted without a vector."""

from collections import Counter, defaultdict
from collections.abc import Sequence


def most_frequent(labels: Sequence[str]) -> str:
    """RETURNS (str): The most frequent label; of several the first by name."""
    counts = Counter(labels)
    return min(counts, key=lambda label: (-counts[label], label))


def most_frequent_by_word(
    labels: Sequence[str], words: Sequence[str], asked: Sequence[str]
) -> list[str]:
    """Predict by the word alone.

    labels (List[str]): Labels of the training data.
    words (List[str]): The words that have them.
    asked (List[str]): Words to predict the label of.
    RETURNS (List[str]): Each word's most frequent label; of a word without
        training data the most frequent label of all.
    """
    by_word: dict[str, list[str]] = defaultdict(list)
    for word, label in zip(words, labels):
        by_word[word].append(label)
    known = {word: most_frequent(found) for word, found in by_word.items()}
    default = most_frequent(labels)
    return [known.get(word, default) for word in asked]
