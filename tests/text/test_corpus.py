"""Text read into memory: sentences of every kind of file, numbers of words, and named errors."""

import errno
import json
import os
import re
from pathlib import Path

import numpy as np
import pytest

from spacy_elmo.text import corpus as corpus_module
from spacy_elmo.text import reading
from spacy_elmo.text.corpus import load_text, read_corpus
from spacy_elmo.text.reading import WRITTEN, find_files, read_sentences

from helpers.calls import note_calls
from helpers.gzipped import gzipped

SENTENCES = [["The", "cat", "."], ["naïve", "日本", "cat"], ["😀"]]
LINES = "".join(" ".join(sentence) + "\n" for sentence in SENTENCES)


def sentences_of(path, **settings):
    return [sentence for sentence in read_sentences(find_files(path), **settings) if sentence]


def test_words_are_numbered_and_counted(monkeypatch):
    """Counts of long text are taken in blocks."""
    monkeypatch.setattr(corpus_module, "BLOCK", 3)
    corpus = read_corpus([[], ["a", "b"], ["b"], [], [], ["b", "<S>"], ["c"], []])
    assert corpus.types == ["<S>", "</S>", "a", "b", "c"]
    assert corpus.tokens.tolist() == [0, 2, 3, 0, 3, 0, 3, 0, 0, 4]
    assert corpus.starts.tolist() == [0, 3, 5, 8]
    assert corpus.n_words == 6
    assert corpus.counts().tolist() == [5, 0, 1, 3, 1]
    assert (corpus.tokens.dtype, corpus.starts.dtype) == (np.int32, np.int64)
    for nothing in ([], [[], []]):
        with pytest.raises(ValueError, match=r"some.txt has no sentence"):
            read_corpus(nothing, "some.txt")


def test_text_is_loaded_from_files_and_folders(tmp_path):
    (tmp_path / "a.txt").write_text("a b\n\n\nc\n", "utf8")
    (tmp_path / "b.txt").write_text("Good. I know.\n\nYes.\n", "utf8")
    corpus = load_text(str(tmp_path))
    assert list(corpus.types)[2:] == ["a", "b", "c", "Good.", "I", "know.", "Yes."]
    corpus = load_text([tmp_path / "a.txt", tmp_path / "b.txt"], format="text", lang="en")
    assert list(corpus.types)[2:] == ["a", "b", "c", "Good", ".", "I", "know", "Yes"]
    with pytest.raises(ValueError, match="'words'"):
        load_text(tmp_path, format="words")
    with pytest.raises(ValueError, match="no tokenizer for 'qqq'. Set `lang`"):
        load_text(tmp_path, format="text", lang="qqq")


@pytest.mark.parametrize("text", ["PAR1 and PAR2\n", "BZh9 x y\n", "a b\r", "a\rb\n", "a\r\n"])
def test_text_that_resembles_another_format_is_read(tmp_path, text):
    (tmp_path / "a.txt").write_bytes(text.encode())
    assert sentences_of(tmp_path) == [text.split()]


RECORDS = [
    {"tokens": ["a b", "", "c"], "text": "not this"},
    {"text": "I saw it. It was big!", "id": 3},
    {"tokens": []},
    {"text": ""},
    {"tokens": ["\ud800"]},
]
SPLIT = [["a b", "", "c"], ["I", "saw", "it", "."], ["It", "was", "big", "!"], ["\ud800"]]
CONTRACTED = [["I", "do", "n't", "."], ["I", "do", "!"], ["Good"]]
ENGLISH, GERMAN = {"format": "text", "lang": "en"}, {"format": "text", "lang": "de"}
TEXTS = [
    ("a.txt", LINES, {}, SENTENCES),
    ("a[1].txt", LINES[:-1], {}, SENTENCES),
    ("a.txt", LINES.replace("\n", "\r\n\r\n"), {}, SENTENCES),
    ("a.txt", " " + LINES, {}, SENTENCES),
    ("a.jsonl", "\n\n".join(map(json.dumps, RECORDS)), {"lang": "en"}, SPLIT),
    ("a.txt", "  I don't.  I do!\n\nGood\n", ENGLISH, CONTRACTED),
    ("a.txt", "Das ist z.B. gut.\n", GERMAN, [["Das", "ist", "z.B.", "gut", "."]]),
]


