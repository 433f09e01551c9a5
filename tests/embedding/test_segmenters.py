import pytest
import spacy

from spacy_elmo.embedding.batches import by_tokens
from spacy_elmo.embedding.segmenters import Segment, Sentences, WholeDocs, Windows, segmenter_config
from spacy_elmo.registry import registry


@pytest.fixture
def doc():
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    return nlp("One two. Three four five. Six.")


def make(name, **settings):
    return registry.resolve({"s": {"@segmenters": f"spacy-elmo.{name}.v1", **settings}})["s"]


def test_sentences(doc):
    bounds = [(s.start, s.end) for s in make("sentences")(doc)]
    assert bounds == [(sentence.start, sentence.end) for sentence in doc.sents]
    assert len(bounds) == 3


def test_without_sentences_the_whole_doc():
    doc = spacy.blank("en")("One two. Three.")
    assert make("sentences")(doc) == [Segment(0, 5, 0, 5)] == make("doc")(doc)


@pytest.mark.parametrize("name", ["sentences", "doc", "windows"])
def test_empty_doc(name):
    assert make(name)(spacy.blank("en")("")) == []


@pytest.mark.parametrize("n_tokens", [1, 9, 10, 11, 17, 18, 19, 100])
@pytest.mark.parametrize("overlap", [0, 3, 4, 9])
def test_windows_keep_every_token_once(n_tokens, overlap):
    doc = spacy.tokens.Doc(spacy.blank("en").vocab, words=["a"] * n_tokens)
    segments = make("windows", size=10, overlap=overlap)(doc)
    kept = [i for s in segments for i in range(s.keep_start, s.keep_end)]
    assert kept == list(range(n_tokens))
    for one, two in zip(segments, segments[1:]):
        assert one.end - one.start == 10
        assert one.end - two.start == overlap
        # what is kept near a cut has seen at least half of the overlap beyond it
        assert one.end - one.keep_end == overlap // 2
        assert two.keep_start - two.start == overlap - overlap // 2
    assert segments[-1].end == n_tokens


@pytest.mark.parametrize(("size", "overlap"), [(10, 10), (10, -1), (0, 0)])
def test_impossible_windows(size, overlap):
    with pytest.raises(ValueError, match=f"size {size} and overlap {overlap}"):
        Windows(size, overlap)


@pytest.mark.parametrize("segmenter", [Sentences(), WholeDocs(), Windows(10, 3)])
def test_config_makes_the_same_segmenter(segmenter):
    config = segmenter_config(segmenter)
    assert registry.resolve({"s": config})["s"] == segmenter


def test_segmenter_without_config():
    with pytest.raises(ValueError, match="config"):
        segmenter_config(lambda doc: [])


def test_by_tokens():
    vocab = spacy.blank("en").vocab
    docs = [spacy.tokens.Doc(vocab, words=["a"] * n) for n in (3, 2, 9, 0, 1, 1, 1, 1)]
    groups = list(by_tokens(iter(docs), 5, 3))
    assert [[len(doc) for doc in group] for group in groups] == [[3, 2], [9], [0, 1, 1], [1, 1]]
    assert [doc for group in groups for doc in group] == docs
