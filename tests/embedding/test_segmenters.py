"""Segmenters: each token is in exactly one segment, and windows and spans are cut as described."""

# ruff: noqa: RUF001 (the punctuation of other scripts)

import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st
from spacy.tokens import Doc, Span

from spacy_elmo.embedding import segmenters
from spacy_elmo.embedding.embed import by_tokens
from spacy_elmo.embedding.segmenters import (
    Segment,
    Windows,
    cut_into_segments,
    segment_of,
    segmenter_config,
)
from spacy_elmo.registry import registry

VOCAB = spacy.blank("en").vocab


def resolve(block):
    return registry.resolve({"s": block})["s"]


def make(name, version=1, **settings):
    return resolve({"@segmenters": f"spacy-elmo.{name}.v{version}", **settings})


def doc_of(words, starts=None):
    return Doc(VOCAB, words=words, sent_starts=starts)


TEXTS = {
    "en": "The bank lends money. (It has some!) Does it?! Yes... 3.5 per cent.\n\nA title",
    "zh": "银行贷款。你好吗？是的！没有句号",
    "ja": "彼は銀行に行った。お金を借りた！本当？はい｡終わり",
    "ar": "ذهب إلى البنك. هل اقترض المال؟ نعم۔ انتهى",
    "hi": "वह बैंक गया। उसने पैसे लिए॥ क्यों? अंत",
    "am": "ወደ ባንክ ሄደ። ገንዘብ ተበደረ፧ አዎ፨ ጨረሰ",
    "hy": "Նա գնաց բանկ ։ Վերջ",
    "my": "သူ ဘဏ် သွား သည် ။ ငွေ ချေး ၊ ပြီး",
}


@pytest.mark.pipelines
@pytest.mark.parametrize("lang", TEXTS)
def test_docs_without_sentences_are_cut_as_by_the_sentencizer(lang):
    nlp = spacy.blank("xx" if lang in ("ja", "my") else lang)
    text = " ".join(TEXTS[lang]) if lang in ("ja", "zh") else TEXTS[lang]
    doc = nlp.make_doc(text)
    got = make("sentences", 2)(doc)
    assert not doc.has_annotation("SENT_START")
    nlp.add_pipe("sentencizer")
    assert got == [Segment(s.start, s.end, s.start, s.end) for s in nlp(text).sents]
    assert len(got) > 1


def test_long_sentences_are_cut_into_windows():
    """Sentences that a component has set are not cut."""
    words = [*["a"] * 9, ".", *["b"] * 24, "!", "c"]
    segments = make("sentences", 2, size=10, overlap=4)(doc_of(words))
    assert segments[0] == Segment(0, 10, 0, 10)
    assert segments[-1] == Segment(35, 36, 35, 36)
    windows = make("windows", size=10, overlap=4)(doc_of(words[10:35]))
    assert segments[1:-1] == [Segment(*(i + 10 for i in segment)) for segment in windows]
    assert len(windows) == 4
    whole = doc_of(["a", ".", "b"] * 300, [True] + [False] * 899)
    assert make("sentences", 2)(whole) == [Segment(0, 900, 0, 900)]


def test_segments_are_sentences_or_the_whole_doc():
    doc = doc_of(["One", "two", ".", "Three", "."], [i in (0, 3) for i in range(5)])
    assert make("sentences")(doc) == [Segment(0, 3, 0, 3), Segment(3, 5, 3, 5)]
    assert make("doc")(doc) == [Segment(0, 5, 0, 5)] == make("sentences")(doc_of(["a"] * 5))
    for name in ("sentences", "doc", "windows", "spans"):
        assert make(name)(doc_of([])) == []
    assert make("sentences", 2)(doc_of([])) == []


@pytest.mark.parametrize("n_tokens", [1, 9, 10, 11, 17, 18, 19, 100])
@pytest.mark.parametrize("overlap", [0, 3, 4, 9])
def test_windows_keep_every_token_once(n_tokens, overlap):
    segments = make("windows", size=10, overlap=overlap)(doc_of(["a"] * n_tokens))
    assert [i for s in segments for i in range(s.keep_start, s.keep_end)] == list(range(n_tokens))
    for one, two in zip(segments, segments[1:]):
        assert one.end - one.start == 10
        assert one.end - two.start == overlap
        # what is kept near a cut has seen at least half of the overlap beyond it
        assert one.end - one.keep_end == overlap // 2
        assert two.keep_start - two.start == overlap - overlap // 2
    assert segments[-1].end == n_tokens


@pytest.mark.parametrize(("size", "overlap"), [(10, 10), (10, -1), (0, 0)])
def test_impossible_windows_are_refused(size, overlap):
    with pytest.raises(ValueError, match=f"size {size} and overlap {overlap}"):
        Windows(size, overlap)


def test_config_makes_the_same_segmenter():
    without_sizes = segmenters.Sentences(), segmenters.WholeDocs()
    for segmenter in (*without_sizes, segmenters.SentencesOrWindows(9, 3), Windows(10, 3)):
        assert resolve(segmenter_config(segmenter)) == segmenter
    with pytest.raises(ValueError, match="config"):
        segmenter_config(lambda doc: [])