@pytest.mark.parametrize(("name", "text", "settings", "expected"), TEXTS)
def test_every_kind_of_file_gives_its_sentences(tmp_path, name, text, settings, expected):
    (tmp_path / name).write_bytes(text.encode())
    (tmp_path / f"{name}.gz").write_bytes(gzipped(text.encode()))
    for path in (tmp_path / name, tmp_path / f"{name}.gz"):
        assert sentences_of(path, **settings) == expected


def test_wrapped_lines_of_running_text_are_joined(tmp_path, monkeypatch):
    """A paragraph ends at an empty line, or at the limit of its length."""
    (tmp_path / "a.txt").write_text("\n\nIt was\nbig .\n \nOne\ntwo\n", "utf8")
    assert sentences_of(tmp_path, **ENGLISH) == [["It", "was", "big", "."], ["One", "two"]]
    monkeypatch.setattr(reading, "MAX_PARAGRAPH", 3)
    assert sentences_of(tmp_path, **ENGLISH) == [["It", "was"], ["big", "."], ["One"], ["two"]]


def test_files_of_text_are_found(tmp_path, monkeypatch):
    """Hidden files are skipped, as by spaCy's own reader of folders, unless they are given by
    name."""
    names = ["b.txt", "a.jsonl", "sub/c.txt.gz", "sub/deep/d.txt", "notes.md", "sub/e.gz"]
    for name in [*names, "._a.txt", ".hidden/a.txt", "sub/.c/a.txt", ".hidden/._b.txt"]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()

    monkeypatch.chdir(tmp_path)
    for inputs, found in (
        (".", ["a.jsonl", "b.txt", "sub/c.txt.gz", "sub/deep/d.txt"]),
        ("**/*.txt", ["b.txt", "sub/deep/d.txt"]),
        (["sub", "a.jsonl"], ["sub/c.txt.gz", "sub/deep/d.txt", "a.jsonl"]),
        (".hidden", [".hidden/a.txt"]),
        (".hidden/._b.txt", [".hidden/._b.txt"]),
        ("?.txt", ["b.txt"]),
    ):
        assert [str(path) for path in find_files(inputs)] == found


@pytest.mark.filterwarnings("error")
def test_linked_folders_are_read_once(tmp_path, monkeypatch):
    """A link may lead out of the folder, or form a loop. Nothing is left out, so nothing warns."""
    for name in ("in/a.txt", "in/sub/b.txt", "elsewhere/c.txt", "elsewhere/deep/d.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "in" / "other").symlink_to("../elsewhere")
    (tmp_path / "elsewhere" / "back").symlink_to("../in")
    (tmp_path / "in" / "e.txt").symlink_to("a.txt")
    monkeypatch.chdir(tmp_path)
    back = "in/other/back"
    for inputs, found in (
        ("in", ["in/a.txt", "in/other/c.txt", "in/other/deep/d.txt", "in/sub/b.txt"]),
        ("in/**/*.txt", ["in/a.txt", "in/other/c.txt", "in/other/deep/d.txt", "in/sub/b.txt"]),
        ("in/o*", [f"{back}/a.txt", f"{back}/sub/b.txt", "in/other/c.txt", "in/other/deep/d.txt"]),
        (["in/a.txt", "in/a.txt"], ["in/a.txt", "in/a.txt"]),
    ):
        assert [str(path) for path in find_files(inputs)] == found


@pytest.mark.parametrize("inputs", ["in", "in/**", "in/**/*.txt", "in/**/[ab]/**/*"])
def test_loops_of_links_are_not_followed_in_all_ways(tmp_path, monkeypatch, inputs):
    """The system follows 40 links in a path, so there are 2 ** 40 paths to the file."""
    (tmp_path / "in" / "c").mkdir(parents=True)
    (tmp_path / "in" / "c" / "x.txt").touch()
    for name in "ab":
        (tmp_path / "in" / name).symlink_to(".")
    monkeypatch.chdir(tmp_path)
    visits = iter(range(30))
    note_calls(monkeypatch, os, "scandir", lambda *_: next(visits))  # Fails at more visits.
    assert [file.resolve() for file in find_files(inputs)] == [tmp_path / "in" / "c" / "x.txt"]


@pytest.mark.parametrize("inputs", ["in", "in/*"])
def test_broken_links_are_named(tmp_path, monkeypatch, inputs):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").touch()
    (tmp_path / "in" / "b.txt").symlink_to("gone.txt")
    (tmp_path / "in" / "c").symlink_to("c")
    monkeypatch.chdir(tmp_path)
    place = "" if inputs == "in" else "in/"
    named = f"{inputs}: left out {place}b.txt (a broken link), {place}c (a broken link)."
    with pytest.warns(UserWarning, match=f"^{re.escape(named)}$"):
        assert find_files(inputs) == [Path("in", "a.txt")]


@pytest.mark.parametrize("inputs", ["", "*/*.txt", "*/a.txt", "**/*.txt"])
def test_a_folder_without_permission_is_named(tmp_path, monkeypatch, inputs):
    """The user of the test may be root, whom no permission stops."""
    closed = tmp_path / "sub"
    closed.mkdir()
    (closed / "a.txt").touch()
    (tmp_path / "a.txt").touch()

    def refuse(path):
        if Path(path) == closed:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))

    if inputs != "*/a.txt":  # This glob needs no list of names.
        with monkeypatch.context() as patch:
            for name in ("scandir", "listdir"):
                note_calls(patch, os, name, refuse)
            with pytest.raises(PermissionError, match=re.escape(str(closed))):
                find_files(tmp_path / inputs)
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: path != closed and access(path, mode))
    with pytest.raises(PermissionError, match=re.escape(str(closed))):
        find_files(tmp_path / inputs)


