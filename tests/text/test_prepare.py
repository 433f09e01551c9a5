"""Prepared corpora: the text of every kind of input, settings that must agree, damage, and
manifests."""

import hashlib
import json
import os
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from spacy_elmo.model.vocabulary import Vocabulary
from spacy_elmo.text.corpus import load_text
from spacy_elmo.text.prepare import open_corpus

from helpers.gzipped import gzipped
from helpers.prepared import SMALL, assert_same_text, content, prepare, random_text, sentences_of

pytestmark = [pytest.mark.corpora, pytest.mark.filterwarnings("error::UserWarning")]


# The corpus


def test_a_prepared_corpus_equals_a_count_in_plain_python(tmp_path):
    text = random_text(400)
    (tmp_path / "a.txt").write_text(text, "utf8")
    corpus = prepare(tmp_path / "a.txt", tmp_path / "out", min_count=3, max_size=40, **SMALL)
    lines = [line.split() for line in text.splitlines()]
    sentences = [line for line in lines if line]
    assert sentences_of(corpus) == sentences
    counts = Counter(word for sentence in sentences for word in sentence)
    ordered = ["<S>", "</S>"]
    ordered += sorted(counts.keys() - {"<S>", "</S>"}, key=lambda word: (-counts[word], word))
    assert list(corpus.types) == ordered
    n_times = counts + Counter({"<S>": len(sentences)})
    assert corpus.counts().tolist() == [n_times[word] for word in ordered]
    np.testing.assert_array_equal(corpus.counts(), np.bincount(corpus.tokens[:]))
    words = [word for word in ordered[2:] if counts[word] >= 3 and word != "<UNK>"]
    vocabulary = Vocabulary.from_disk(tmp_path / "out" / "vocab.txt")
    assert vocabulary.words == ["<S>", "</S>", "<UNK>", *words[:37]]
    assert corpus.n_words == sum(counts.values())
    figures = {"tokens": corpus.n_words, "sentences": len(sentences), "types": len(ordered)}
    assert json.loads(content(tmp_path / "out")["manifest.json"])["counts"] == figures
    assert_same_text(corpus, load_text(tmp_path / "a.txt"))


def write_inputs(folder):
    """Write one file of each kind. Their first lines have a byte order mark."""
    folder.mkdir()
    text = random_text(150, 1)
    records = [{"tokens": line.split()} for line in text.splitlines()]
    records[40] = {"text": "I saw it. It was\nbig!", "id": 3}
    records[41] = {"tokens": ["a b", "", "c\nd", "e\r", "\0", "half \ud800", "<S>"]}
    records[90] = {"text": "  "}
    jsonl = "\n\n".join(json.dumps(record) for record in records).encode()
    mark = b"\xef\xbb\xbf"
    (folder / "a.txt").write_bytes(mark + text.encode())
    (folder / "b.txt.gz").write_bytes(gzipped(text[:500].encode()) + gzipped(b"\nx y"))
    (folder / "c.jsonl").write_bytes(mark + jsonl)
    (folder / "d.jsonl.gz").write_bytes(gzipped(jsonl))
    (folder / "e.txt").write_bytes(text.replace("\n", "\r\n").encode())
    return folder


@pytest.mark.parametrize("format", ["sentences", "text"])
def test_every_kind_of_input_gives_its_text(tmp_path, format):
    inputs = write_inputs(tmp_path / "in")
    expected = load_text(inputs, format=format, lang="en")
    for chunk_size in (3000, 10**6):  # More than a paragraph; the places of the cuts are no matter.
        settings = {**SMALL, "chunk_size": chunk_size, "format": format, "lang": "en"}
        corpus = prepare(inputs, tmp_path / str(chunk_size), **settings)
    assert_same_text(corpus, expected)
    assert {"a b", "", "c\nd", "e\r", "\0", "half \ud800"} < set(corpus.types)
    assert content(tmp_path / "3000") == content(tmp_path / "1000000")


@pytest.mark.processes
def test_several_processes_write_the_same_corpus(tmp_path):
    inputs = write_inputs(tmp_path / "in")
    (inputs / "c.jsonl").write_bytes(b'{"tokens": ["a", "b\\n"]}\n' * 500)
    (inputs / "d.jsonl.gz").unlink()
    for name, n_process in (("one", 1), ("two", 2)):
        prepare(inputs, tmp_path / name, **{**SMALL, "n_process": n_process})
    assert content(tmp_path / "one") == content(tmp_path / "two")


def test_wrapped_text_is_cut_between_paragraphs(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"It was\nbig .\nIt is\n\nOne\r\ntwo\r\n\r\n" * 50)
    corpus = prepare(tmp_path / "a.txt", tmp_path / "out", format="text", lang="en", **SMALL)
    assert sentences_of(corpus) == [["It", "was", "big", "."], ["It", "is"], ["One", "two"]] * 50


IMPOSSIBLE = [("format", "words"), ("on_error", "stop"), ("min_count", 0), ("max_size", 3)]
IMPOSSIBLE += [("max_sentence", 0), ("n_process", 0)]
IMPOSSIBLE += [("worker", worker) for worker in ("0/3", "4/3", "1", "a/b")]


@pytest.mark.parametrize(("name", "value"), IMPOSSIBLE)
def test_impossible_settings_are_named(tmp_path, name, value):
    (tmp_path / "a.txt").write_text("a\n", "utf8")
    with pytest.raises(ValueError, match=f"{name}`? must be .*{value}"):
        prepare(tmp_path / "a.txt", tmp_path / "out", **{name: value})
    assert not (tmp_path / "out").exists()


# The folder