@pytest.mark.parametrize(
    ("segments", "message"),
    [
        ([Segment(0, 2, 0, 2)], "segments that keep only 2 of 5 tokens"),
        ([], "keep only 0 of 5"),
        (None, "returned None after segments that keep 0"),
        ([(0, 5, 0, 5)], r"returned \(0, 5, 0, 5\) after"),
        ([Segment(0, 3, 0, 3), Segment(2, 5, 2, 5)], r"start=2, .* after segments that keep 3"),
        ([Segment(0, 3, 0, 3), Segment(4, 5, 4, 5)], "start=4, .* after segments that keep 3"),
        ([Segment(2, 5, 2, 5), Segment(0, 2, 0, 2)], "start=2, .* after segments that keep 0"),
        ([Segment(0, 6, 0, 5)], "end=6, .* after"),
        ([Segment(0, 3, 0, 5)], "end=3, .* after"),
        ([Segment(1, 5, 0, 5)], "start=1, .* after"),
        ([Segment(0, 5, 0, 5), Segment(5, 5, 5, 5)], "after segments that keep 5 of 5 tokens"),
    ],
)
def test_segments_that_do_not_keep_each_token_once_are_refused(segments, message):
    """A token that no segment keeps would get a vector of zeros."""
    with pytest.raises(ValueError, match=f"the segmenter <.*{message}.* Return a list of Segment"):
        cut_into_segments(doc_of(["a"] * 5), lambda doc: segments)


def test_groups_of_docs_have_limits_of_tokens_and_docs():
    docs = [doc_of(["a"] * n) for n in (3, 2, 9, 0, 1, 1, 1, 1)]
    groups = list(by_tokens(iter(docs), 5, 3))
    assert [[len(doc) for doc in group] for group in groups] == [[3, 2], [9], [0, 1, 1], [1, 1]]
    assert [doc for group in groups for doc in group] == docs


# Two texts in one Doc


def two_texts(*, complete=False):
    """Return `One two . Three | four . Five six .`: two texts of two sentences each."""
    starts = [i in (0, 3, 4, 6) if complete or i in (0, 4) else None for i in range(9)]
    doc = doc_of(["One", "two", ".", "Three", "four", ".", "Five", "six", "."], starts)
    doc.spans["premise"], doc.spans["hypothesis"] = [doc[:4]], [doc[4:]]
    return doc


def edges(doc, **settings):
    return [segment[:2] for segment in make("spans", **settings)(doc)]


@pytest.mark.parametrize("complete", [True, False])
def test_spans_share_no_segment(complete):
    doc = two_texts(complete=complete)
    assert edges(doc) == [(0, 3), (3, 4), (4, 6), (6, 9)]
    assert make("spans", sentences=False)(doc) == [Segment(0, 4, 0, 4), Segment(4, 9, 4, 9)]


def test_tokens_around_spans_get_their_own_segments():
    doc = two_texts()
    doc.spans.clear()
    doc.spans["mine"] = [doc[2:5]]
    assert edges(doc, groups=["mine"], sentences=False) == [(0, 2), (2, 5), (5, 9)]
    assert edges(doc) == [(0, 3), (3, 6), (6, 9)]


def test_long_spans_are_cut_into_windows():
    doc = two_texts()
    split = make("spans", size=2, overlap=1)(doc)
    assert [i for s in split for i in range(s.keep_start, s.keep_end)] == list(range(9))
    assert all(s.end - s.start <= 2 and not s.start < 4 < s.end for s in split)
    with pytest.raises(ValueError, match="overlap"):
        make("spans", size=2, overlap=2)


# Any Doc

TOKENS = st.sampled_from(["a", "bank", ".", "!", "。", "…", "\n", " ", "\u0301", "😀"])


@st.composite
def docs(draw):
    """Draw Docs with any tokens, with some, all or no sentence starts, and with spans that may
    overlap."""
    words = draw(st.lists(TOKENS, max_size=40))
    starts = draw(
        st.none()
        | st.lists(st.sampled_from([True, False, None]), min_size=len(words), max_size=len(words))
    )
    doc = doc_of(words, starts)
    places = st.integers(0, len(words))
    for group in draw(st.sets(st.sampled_from([*segmenters.PAIRS, "other"]))):
        edges = draw(st.lists(st.tuples(places, places).map(sorted), max_size=3))
        doc.spans[group] = [Span(doc, start, end, label="X") for start, end in edges]
    return doc


@given(
    doc=docs(),
    name=st.sampled_from(["doc.v1", "sentences.v1", "sentences.v2", "windows.v1", "spans.v1"]),
    size=st.integers(1, 12),
    data=st.data(),
)
def test_every_segmenter_keeps_each_token_once(doc, name, size, data):
    """Tokens come in order, each from a sequence that reads it, and the Doc does not change."""
    settings = {}
    if name not in ("doc.v1", "sentences.v1"):
        settings = {"size": size, "overlap": data.draw(st.integers(0, size - 1))}
    if name == "spans.v1":
        settings["sentences"] = data.draw(st.booleans())
    before = doc.to_bytes()
    is_known = doc.has_annotation("SENT_START")
    segments = cut_into_segments(doc, resolve({"@segmenters": f"spacy-elmo.{name}", **settings}))
    assert doc.to_bytes() == before
    kept = [i for segment in segments for i in range(segment.keep_start, segment.keep_end)]
    assert kept == list(range(len(doc)))
    for segment in segments:
        assert 0 <= segment.start <= segment.keep_start < segment.keep_end <= segment.end
        assert segment.end <= len(doc)
        is_cut = name == "windows.v1" or (name == "sentences.v2" and not is_known)
        assert not is_cut or segment.end - segment.start <= size
    for token in range(len(doc)):
        segment = segment_of(segments, token)
        assert segment.keep_start <= token < segment.keep_end
    edges = {sentence.start for sentence in doc.sents} if is_known and len(doc) else set()
    if name == "spans.v1":
        groups = [doc.spans[group] for group in segmenters.PAIRS if group in doc.spans]
        edges = {edge for group in groups for span in group for edge in (span.start, span.end)}
    if name in ("sentences.v1", "sentences.v2", "spans.v1"):
        assert not any(s.start < edge < s.end for s in segments for edge in edges)