def test_output_and_system_files_in_a_folder_are_left_out(tmp_path):
    """Written folders and files of file managers are skipped. Tables are named with their own
    advice."""
    skipped = [*(f"out/{name}" for pair in WRITTEN for name in pair), "Thumbs.db", "desktop.ini"]
    for name in ("a.txt", "b/x.tsv", "c.parquet", *skipped, "out/deep/x.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    advice = "left out b/x.tsv, c.parquet. For .tsv files, set --column of `embed`; for Parquet "
    for inputs in (tmp_path, f"{tmp_path.parent}/{tmp_path.name}*"):
        with pytest.warns(UserWarning, match=re.escape(advice)):
            assert find_files(inputs, (".txt", ".spacy"), "txt") == [tmp_path / "a.txt"]
    for pair in WRITTEN:
        folder = tmp_path / "-".join(pair)
        folder.mkdir()
        for name in pair:
            (folder / name).touch()
        with pytest.raises(ValueError, match="is a prepared corpus, a pipeline or output of"):
            find_files(folder, (".txt", ".spacy"))


@pytest.mark.parametrize("name", ["missing.txt", "*.txt", "empty", "notes.md", "*.md"])
def test_inputs_without_text_are_named(tmp_path, name):
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.md").touch()
    place = re.escape(str(tmp_path / name.replace("*.md", "notes.md")))
    with pytest.raises(ValueError, match=rf"{place}.*\.jsonl|\.jsonl.*{place}"):
        find_files(tmp_path / name)


NO_OBJECT = "a line must be a JSON object with 'tokens' or 'text', got"
UNREADABLE = [
    ("a.txt", b"caf\xe9", "not UTF-8"),
    ("a.jsonl", b'{"tokens": ["a"]', "not a JSON object: "),
    ("a.jsonl", b"[1]", f"{NO_OBJECT} '[1]'"),
    ("a.jsonl", b"{}", "no 'tokens' (a list of strings)"),
    ("a.jsonl", b'{"tokens": "a b"}', "no 'tokens' (a list of strings)"),
    ("a.jsonl", b'{"tokens": [1]}', "no 'tokens' (a list of strings)"),
    ("a.jsonl", b'{"text": "\\ud800"}', "'text' contains a lone surrogate"),
]


@pytest.mark.parametrize(("name", "line", "message"), UNREADABLE)
def test_lines_that_cannot_be_read_are_named(tmp_path, name, line, message):
    good = b'{"tokens": ["a"]}\n'
    path = tmp_path / f"{name}.gz"
    path.write_bytes(gzipped(good + b"\n" + line + b"\n" + good))
    with pytest.raises(ValueError, match="^" + re.escape(f"{path}, line 3: {message}")):
        sentences_of(path)
