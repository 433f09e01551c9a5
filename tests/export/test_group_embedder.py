"""How often the token encoder runs, the part of the work that is done once a string."""

from collections import Counter
from pathlib import Path

import pytest

import spacy_elmo.export.embedder as embedder
import spacy_elmo.export.plan as planning
import spacy_elmo.export.sharding as sharding
from spacy_elmo.export.sharding import embed_corpus
from spacy_elmo.frozen.encoder import FrozenEncoder
from spacy_elmo.pipeline.load import elmo_pipe

from helpers.calls import note_calls
from helpers.prepared import random_text


@pytest.fixture
def encoded(monkeypatch):
    """How often each string was encoded."""
    counts = Counter()
    note_calls(monkeypatch, FrozenEncoder, "__call__", lambda _, tokens: counts.update(tokens))
    return counts


@pytest.fixture
def embed(folder, tiny_weights, monkeypatch):
    """Embeds 300 sentences in many groups, with room for so many strings."""
    monkeypatch.setattr(embedder, "CHUNK_BATCHES", 1)
    (folder / "text.txt").write_text(random_text(300), "utf8")

    def run(cache, **settings):
        def find(nlp):
            pipe = elmo_pipe(nlp)
            pipe.cache = cache
            return pipe

        monkeypatch.setattr(embedder, "elmo_pipe", find)
        settings = {"batch_tokens": 50, "layers": "all", **settings}
        embed_corpus(str(tiny_weights), "text.txt", folder / "out.npz", **settings)
        return (folder / "out.npz").read_bytes()

    return run


def test_every_string_once(embed, encoded):
    embed(cache=20_000)
    assert set(encoded) == {"<S>", "</S>", *Path("text.txt").read_text("utf8").split()}
    assert set(encoded.values()) == {1}


def test_every_string_once_a_group_without_room(embed, encoded, monkeypatch):
    groups = note_calls(monkeypatch, embedder.GroupEmbedder, "encode", lambda _, group: group)
    embed(cache=0)
    marks = encoded.pop("<S>"), encoded.pop("</S>")
    assert max(encoded.values()) <= len(groups) <= min(marks)  # which precede the first, too


@pytest.mark.parametrize("cache", [0, 5, 40, 20_000])
def test_same_bytes_whatever_was_there_already(embed, cache, monkeypatch):
    """Also where strings are forgotten and encoded again."""
    monkeypatch.setattr(planning, "SHARD_SIZE", 500)
    monkeypatch.setattr(planning, "CHUNK_SIZE", 50)
    expected = embed(cache)
    Path("out.npz").unlink()
    write, stops = sharding.write_embedded, [2, 4]

    def stop(*rest):
        stops[0] -= 1
        if not stops[0]:
            stops.pop(0)
            raise InterruptedError
        write(*rest)

    monkeypatch.setattr(sharding, "write_embedded", stop)
    while len(stops) > 0:
        with pytest.raises(InterruptedError):
            embed(cache)
    monkeypatch.setattr(sharding, "write_embedded", write)
    assert embed(cache) == expected
