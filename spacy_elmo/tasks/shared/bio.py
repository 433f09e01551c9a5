"""BIO and BILUO tags of spans that do not overlap."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TypeVar

import numpy as np

from .log_space import viterbi

LabeledSpan = tuple[int, int, str]  # First token, the token after the last one, label.
Tags = TypeVar("Tags", bound="BIOTags")


class BIOTags:
    """BIO tags as numbers: O is 0, followed by B and I of each label.

    I can only follow B or I of the same label. Three attributes contain 0 for what is valid and
    minus infinity for what is not: `transitions` from each tag to each tag, `(n_tags, n_tags)`;
    `start` for the tag of the first token, `(n_tags,)`; `end` for the tag of the last token,
    `(n_tags,)`.

    labels (Sequence[str]): The labels.
    """

    prefixes = "BI"
    last = "OBI"  # Tags after which another span may begin.

    def __init__(self, labels: Sequence[str]):
        self.labels = tuple(labels)
        self._index = {label: i for i, label in enumerate(labels)}
        prefixes = np.array(list("O" + self.prefixes * len(labels)))
        allowed = np.full((len(self), len(self)), -np.inf)
        allowed[np.ix_(np.isin(prefixes, list(self.last)), np.isin(prefixes, list("OBU")))] = 0.0
        n_inside = len(set(self.prefixes) & set("IL"))
        for begin in map(self.begin, labels):
            allowed[begin : begin + 2, begin + 1 : begin + 1 + n_inside] = 0.0
        self.transitions, self.start, self.end = allowed, allowed[0], allowed[:, 0]

    def __len__(self) -> int:
        return 1 + len(self.prefixes) * len(self.labels)

    def begin(self, label: str) -> int:
        """Return the number of a label's tag B. The next number is its tag I.

        RAISES (KeyError): The label is unknown.
        """
        return 1 + len(self.prefixes) * self._index[label]

    def of_spans(self, spans: Iterable[LabeledSpan], n_tokens: int) -> np.ndarray:
        """Return the tags of tokens with these spans, which do not overlap.

        RETURNS (numpy.ndarray): *Shape:* `(n_tokens,)`, int64
        RAISES (KeyError): A label is unknown.
        """
        tags = np.zeros(n_tokens, dtype="int64")
        for start, end, label in spans:
            places = map(self.prefixes.index, self._prefixes_of(end - start))
            tags[start:end] = [self.begin(label) + place for place in places]
        return tags

    def _prefixes_of(self, n_tokens: int) -> str:
        return "B" + "I" * (n_tokens - 1)

    def spans(self, tags: Iterable[int]) -> list[LabeledSpan]:
        """Return the spans of tags in a valid order."""
        spans: list[LabeledSpan] = []
        for i, tag in enumerate(tags):
            label, prefix = divmod(tag - 1, len(self.prefixes))
            if tag and self.prefixes[prefix] in "BU":
                spans.append((i, i + 1, self.labels[label]))
            elif tag:
                spans[-1] = (spans[-1][0], i + 1, self.labels[label])
        return spans

    def allowed(
        self, spans: Sequence[LabeledSpan], missing: np.ndarray, n_tokens: int
    ) -> np.ndarray:
        """Find which tags agree with an annotation.

        spans (Sequence[Tuple[int, int, str]]): The spans, which do not overlap.
        missing (numpy.ndarray): True at tokens without annotation. *Shape:* `(n_tokens,)`
        n_tokens (int): Number of tokens.
        RETURNS (numpy.ndarray): *Shape:* `(n_tokens, n_tags)`, bool
        RAISES (KeyError): A label is unknown.
        """
        allowed = np.eye(len(self), dtype=bool)[self.of_spans(spans, n_tokens)]
        allowed[missing] = True
        for _, end, label in spans:
            if end < n_tokens:  # The span must end here, so the next token has no I of its label.
                allowed[end, self.begin(label) + 1] = False
        return allowed

    def decode(self, scores: np.ndarray) -> np.ndarray:
        """Return the best tags in a valid order.

        RETURNS (numpy.ndarray): *Shape:* `(n_tokens,)`
        """
        best = scores.argmax(axis=1)
        steps = self.transitions[best[:-1], best[1:]]
        if len(best) and self.start[best[0]] == 0 and not steps.any():
            return best  # Usually the best tags are valid already.
        return viterbi(scores, self.transitions, self.start, self.end)


class BILUOTags(BIOTags):
    """Tags B, I, L and U of each label: a span is U, or B, any number of I, and L."""

    prefixes = "BILU"
    last = "OLU"

    def _prefixes_of(self, n_tokens: int) -> str:
        return "U" if n_tokens == 1 else "B" + "I" * (n_tokens - 2) + "L"


@lru_cache(maxsize=16)
def make_tags(kind: type[Tags], labels: tuple[str, ...]) -> Tags:
    """Return the tags of labels. The results of the last calls are cached."""
    return kind(labels)


class TagError(ValueError):
    """Error of an unknown or misplaced tag; `token` is its position."""

    def __init__(self, token: int, fault: str):
        super().__init__(f"token {token}: {fault}")
        self.token = token


def parse_bio(tags: Sequence[str]) -> list[LabeledSpan]:
    """Return the spans of BIO tags.

    RAISES (TagError): A tag is unknown, or I follows neither B nor I of its label.
    """
    spans: list[LabeledSpan] = []
    previous = "O"
    for i, tag in enumerate(tags):
        prefix, _, label = tag.partition("-")
        if tag != "O" and (prefix not in ("B", "I") or not label.strip()):
            raise TagError(i, f"expected the tag O, B-... or I-..., found {tag!r}")
        if prefix == "B":
            spans.append((i, i + 1, label))
        elif prefix == "I":
            if previous not in (f"B-{label}", tag):
                raise TagError(i, f"{tag} follows {previous}, but must follow B or I of its label")
            spans[-1] = (spans[-1][0], i + 1, label)
        previous = tag
    return spans
