"""Texts to prepare, and what is in a prepared corpus."""

import json

import numpy as np

import spacy_elmo.text.prepare as preparing
from spacy_elmo.text.settings import PrepareSettings

SMALL = {"n_process": 1, "chunk_size": 300}


def prepare(inputs, output, **settings):
    """Prepare a corpus with settings as keywords."""
    return preparing.prepare(inputs, output, PrepareSettings(**settings))


def random_text(n, seed=0):
    """Lines of words of very different counts; some lines are empty."""
    rng = np.random.default_rng(seed)
    words = [*"abcdefg", "naïve", "日本", "😀", "<S>", "</S>", "<UNK>"]
    words += [f"w{i}" for i in range(n)]
    weights = 1 / np.arange(1, len(words) + 1)
    weights /= weights.sum()
    lines = [" ".join(rng.choice(words, size=rng.integers(0, 12), p=weights)) for _ in range(n)]
    return "".join(line + "\n" for line in lines)


def sentences_of(corpus):
    ends = [*corpus.starts[1:].tolist(), len(corpus.tokens)]
    assert (corpus.tokens[np.asarray(corpus.starts)] == 0).all()
    spans = zip(corpus.starts.tolist(), ends)
    return [[corpus.types[i] for i in corpus.tokens[start + 1 : end]] for start, end in spans]


def content(folder):
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def manifest_of(folder):
    return json.loads((folder / "manifest.json").read_text("utf8"))


def assert_same_text(corpus, expected):
    assert sentences_of(corpus) == sentences_of(expected)
    found, wanted = (dict(zip(one.types, one.counts().tolist())) for one in (corpus, expected))
    assert found == wanted
