"""BIO and BILUO tags of spans that do not overlap, and the best sequence of tags."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TypeVar

import numpy as np

LabeledSpan = tuple[int, int, str]  # First token, the token after the last one, label.
Tags = TypeVar("Tags", bound="BIOTags")


class BIOTags:
    """Converter between labeled spans and BIO tags, which are numbers.

    Tag 0 is O. The next tags are B and I of the first label, then B and I of the second label, and
    so on. A tag I can only follow a tag B or I of the same label. Three arrays contain 0 for valid
    tags, and minus infinity for invalid tags:

    * `transitions`: from the tag of a token to the tag of the next. *Shape:* `(n_tags, n_tags)`
    * `start`: for the tag of the first token. *Shape:* `(n_tags,)`
    * `end`: for the tag of the last token. *Shape:* `(n_tags,)`
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
        # I and L follow B in `prefixes`, so all transitions within a span are one block.
        for begin in map(self.begin, labels):
            allowed[begin : begin + 2, begin + 1 : begin + 1 + n_inside] = 0.0
        self.transitions, self.start, self.end = allowed, allowed[0], allowed[:, 0]

    def __len__(self) -> int:
        return 1 + len(self.prefixes) * len(self.labels)

    def begin(self, label: str) -> int:
        """Return the tag B of a label, which is a number. The tag I is the next number.

        RAISES (KeyError): The label is unknown.
        """
        return 1 + len(self.prefixes) * self._index[label]

    def encode_spans(self, spans: Iterable[LabeledSpan], n_tokens: int) -> np.ndarray:
        """Convert spans, which must not overlap, to one tag per token, int64.

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
        """Convert a valid sequence of tags to spans."""
        spans: list[LabeledSpan] = []
        for i, tag in enumerate(tags):
            label, prefix = divmod(tag - 1, len(self.prefixes))
            if tag and self.prefixes[prefix] in "BU":
                spans.append((i, i + 1, self.labels[label]))
            elif tag:
                spans[-1] = (spans[-1][0], i + 1, self.labels[label])
        return spans

    def allowed(self, spans: Sequence[LabeledSpan], missing: np.ndarray) -> np.ndarray:
        """Find all tags of each token that agree with a complete or partial annotation.

        missing (numpy.ndarray): True at tokens without annotation. *Shape:* `(n_tokens,)`
        RETURNS (numpy.ndarray): True at tags that agree. *Shape:* `(n_tokens, n_tags)`
        RAISES (KeyError): A label is unknown.
        """
        allowed = np.eye(len(self), dtype=bool)[self.encode_spans(spans, len(missing))]
        allowed[missing] = True
        for _, end, label in spans:
            if end < len(missing):  # An I of the same label would make the span longer.
                allowed[end, self.begin(label) + 1] = False
        return allowed

    def decode(self, scores: np.ndarray) -> np.ndarray:
        """Find the valid sequence of tags with the highest sum of scores.

        scores (numpy.ndarray): Scores of each tag at each token. *Shape:* `(n_tokens, n_tags)`
        """
        best = scores.argmax(axis=1)
        steps = self.transitions[best[:-1], best[1:]]
        ends = len(best) and self.start[best[0]] == self.end[best[-1]] == 0
        if ends and not steps.any():
            return best  # Usually, the best tags of all tokens are a valid sequence.
        return viterbi(scores, self.transitions, self.start, self.end)


class BILUOTags(BIOTags):
    """Converter between labeled spans and BILUO tags, which are numbers.

    A span of one token is U. Longer spans begin with B and end with L.
    """

    prefixes = "BILU"
    last = "OLU"

    def _prefixes_of(self, n_tokens: int) -> str:
        return "U" if n_tokens == 1 else "B" + "I" * (n_tokens - 2) + "L"


def viterbi(
    scores: np.ndarray, transitions: np.ndarray, start: np.ndarray, end: np.ndarray
) -> np.ndarray:
    """Find the sequence of tags `y` with the highest score (Viterbi 1967).

    The score is `start[y_1] + sum_t scores[t, y_t] + sum_t transitions[y_t-1, y_t] + end[y_n]`.
    Minus infinity excludes a tag or a transition. For the shapes of the other scores, see
    `BIOTags`.

    scores (numpy.ndarray): *Shape:* `(n_tokens, n_tags)`
    RETURNS (numpy.ndarray): *Shape:* `(n_tokens,)`, int64
    """
    if not len(scores):
        return np.zeros(0, dtype="int64")
    best = start + scores[0]
    came_from = np.zeros(scores.shape, dtype="int64")
    for t in range(1, len(scores)):
        reached = best[:, None] + transitions
        came_from[t] = reached.argmax(axis=0)
        best = reached.max(axis=0) + scores[t]
    tags = np.zeros(len(scores), dtype="int64")
    tags[-1] = (best + end).argmax()
    for t in range(len(scores) - 1, 0, -1):
        tags[t - 1] = came_from[t, tags[t]]
    return tags


@lru_cache(maxsize=16)
def make_tags(kind: type[Tags], labels: tuple[str, ...]) -> Tags:
    """Return a BIOTags or BILUOTags (`kind`) for some labels. The last 16 results are cached."""
    return kind(labels)


class TagError(ValueError):
    """Error for an unknown or misplaced tag, whose position is `token`."""

    def __init__(self, token: int, fault: str):
        super().__init__(f"token {token}: {fault}")
        self.token = token


def parse_bio(tags: Sequence[str]) -> list[LabeledSpan]:
    """Convert BIO tags, such as "B-LOC", to spans.

    RAISES (TagError): A tag is unknown, or a tag I follows neither B nor I of its label.
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
