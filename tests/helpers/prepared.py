"""Texts to prepare, and what is in a prepared corpus."""

import json

import numpy as np

SMALL = {"n_process": 1, "chunk_size": 300, "shard_size": 1000}


def random_text(n, seed=0):
    """Lines of words of very different counts; some lines are empty."""
    rng = np.random.default_rng(seed)
    words = [*"abcdefg", "naïve", "日本", "😀", "<S>", "</S>", "<UNK>"]
    words += [f"w{i}" for i in range(n)]
    weights = 1 / np.arange(1, len(words) + 1)
    lines = [
        " ".join(rng.choice(words, size=rng.integers(0, 12), p=weights / weights.sum()))
        for _ in range(n)
    ]
    return "".join(line + "\n" for line in lines)


def sentences_of(corpus):
    ends = [*corpus.starts[1:].tolist(), len(corpus.tokens)]
    assert (corpus.tokens[np.asarray(corpus.starts)] == 0).all()
    return [
        [corpus.types[i] for i in corpus.tokens[start + 1 : end]]
        for start, end in zip(corpus.starts.tolist(), ends)
    ]


def content(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def manifest_of(folder):
    return json.loads((folder / "manifest.json").read_text("utf8"))


def assert_same_text(corpus, expected):
    assert sentences_of(corpus) == sentences_of(expected)
    assert corpus.documents.tolist() == expected.documents.tolist()
    assert dict(zip(corpus.types, corpus.counts().tolist())) == dict(
        zip(expected.types, expected.counts().tolist())
    )
