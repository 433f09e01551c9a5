"""Small inputs of every format, and the vectors that they should have."""

import gzip
import json

import pytest
import spacy
from spacy.tokens import Doc, DocBin, Span

import spacy_elmo.export.plan as planning
from spacy_elmo.export.sharding import embed_corpus
from spacy_elmo.weights import read_weights

from helpers.written_vectors import CONLLU, SENTENCES, TEXT


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where the tests work: `text.txt` holds the sentences."""
    monkeypatch.chdir(tmp_path)
    lines = "".join(" ".join(words) + "\n" for words in SENTENCES)
    (tmp_path / "text.txt").write_text(lines, "utf8")
    return tmp_path


@pytest.fixture
def inputs(folder):
    """Files of the other formats, by name."""
    (folder / "text.txt.gz").write_bytes(gzip.compress((folder / "text.txt").read_bytes()))
    (folder / "x.conllu").write_text(CONLLU, "utf8")
    records = [{"text": TEXT}, {"tokens": ["two", "to ken"]}, {"text": ""}, {"tokens": []}]
    lines = "\n\n".join(map(json.dumps, records))
    (folder / "x.jsonl").write_text(lines, "utf8")
    nlp = spacy.blank("en")
    docs = [nlp(TEXT), Doc(nlp.vocab), nlp("Maria lends money")]
    for token in docs[0]:
        token.is_sent_start = token.i in (0, 6)
    docs[2].ents = [Span(docs[2], 0, 1, label="PER")]
    docs[2].user_data["kept"] = 3
    DocBin(docs=docs, store_user_data=True).to_disk(folder / "x.spacy")
    return folder


@pytest.fixture
def bilm(tiny_weights):
    """The model, fresh."""
    return read_weights(tiny_weights)


@pytest.fixture
def embed(folder, tiny_weights, monkeypatch):
    """Embeds `text.txt` to `out.npz`, a shard a line."""
    monkeypatch.setattr(planning, "SHARD_SIZE", 1)
    monkeypatch.setattr(planning, "CHUNK_SIZE", 1)

    def run(inputs="text.txt", **settings):
        settings = {"batch_tokens": 1, **settings}
        return embed_corpus(str(tiny_weights), inputs, folder / "out.npz", **settings)

    return run