@pytest.fixture
def prepared(tmp_path):
    (tmp_path / "a.txt").write_text("a b\nc\n", "utf8")
    prepare(tmp_path / "a.txt", tmp_path / "out", **SMALL)
    return tmp_path / "out"


def test_the_same_corpus_is_not_prepared_again(prepared, tmp_path):
    """A text that was touched or moved is the same text."""
    before = {path: path.stat().st_mtime_ns for path in prepared.rglob("*")}
    source = tmp_path / "a.txt"
    os.utime(source)
    prepare(source, prepared, **SMALL)
    prepare(source.rename(tmp_path / "b.txt"), prepared, **SMALL)
    assert before == {path: path.stat().st_mtime_ns for path in prepared.rglob("*")}


CHANGES = [
    ({"min_count": 5}, "min_count is 5, but was 2"),
    ({"format": "text", "lang": "en"}, "format is 'text', but was 'sentences'"),
    ({"text": "a b\nd\n"}, "'.*a.txt' has other content"),
    ({"text": "a b\n"}, "'.*a.txt' has other content"),
    ({"inputs": ["a.txt", "a.txt"]}, "1 files, not from 2"),
]


@pytest.mark.parametrize(("change", "message"), CHANGES)
def test_a_folder_with_another_corpus_is_refused(prepared, tmp_path, monkeypatch, change, message):
    monkeypatch.chdir(tmp_path)
    before, settings = content(prepared), {"inputs": "a.txt", **SMALL, **change}
    Path("a.txt").write_text(settings.pop("text", "a b\nc\n"), "utf8")
    with pytest.raises(ValueError, match=f"another corpus: .*{message}.* another folder"):
        prepare(output=prepared, **settings)
    assert content(prepared) == before


def test_lang_matters_only_to_running_text(tmp_path):
    """A corpus of sentences is the same corpus with another language."""
    for name in ("a.txt", "a.jsonl"):
        (tmp_path / name).write_text('{"text":"a b"}\n', "utf8")
        prepare(tmp_path / name, tmp_path / f"{name}.out", lang="en", **SMALL)
    before = content(tmp_path)
    prepare(tmp_path / "a.txt", tmp_path / "a.txt.out", lang="xx", **SMALL)
    with pytest.raises(ValueError, match="lang is 'xx', but was 'en'. Use the same"):
        prepare(tmp_path / "a.jsonl", tmp_path / "a.jsonl.out", lang="xx", **SMALL)
    assert content(tmp_path) == before


def test_other_folders_and_files_are_refused(tmp_path):
    """A user's folder stays as it is, even if it is named `unfinished`."""
    text, mine = tmp_path / "a.txt", tmp_path / "mine"
    text.write_text("a\n", "utf8")
    (mine / "unfinished").mkdir(parents=True)
    (mine / "unfinished" / "draft").write_text("mine")
    for place, message in (
        (tmp_path, "contains other files"),
        (text, "is a file"),
        (mine, "unfinished is in the way"),
        (mine / "unfinished", "contains other files"),
    ):
        before = content(tmp_path)
        with pytest.raises(ValueError, match=f"{re.escape(str(place))}.*{message}"):
            prepare(text, place, **SMALL)
        assert content(tmp_path) == before


def described(data):
    return {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def test_the_manifest_describes_inputs_and_files(prepared, tmp_path):
    """A corpus in the folder of the inputs is no input."""
    prepare(tmp_path, prepared, **SMALL)
    files, source = content(prepared), tmp_path / "a.txt"
    manifest = json.loads(files.pop("manifest.json"))
    about = {"path": str(source), "modified": source.stat().st_mtime_ns}
    assert manifest["inputs"] == [{**about, **described(source.read_bytes())}]
    assert manifest["files"] == {name: described(data) for name, data in files.items()}
    assert manifest["skipped"] == {"by_file": {}, "first": []}


@pytest.mark.parametrize("name", ["tokens-00000.npy", "vocab.txt", "characters.npy"])
def test_damaged_files_are_named(prepared, name):
    path = prepared / name
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    open_corpus(prepared)
    with pytest.raises(ValueError, match=f"{re.escape(str(path))} does not have the checksum"):
        open_corpus(prepared, verify=True)
    path.write_bytes(data[:-1])
    with pytest.raises(ValueError, match=f"{re.escape(str(path))} has {len(data) - 1}"):
        open_corpus(prepared)
    path.unlink()
    with pytest.raises(ValueError, match=f"{re.escape(str(path))} is missing"):
        open_corpus(prepared)
    path.write_bytes(data)
    open_corpus(prepared, verify=True)


# How a manifest is edited, and what is wrong then.
EDITS = {
    "this is not JSON": lambda text: "{",
    "it has version 2": lambda text: text.replace('"format_version": 1', '"format_version": 2'),
    '"settings" is missing': lambda text: '{"format_version": 1, "f\\u0001les": {}}',
    '"counts"["tokens"] should be': lambda text: text.replace('"tokens": ', '"tokens": -'),
    '"inputs"[0]["size"] should be': lambda text: text.replace('"size": 6,', '"size": "6",'),
    "the checksum is wrong": lambda text: text.replace('"size": 6,', '"size": 7,'),
}


def test_wrong_manifests_are_named(prepared):
    path = prepared / "manifest.json"
    text = path.read_text("utf8")
    for message, edit in EDITS.items():
        assert edit(text) != text
        path.write_text(edit(text), "utf8")
        with pytest.raises(ValueError, match=re.escape(message)) as error:
            open_corpus(prepared)
        assert f"{path} is not a manifest of a corpus" in str(error.value)
        assert "\n" not in str(error.value)
