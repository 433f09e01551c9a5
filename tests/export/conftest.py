"""Small inputs of every format, and their expected vectors."""

import json

import pytest
import spacy
from spacy.tokens import Doc, DocBin, Span

import spacy_elmo.export.plan as planning
import spacy_elmo.export.sharding as sharding

from helpers.embedded import embed_corpus
from helpers.gzipped import gzipped
from helpers.prepared import random_text
from helpers.written_vectors import CONLLU, SENTENCES, TEXT


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Make and enter a folder whose `text.txt` contains the sentences."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_text("\n".join(map(" ".join, [*SENTENCES, []])), "utf8")
    return tmp_path


@pytest.fixture
def inputs(folder):
    """Add files of the other formats to the folder."""
    (folder / "text.txt.gz").write_bytes(gzipped((folder / "text.txt").read_bytes()))
    (folder / "x.conllu").write_text(CONLLU, "utf8")
    records = [{"text": TEXT}, {"tokens": ["two", "to ken"]}, {"text": ""}, {"tokens": []}]
    (folder / "x.jsonl").write_text("\n\n".join(map(json.dumps, records)), "utf8")
    nlp = spacy.blank("en")
    docs = [nlp(TEXT), Doc(nlp.vocab), nlp("Maria lends money")]
    for token in docs[0]:
        token.is_sent_start = token.i in (0, 6)
    docs[2].ents = [Span(docs[2], 0, 1, label="PER")]
    docs[2].user_data["kept"] = 3
    DocBin(docs=docs, store_user_data=True).to_disk(folder / "x.spacy")
    return folder


@pytest.fixture
def embed(folder, tiny_weights, monkeypatch):
    """Return a function that embeds `text.txt` to `out.npz`, with a shard per line."""
    monkeypatch.setattr(planning, "SHARD_SIZE", 1)
    monkeypatch.setattr(planning, "CHUNK_SIZE", 1)

    def run(inputs="text.txt", model=tiny_weights, **settings):
        settings = {"batch_tokens": 1, **settings}
        return embed_corpus(str(model), inputs, folder / "out.npz", **settings)

    return run


@pytest.fixture
def written(monkeypatch):
    """Return a list of the entries of each shard that is made. Writing shard number `stop_at`
    fails."""
    write, found = sharding.write_embedded, []

    def count(path, entries):
        if len(found) == count.stop_at:
            raise InterruptedError
        found.append(list(entries))
        write(path, found[-1])

    count.stop_at, count.found = None, found
    monkeypatch.setattr(sharding, "write_embedded", count)
    return count


@pytest.fixture
def shard(folder, tiny_weights):
    """Return a function that makes shards of `text.txt`, 150 lines, some of them empty."""
    (folder / "text.txt").write_text(random_text(150), "utf8")

    def run(inputs="text.txt", output="out", **settings):
        settings = {"shards": 7, "batch_tokens": 100, **settings}
        place = output if "://" in output else folder / output
        return embed_corpus(str(tiny_weights), inputs, place, **settings)

    return run
