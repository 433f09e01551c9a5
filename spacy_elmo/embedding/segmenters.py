"""Segmenters: they cut a Doc into sequences for the language model."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, NamedTuple

from spacy.pipeline import Sentencizer
from spacy.tokens import Doc

from ..registry import registry


class Segment(NamedTuple):
    """Sequence of tokens that the language model reads at once.

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
PAIRS = ("premise", "hypothesis", "question", "context")  # names of the texts in one Doc

# Returns the segments of a Doc, in order. Each token is kept by exactly one segment.
Segmenter = Callable[[Doc], list[Segment]]


def segment_of(segments: Sequence[Segment], token: int) -> Segment:
    """Find the segment that keeps a token."""
    return segments[bisect_right(segments, token, key=lambda segment: segment.keep_start) - 1]


def _whole(start: int, end: int) -> Segment:
    return Segment(start, end, start, end)


@dataclass(frozen=True)
class WholeDocs:
    """The whole Doc as one sequence, whatever its length."""

    def __call__(self, doc: Doc) -> list[Segment]:
        """Cut a Doc into segments."""
        return [_whole(0, len(doc))] if len(doc) else []

    def config(self) -> dict[str, Any]:
        """Return the config block that makes this segmenter."""
        return {"@segmenters": "spacy-elmo.doc.v1"}


@dataclass(frozen=True)
class Sentences:
    """The Doc's sentences if they are set, otherwise the whole Doc."""

    def __call__(self, doc: Doc) -> list[Segment]:
        """Cut a Doc into segments."""
        if len(doc) and doc.has_annotation("SENT_START"):
            return [_whole(sentence.start, sentence.end) for sentence in doc.sents]
        return WholeDocs()(doc)

    def config(self) -> dict[str, Any]:
        """Return the config block that makes this segmenter."""
        return {"@segmenters": "spacy-elmo.sentences.v1"}


@dataclass(frozen=True)
class Windows:
    """Windows of equal size that overlap, so that the cost of a token has a bound.

    Of the tokens that two windows share, each keeps the half on its own side.

    size (int): Tokens of a window.
    overlap (int): Tokens that a window shares with the next.
    RAISES (ValueError): The overlap is not smaller than the size.
    """

    size: int = 200
    overlap: int = 40

    def __post_init__(self) -> None:
        if not 0 <= self.overlap < self.size:
            raise ValueError(
                f"windows need 0 <= overlap < size, got size {self.size} and overlap "
                f"{self.overlap}. Lower the overlap or raise the size."
            )

    def __call__(self, doc: Doc) -> list[Segment]:
        """Cut a Doc into segments."""
        return self.between(0, len(doc))

    def between(self, start: int, stop: int) -> list[Segment]:
        """Return the windows from token `start` to before token `stop`."""
        segments = []
        keep_start = start
        while keep_start < stop:
            end = min(start + self.size, stop)
            keep_end = end if end == stop else end - self.overlap // 2
            segments.append(Segment(start, end, keep_start, keep_end))
            start, keep_start = end - self.overlap, keep_end
        return segments

    def config(self) -> dict[str, Any]:
        """Return the config block that makes this segmenter."""
        return {"@segmenters": "spacy-elmo.windows.v1", **asdict(self)}


@dataclass(frozen=True)
class SentencesOrWindows(Windows):
    """The Doc's sentences if they are set, otherwise guessed sentences in windows.

    Sentences that are set may have any length. Otherwise the rules of spaCy's `sentencizer` cut
    the Doc after the end punctuation of any script. Longer parts are cut into windows, so that the
    cost of a token has a bound.

    size (int): Tokens of a window.
    overlap (int): Tokens that a window shares with the next.
    RAISES (ValueError): The overlap is not smaller than the size.
    """

    def __call__(self, doc: Doc) -> list[Segment]:
        """Cut a Doc into segments."""
        if len(doc) and doc.has_annotation("SENT_START"):
            return Sentences()(doc)
        starts = [i for i, starts in enumerate(_SENTENCIZER.predict([doc])[0]) if starts]
        pairs = pairwise([*starts, len(doc)])
        return [segment for start, end in pairs for segment in self.between(start, end)]

    def config(self) -> dict[str, Any]:
        """Return the config block that makes this segmenter."""
        return {"@segmenters": "spacy-elmo.sentences.v2", **asdict(self)}


@dataclass(frozen=True)
class Spans(Windows):
    """The spans of some groups, separate from each other and from the text around them.

    Each span is cut into the Doc's sentences if all are set, otherwise as `SentencesOrWindows`
    would cut it. Without `sentences` each span is one sequence.
    """

    groups: tuple[str, ...] = PAIRS
    sentences: bool = True

    def __call__(self, doc: Doc) -> list[Segment]:
        """Cut a Doc into segments."""
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
        """Return the config block that makes this segmenter."""
        settings = {**asdict(self), "groups": list(self.groups)}
        return {"@segmenters": "spacy-elmo.spans.v1", **settings}


@registry.segmenters("spacy-elmo.spans.v1")
def make_spans(
    groups: Sequence[str] = list(PAIRS), sentences: bool = True, size: int = 200, overlap: int = 40
) -> Segmenter:
    """Make a segmenter that keeps texts within one Doc apart.

    It cuts at the edges of spans, and inside them as `spacy-elmo.sentences.v2` does, or not at
    all.

    groups (Sequence[str]): The names of the span groups; a Doc need not have them all.
    sentences (bool): Whether to cut inside the spans, too.
    size (int): Tokens of a window, if sentences are not set.
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
    """Return the config block of a segmenter.

    segmenter (Callable[[Doc], List[Segment]]): The segmenter.
    RAISES (ValueError): It has no method `config`.
    """
    config = getattr(segmenter, "config", None)
    if config is None:
        raise ValueError(
            f"the segmenter {segmenter!r} has no method `config`, so this pipeline cannot be "
            f"saved. Add one that returns its config block ({{'@segmenters': NAME, ...}})."
        )
    return dict(config())
