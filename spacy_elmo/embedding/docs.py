"""Docs that are made from tokens."""

from collections.abc import Sequence

from spacy.tokens import Doc
from spacy.vocab import Vocab


def make_sentence(vocab: Vocab, words: Sequence[str]) -> Doc:
    """Make a Doc that is marked as one sentence, so that segmenters do not split it."""
    return Doc(vocab, words=list(words), sent_starts=[i == 0 for i in range(len(words))])
