"""Chunks of text files: whole lines or paragraphs, within memory, and named errors."""

import hashlib

import pytest

from spacy_elmo.text import chunks as chunks_module
from spacy_elmo.text.chunks import ChunkReader

from helpers.gzipped import gzipped


def read(path, chunk_size, by_paragraph=False):
    reader = ChunkReader([path], chunk_size, [by_paragraph])
    chunks = list(reader)
    assert reader.checksums == [hashlib.sha256(path.read_bytes()).hexdigest()]
    assert sum(chunk.n_read for chunk in chunks) == path.stat().st_size
    return chunks


@pytest.mark.parametrize("block", [1, 7, 1000])
@pytest.mark.parametrize("chunk_size", [1, 10, 33, 1000])
@pytest.mark.parametrize("end", ["", "\n", "\n\n\n", "x" * 50])
@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
def test_chunks_are_whole_lines(tmp_path, monkeypatch, block, chunk_size, end, name):
    monkeypatch.setattr(chunks_module, "BLOCK", block)
    data = ("\n".join("word " * (i % 5) for i in range(40)) + end).encode()
    path = tmp_path / name
    path.write_bytes(gzipped(data) if name.endswith("gz") else data)
    chunks = read(path, chunk_size)
    assert b"".join(chunk.data for chunk in chunks) == data
    line = 1
    for chunk in chunks:
        assert (chunk.problem, chunk.first_line) == (None, line)
        line += chunk.data.count(b"\n")
        assert len(chunk.data) <= chunk_size or b"\n" not in chunk.data[:-1]
    assert all(chunk.data.endswith(b"\n") for chunk in chunks[:-1])
    # The content alone decides on the places.
    monkeypatch.setattr(chunks_module, "BLOCK", 13)
    assert [chunk.data for chunk in read(path, chunk_size)] == [chunk.data for chunk in chunks]


CUTS = [
    (b"a\nb\n\nc\nd\n\r\ne\nf\ng\nh\ni\n", 9, True, b"a b  |c d \r |e f g h |i "),
    (b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n", 1, False, b"a |\xef\xbb\xbfb |"),
]


@pytest.mark.parametrize(("data", "size", "by_paragraph", "expected"), CUTS)
def test_chunks_end_between_paragraphs_and_skip_byte_order_marks(
    tmp_path, data, size, by_paragraph, expected
):
    (tmp_path / "a.txt").write_bytes(data)
    found = [chunk.data for chunk in read(tmp_path / "a.txt", size, by_paragraph)]
    assert found == expected.replace(b" ", b"\n").split(b"|")


def test_files_that_cannot_be_read_are_named(tmp_path, monkeypatch):
    """The next file is read."""
    (tmp_path / "good.txt").write_text("good\n", "utf8")
    (tmp_path / "bad.txt").write_text("one\ntwo\nthree\n", "utf8")
    readinto = chunks_module._Counted.readinto

    def fails_later(self, buffer):
        if self.n_read >= 10:
            raise OSError(5, "Input/output error")
        return readinto(self, memoryview(buffer)[:10])

    monkeypatch.setattr(chunks_module._Counted, "readinto", fails_later)
    names = ["missing.txt", "bad.txt", "good.txt"]
    reader = ChunkReader([tmp_path / name for name in names], 100, [False] * 3)
    missing, bad, good = reader
    assert missing.problem == (None, "cannot be read: No such file or directory")
    assert bad.data == b"one\ntwo\n"
    assert bad.problem[1].startswith("cannot be read after line 2: [Errno 5]")
    assert (good.data, good.problem) == (b"good\n", None)
    assert len(reader.checksums) == 3


LONG, GOOD = b"long " * 200, b"good\n" * 9


@pytest.mark.parametrize("block", [1, 7, 1000])
@pytest.mark.parametrize(
    ("before", "after"), [(b"", GOOD), (GOOD, GOOD), (GOOD, b""), (GOOD, None)]
)
def test_a_line_that_does_not_fit_into_memory_is_left_out(
    tmp_path, monkeypatch, block, before, after
):
    """The line is at the start, in the middle, at the end, or without an end."""
    line, after = LONG if after is None else LONG + b"\n", after or b""
    monkeypatch.setattr(chunks_module, "BLOCK", block)
    monkeypatch.setattr(chunks_module, "MAX_LINE", 100)
    (tmp_path / "a.txt").write_bytes(before + line + after)
    chunks = read(tmp_path / "a.txt", 30)
    assert b"".join(chunk.data for chunk in chunks) == before + after
    (problem,) = (chunk.problem for chunk in chunks if chunk.problem is not None)
    assert problem == (before.count(b"\n") + 1, "a line of more than 100 bytes")
    lines = (before + line + after).splitlines()
    for chunk in chunks:
        found = chunk.data.splitlines()
        assert lines[chunk.first_line - 1 :][: len(found)] == found
