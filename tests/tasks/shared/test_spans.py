"""Alignment of two Docs of the same text, against the characters that their tokens share."""

import spacy
from hypothesis import given
from hypothesis import strategies as st
from spacy.tokens import Doc
from spacy.training import Example

from spacy_elmo.tasks.shared.spans import to_predicted, to_reference

VOCAB = spacy.blank("en").vocab


@st.composite
def two_docs(draw):
    """Two ways to cut a text into tokens."""
    text = draw(st.text(st.sampled_from("abcBé漢"), min_size=1, max_size=20))
    docs = []
    for _ in range(2):
        cuts = draw(st.sets(st.integers(1, max(1, len(text) - 1)))) if len(text) > 1 else set()
        edges = [0, *sorted(cuts), len(text)]
        words = [text[start:end] for start, end in zip(edges, edges[1:])]
        docs.append(Doc(VOCAB, words=words, spaces=[False] * len(words)))
    return docs


def characters(doc, start, end):
    return {at for token in doc[start:end] for at in range(token.idx, token.idx + len(token))}


@given(docs=two_docs(), data=st.data())
def test_aligned_tokens_are_those_that_share_characters(docs, data):
    example = Example(*docs)
    for aligner in (to_reference(example), to_predicted(example)):
        doc, other = aligner.doc, aligner.other
        start = data.draw(st.integers(0, len(doc)))
        end = data.draw(st.integers(start, len(doc)))
        mine = characters(doc, start, end)
        shared = [i for i in range(len(other)) if mine & characters(other, i, i + 1)]
        around = (shared[0], shared[-1] + 1) if shared else None
        is_same = shared and characters(other, *around) == mine
        assert sorted({*aligner.tokens(start, end)}) == shared
        assert aligner.around(start, end) == around
        assert aligner.span(start, end) == (around if is_same else None)
