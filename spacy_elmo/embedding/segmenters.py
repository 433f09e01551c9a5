"""How a Doc is cut into sequences for the language model."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, NamedTuple

from spacy.pipeline import Sentencizer
from spacy.tokens import Doc

from ..registry import registry


class Segment(NamedTuple):
    """A sequence of tokens.

    start (int): First token that the language model reads.
    end (int): The token after the last one.
    keep_start (int): First token whose vectors are kept.
    keep_end (int): The token after the last one.
    """

    start: int
    end: int
    keep_start: int
    keep_end: int


_SENTENCIZER = Sentencizer()
PAIRS = ("premise", "hypothesis", "question", "context")  # texts that one Doc holds

# The segments of a Doc, in order; what they keep covers each token once.
Segmenter = Callable[[Doc], list[Segment]]


def segment_of(segments: Sequence[Segment], token: int) -> Segment:
    """RETURNS (Segment): That of a Doc's segments which keeps a token."""
    return segments[bisect_right(segments, token, key=lambda segment: segment.keep_start) - 1]


def _whole(start: int, end: int) -> Segment:
    return Segment(start, end, start, end)


@dataclass(frozen=True)
class WholeDocs:
    """The whole Doc as one sequence, whatever its length."""

    def __call__(self, doc: Doc) -> list[Segment]:
        return [_whole(0, len(doc))] if len(doc) else []

    def config(self) -> dict[str, Any]:
        """RETURNS (dict): The config block that makes this segmenter."""
        return {"@segmenters": "spacy-elmo.doc.v1"}


@dataclass(frozen=True)
class Sentences:
    """The Doc's sentences where it has them, otherwise the whole Doc."""

    def __call__(self, doc: Doc) -> list[Segment]:
        if len(doc) and doc.has_annotation("SENT_START"):
            return [_whole(sentence.start, sentence.end) for sentence in doc.sents]
        return WholeDocs()(doc)

    def config(self) -> dict[str, Any]:
        """RETURNS (dict): The config block that makes this segmenter."""
        return {"@segmenters": "spacy-elmo.sentences.v1"}


@dataclass(frozen=True)
class Windows:
    """Windows of equal size, each of which shares some tokens with the next; of these each
    keeps the half on its own side. Their cost has a bound, where there are no sentences.

    size (int): Tokens of a window.
    overlap (int): Tokens that a window shares with the next.
    RAISES (ValueError): The overlap is not smaller than the size.
    """

    size: int = 200
    overlap: int = 40

    def __post_init__(self) -> None:
        if not 0 <= self.overlap < self.size:
            raise ValueError(
                f"windows need 0 <= overlap < size, got size {self.size} and overlap {self.overlap}"
            )

    def __call__(self, doc: Doc) -> list[Segment]:
        return self.between(0, len(doc))

    def between(self, start: int, stop: int) -> list[Segment]:
        """RETURNS (List[Segment]): The windows from one token to before another."""
        segments = []
        keep_start = start
        while keep_start < stop:
            end = min(start + self.size, stop)
            keep_end = end if end == stop else end - self.overlap // 2
            segments.append(Segment(start, end, keep_start, keep_end))
            start, keep_start = end - self.overlap, keep_end
        return segments

    def config(self) -> dict[str, Any]:
        """RETURNS (dict): The config block that makes this segmenter."""
        return {"@segmenters": "spacy-elmo.windows.v1", **asdict(self)}


@dataclass(frozen=True)
class SentencesOrWindows(Windows):
    """The Doc's sentences where it has them, whatever their length. Otherwise what
    spaCy's `sentencizer` would make of it (a sentence ends after the punctuation that ends
    one in any script), in windows where that is longer than one: the cost of a token has a
    bound.

    size (int): Tokens of a window.
    overlap (int): Tokens that a window shares with the next.
    RAISES (ValueError): The overlap is not smaller than the size.
    """

    def __call__(self, doc: Doc) -> list[Segment]:
        if len(doc) and doc.has_annotation("SENT_START"):
            return Sentences()(doc)
        starts = [i for i, starts in enumerate(_SENTENCIZER.predict([doc])[0]) if starts]
        pairs = pairwise([*starts, len(doc)])
        return [segment for start, end in pairs for segment in self.between(start, end)]

    def config(self) -> dict[str, Any]:
        """RETURNS (dict): The config block that makes this segmenter."""
        return {"@segmenters": "spacy-elmo.sentences.v2", **asdict(self)}


@dataclass(frozen=True)
class Spans(Windows):
    """The spans of some groups, apart from each other and from what is around them. Inside
    of them the Doc's sentences, otherwise what `SentencesOrWindows` would make of them; or,
    without `sentences`, each as one sequence. Sentences that are set at some tokens alone
    count as none."""

    groups: tuple[str, ...] = PAIRS
    sentences: bool = True

    def __call__(self, doc: Doc) -> list[Segment]:
        spans = [span for group in self.groups for span in doc.spans.get(group, ())]
        cuts = {0, len(doc), *(edge for span in spans for edge in (span.start, span.end))}
        known = doc.has_annotation("SENT_START", require_complete=True)
        if self.sentences and known:
            cuts |= {sentence.start for sentence in doc.sents}
        elif self.sentences:
            cuts |= {i for i, starts in enumerate(_SENTENCIZER.predict([doc])[0]) if starts}
        pairs = list(pairwise(sorted(cuts)))
        if self.sentences and not known:
            return [segment for start, end in pairs for segment in self.between(start, end)]
        return [_whole(start, end) for start, end in pairs]

    def config(self) -> dict[str, Any]:
        """RETURNS (dict): The config block that makes this segmenter."""
        settings = {**asdict(self), "groups": list(self.groups)}
        return {"@segmenters": "spacy-elmo.spans.v1", **settings}


@registry.segmenters("spacy-elmo.spans.v1")
def make_spans(
    groups: Sequence[str] = list(PAIRS), sentences: bool = True, size: int = 200, overlap: int = 40
) -> Segmenter:
    """Keep texts that one Doc holds apart: cut at the edges of spans, and inside of them as
    `spacy-elmo.sentences.v2` does, or not at all.

    groups (Sequence[str]): The names of the span groups; a Doc need not have them all.
    sentences (bool): Whether to cut inside of the spans, too.
    size (int): Tokens of a window, where there are no sentences.
    overlap (int): Tokens that a window shares with the next.
    RETURNS (Callable[[Doc], List[Segment]]): The segmenter.
    RAISES (ValueError): The overlap is not smaller than the size.
    """
    return Spans(size, overlap, tuple(groups), sentences)


make_doc = registry.segmenters("spacy-elmo.doc.v1")(WholeDocs)
make_sentences = registry.segmenters("spacy-elmo.sentences.v1")(Sentences)
make_windows = registry.segmenters("spacy-elmo.windows.v1")(Windows)
make_sentences_or_windows = registry.segmenters("spacy-elmo.sentences.v2")(SentencesOrWindows)


def segmenter_config(segmenter: Segmenter) -> dict[str, Any]:
    """Find the config block of a segmenter.

    segmenter (Callable[[Doc], List[Segment]]): The segmenter.
    RETURNS (dict): Its block.
    RAISES (ValueError): It does not say.
    """
    config = getattr(segmenter, "config", None)
    if config is None:
        raise ValueError(
            f"the segmenter {segmenter!r} has no method `config`, which returns its config "
            f"block ({{'@segmenters': NAME, ...}}): without it a pipeline cannot be saved "
            f"in which the segmenter was changed, or listeners were replaced"
        )
    return dict(config())
