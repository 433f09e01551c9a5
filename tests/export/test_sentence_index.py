import errno
import json
from collections import deque

import numpy as np
import pytest

from spacy_elmo.export import sentence_index
from spacy_elmo.export.sentence_index import SentenceIndex


def test_as_a_dictionary(tmp_path):
    rng = np.random.default_rng(0)
    words = ["", "a", 'quo"te\\', "日本", "new\nline", "\ud800", *map(str, range(50))]
    sentences = [words[i] for i in rng.integers(len(words), size=200)]
    with SentenceIndex(tmp_path) as index:
        for i, sentence in enumerate(sentences):
            index.add(sentence, i)
        content = b"".join(index.blocks())
        assert len(content) == index.size()
        expected = {sentence: str(i) for i, sentence in enumerate(sentences)}
        assert json.loads(content) == expected
        assert len(json.loads(content, object_pairs_hook=list)) == len(expected)
    assert not list(tmp_path.iterdir())


def test_of_nothing(tmp_path):
    with SentenceIndex(tmp_path) as index:
        assert index.size() == 2
        assert list(index.blocks()) == [b"{}"]


def test_too_large(tmp_path, monkeypatch):
    monkeypatch.setattr(sentence_index, "MAX_BYTES", 20)
    with SentenceIndex(tmp_path) as index:
        index.add("more than twenty bytes", 0)
        with pytest.raises(ValueError, match="`sentence_index=False`"):
            index.size()


def test_full_disk(tmp_path):
    with SentenceIndex(tmp_path) as index:
        index._table.execute("PRAGMA max_page_count = 3")
        with pytest.raises(OSError, match="full") as error:
            deque(map(index.add, map(str, range(10_000)), range(10_000)), 0)
    assert error.value.errno == errno.ENOSPC
    assert not list(tmp_path.iterdir())
