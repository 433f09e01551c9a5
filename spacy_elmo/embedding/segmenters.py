"""Segmenters: functions that cut a Doc into the sequences that the language model reads.

A sequence starts from a fresh LSTM state (unless the state is carried), so its tokens do not see
the rest of the Doc. Sentences are the natural sequences, because the model has learned from
sentences. Long text without sentences is cut into windows, whose size limits time and memory. The
windows overlap, so that each kept token has context on both sides. Therefore a segment has two
ranges: the tokens that are read, and the tokens whose vectors are kept.

Invariant: segments are in order, and exactly one segment keeps each token.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, NamedTuple

from spacy.pipeline import Sentencizer
from spacy.tokens import Doc

from ..registry import registry


class Segment(NamedTuple):
    """Tokens that the language model reads as one sequence. All values are positions in a Doc.

    start (int): First token that the language model reads.
    end (int): The token after the last one that it reads.
    keep_start (int): First token whose vectors are kept.
    keep_end (int): The token after the last one whose vectors are kept.
    """

    start: int
    end: int
    keep_start: int
    keep_end: int


_SENTENCIZER = Sentencizer()
# Span groups of the texts in a Doc of two texts (`tasks/texts`).
PAIRS = ("premise", "hypothesis", "question", "context")

# A segmenter returns the segments of a Doc, in order. Each token is kept by exactly one segment.
# Its method `config` is needed only to save a segmenter that is not in the pipeline's config.
Segmenter = Callable[[Doc], list[Segment]]


def cut_into_segments(doc: Doc, segmenter: Segmenter) -> list[Segment]:
    """Cut a Doc into segments, and check them, because users can write segmenters.

    Without this check, a token that no segment keeps would get a vector of zeros.

    doc (Doc): The Doc.
    segmenter (Callable[[Doc], List[Segment]]): The segmenter.
    RETURNS (List[Segment]): The segments.
    RAISES (ValueError): The result is no list of segments that keep each token once, in order.
    """
    segments, n_kept = segmenter(doc), 0
    for segment in segments if isinstance(segments, list) else [segments]:
        is_next = isinstance(segment, Segment) and (
            0 <= segment.start <= segment.keep_start == n_kept
            and n_kept < segment.keep_end <= segment.end <= len(doc)
        )
        if not is_next:
            raise _wrong_segments(segmenter, f"{segment!r} after segments that keep", n_kept, doc)
        n_kept = segment.keep_end
    if n_kept != len(doc):
        raise _wrong_segments(segmenter, "segments that keep only", n_kept, doc)
    return segments


def _wrong_segments(segmenter: Segmenter, found: str, n_kept: int, doc: Doc) -> ValueError:
    return ValueError(
        f"the segmenter {segmenter!r} returned {found} {n_kept} of {len(doc)} tokens. Return a "
        f"list of Segment, in order, so that exactly one segment keeps each token."
    )


def segment_of(segments: Sequence[Segment], token: int) -> Segment:
    """Return the segment that gives a token its vector. Segments can overlap."""
    return segments[bisect_right(segments, token, key=lambda segment: segment.keep_start) - 1]


def _whole(start: int, end: int) -> Segment:
    return Segment(start, end, start, end)


@dataclass(frozen=True)
class WholeDocs:
    """Segmenter that returns the whole Doc as one sequence of any length."""

    def __call__(self, doc: Doc) -> list[Segment]:
        """Cut a Doc into segments."""
        return [_whole(0, len(doc))] if len(doc) else []

    def config(self) -> dict[str, Any]:
        """Return the config block that makes this segmenter."""
        return {"@segmenters": "spacy-elmo.doc.v1"}


@dataclass(frozen=True)
class Sentences:
    """Segmenter that returns the Doc's sentences; if they are not set, the whole Doc."""

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
    """Segmenter that returns overlapping windows of equal size.

    Two neighboring windows share `overlap` tokens. The vectors of the first half of these tokens
    are from the first window, those of the second half from the second window.

    size (int): Number of tokens of a window.
    overlap (int): Number of tokens that a window shares with the next.
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
        """Cut the tokens from `start` to `stop` (exclusive) into windows."""
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
    """Segmenter that returns the Doc's sentences; if they are not set, guessed sentences.

    Sentences that are set can have any length. Sentences are guessed by the rules of spaCy's
    `sentencizer`: it cuts the Doc after punctuation that ends a sentence, in any script. Guessed
    sentences longer than `size` are cut into windows.

    size (int): Number of tokens of a window.
    overlap (int): Number of tokens that a window shares with the next.
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
    """Segmenter that cuts at the edges of spans, so that no sequence crosses an edge.

    If `sentences` is False, each span is one sequence of any length. If it is True, spans are cut
    into sentences. If a sentence start is missing, spans are cut into guessed sentences and
    windows, as in `SentencesOrWindows`.
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
    """Make a segmenter for Docs of several texts, such as a question and its context.

    Each text is a span. No sequence crosses the edge of a span, so the vectors of a text do not
    depend on the other texts.

    groups (Sequence[str]): The keys of span groups in `doc.spans`. A Doc needs only some of them.
    sentences (bool): Whether to cut inside the spans, too, like `spacy-elmo.sentences.v2`.
    size (int): Number of tokens of a window, if sentences are not set.
    overlap (int): Number of tokens that a window shares with the next.
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

    RAISES (ValueError): The segmenter has no method `config`.
    """
    config = getattr(segmenter, "config", None)
    if config is None:
        raise ValueError(
            f"the segmenter {segmenter!r} has no method `config`, so it cannot be written into a "
            f"config. Add one that returns its config block ({{'@segmenters': NAME, ...}})."
        )
    return dict(config())
