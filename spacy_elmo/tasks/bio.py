"""Spans that do not overlap as BIO tags."""

from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np

from .viterbi import viterbi

LabeledSpan = tuple[int, int, str]  # first token, the token after the last one, label


class BIOTags:
    """The tags of labels, as numbers: O is 0, then B and I of each label. I follows
    B or I of its own label alone.

    labels (Sequence[str]): The labels.
    """

    def __init__(self, labels: Sequence[str]):
        self.labels = tuple(labels)
        self._index = {label: i for i, label in enumerate(labels)}

    def __len__(self) -> int:
        return 1 + 2 * len(self.labels)

    def begin(self, label: str) -> int:
        """RETURNS (int): The tag B of a label; the next one is its I.
        RAISES (KeyError): It is none of the labels."""
        return 1 + 2 * self._index[label]

    def of_spans(self, spans: Iterable[LabeledSpan], n_tokens: int) -> np.ndarray:
        """RETURNS (numpy.ndarray): The tags of tokens with these spans, which do not
        overlap. *Shape:* `(n_tokens,)`, int64
        RAISES (KeyError): A label is none of the labels."""
        tags = np.zeros(n_tokens, dtype="int64")
        for start, end, label in spans:
            tags[start:end] = self.begin(label) + 1
            tags[start] -= 1
        return tags

    def spans(self, tags: Iterable[int]) -> list[LabeledSpan]:
        """RETURNS (List[Tuple[int, int, str]]): The spans of tags in a valid order."""
        spans: list[LabeledSpan] = []
        for i, tag in enumerate(tags):
            label = self.labels[(tag - 1) // 2]
            if tag and tag % 2:
                spans.append((i, i + 1, label))
            elif tag:
                spans[-1] = (spans[-1][0], i + 1, label)
        return spans

    @cached_property
    def transitions(self) -> np.ndarray:
        """RETURNS (numpy.ndarray): From each tag to each: 0, or minus infinity where it may
        not follow. *Shape:* `(n_tags, n_tags)`"""
        allowed = np.zeros((len(self), len(self)))
        for inside in range(2, len(self), 2):
            allowed[:, inside] = -np.inf
            allowed[inside - 1 : inside + 1, inside] = 0.0
        return allowed

    @cached_property
    def start(self) -> np.ndarray:
        """RETURNS (numpy.ndarray): The same of the first token. *Shape:* `(n_tags,)`"""
        return self.transitions[0]

    def decode(self, scores: np.ndarray) -> np.ndarray:
        """RETURNS (numpy.ndarray): The best tags in a valid order. *Shape:* `(n_tokens,)`"""
        best = scores.argmax(axis=1)
        steps = self.transitions[best[:-1], best[1:]]
        if len(best) and self.start[best[0]] == 0 and not steps.any():
            return best  # nothing can be better, and most are valid
        return viterbi(scores, self.transitions, self.start)


def parse_bio(tags: Sequence[str]) -> list[LabeledSpan]:
    """RETURNS (List[Tuple[int, int, str]]): The spans of BIO tags.
    RAISES (ValueError): A tag is none, or I follows neither B nor I of its label."""
    spans: list[LabeledSpan] = []
    previous = "O"
    for i, tag in enumerate(tags):
        prefix, _, label = tag.partition("-")
        if tag != "O" and (prefix not in ("B", "I") or not label):
            raise ValueError(f"expected the tag O, B-... or I-..., found {tag!r}")
        if prefix == "B":
            spans.append((i, i + 1, label))
        elif prefix == "I":
            if previous not in (f"B-{label}", tag):
                raise ValueError(f"{tag} follows {previous}, no span of its label")
            spans[-1] = (spans[-1][0], i + 1, label)
        previous = tag
    return spans
