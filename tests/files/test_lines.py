"""Lines of text files, and all that reads a file line by line."""

import gzip
import json
import tracemalloc

import pytest

from spacy_elmo.analysis.sense_corpus import read_sense_corpus
from spacy_elmo.files import lines
from spacy_elmo.files.lines import numbered_lines
from spacy_elmo.tasks.shared.task_files import parse_lines
from spacy_elmo.text.reading import read_sentences

READERS = {
    "sentences": lambda path: list(read_sentences([path])),
    "tasks": lambda path: list(parse_lines(path, json.loads)),
    "senses": read_sense_corpus,
}


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
@pytest.mark.parametrize("end", ["", "\n"])
def test_lines_and_their_numbers(tmp_path, name, end):
    text = "\ufeffone\r\n\n tw\u2028o\rx\nthree" + end
    data = text.encode()
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    wanted = ["one\r\n", "\n", " tw\u2028o\rx\n", "three" + end]
    found = list(numbered_lines(tmp_path / name))
    assert found == [(i, line.encode()) for i, line in enumerate(wanted, 1)]


@pytest.mark.parametrize("length", [9, 10, 11, 50])
@pytest.mark.parametrize("end", [b"", b"\n", b"\nmore"])
def test_the_longest_line(tmp_path, monkeypatch, length, end):
    monkeypatch.setattr(lines, "MAX_LINE", 10)
    path = tmp_path / "a.txt"
    path.write_bytes(b"good\n" + b"x" * length + end)
    if length + bool(end) <= 10:
        assert len(list(numbered_lines(path))) == 2 + (end == b"\nmore")
        return
    with pytest.raises(ValueError, match="a.txt, line 2: a line of more than 10 bytes"):
        list(numbered_lines(path))


@pytest.mark.parametrize("reader", READERS)
def test_a_line_that_would_fill_the_memory(tmp_path, reader):
    """A gigabyte of it takes a megabyte on the disk; here it is 100 MB."""
    name = "a.txt.gz" if reader == "sentences" else "a.jsonl.gz"
    part = gzip.compress(b'{"words": ["' + b"x" * 2**20, mtime=0)
    (tmp_path / name).write_bytes(part * 100)
    tracemalloc.start()
    with pytest.raises(ValueError, match="line 1: a line of more than 16,777,216 bytes"):
        READERS[reader](tmp_path / name)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 60e6
