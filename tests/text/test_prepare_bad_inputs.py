import contextlib
import gzip
import io
import json
import re
import zlib

import numpy as np
import pytest

from spacy_elmo.text.prepare import is_prepared, prepare

from helpers.prepared import SMALL, manifest_of, sentences_of

pytestmark = pytest.mark.filterwarnings("error::UserWarning")


def check_bad(tmp_path, name, data, sentences, *places):
    """Skipped, each place named, or refused at the first of them."""
    path = tmp_path / name
    path.write_bytes(data)
    good = tmp_path / "good.txt"
    good.write_text("the end\n", "utf8")
    with pytest.raises(ValueError, match=re.escape(f"{path}{places[0]}")):
        prepare([path, good], tmp_path / "out", on_error="refuse", max_sentence=9, **SMALL)
    assert not is_prepared(tmp_path / "out")
    with pytest.warns(UserWarning, match="left out") as warned:
        corpus = prepare([path, good], tmp_path / "out", max_sentence=9, **SMALL)
    assert sentences_of(corpus) == [*sentences, ["the", "end"]]
    assert corpus.documents.tolist() == ([0, len(sentences)] if sentences else [0])
    messages = [str(warning.message) for warning in warned]
    for place, message in zip(places, messages, strict=True):
        assert message.startswith(f"{path}{place}")
    skipped = manifest_of(tmp_path / "out")["skipped"]
    assert skipped["by_file"] == {str(path): len(places)}
    for entry, message in zip(skipped["first"], messages, strict=True):
        assert entry["path"] == str(path) and entry["reason"] in message
        assert f"line {entry['line']}" in message or entry["line"] is None


@pytest.mark.parametrize("content", [b"", b"\n \r\n\n" * 200])
def test_empty_file(tmp_path, content):
    check_bad(tmp_path, "a.txt", content, [], ": contains no text")


def test_empty_gzip(tmp_path):
    check_bad(tmp_path, "a.txt.gz", gzip.compress(b""), [], ": contains no text")


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
def test_not_utf8(tmp_path, name):
    data = b"one two\n" * 60 + b"caf\xe9\n" + b"three\n" * 100 + b"\xff\xfe\n" + b"four\n"
    data = gzip.compress(data) if name.endswith("gz") else data
    sentences = [["one", "two"]] * 60 + [["three"]] * 100 + [["four"]]
    path, good = tmp_path / name, tmp_path / "good.txt"
    path.write_bytes(data)
    good.write_text("the end\n", "utf8")
    with pytest.raises(ValueError, match=r"line 61: not UTF-8; .* iconv -f latin1 -t utf8"):
        prepare([path, good], tmp_path / "out", on_error="refuse", **SMALL)
    with pytest.warns(UserWarning, match="left out") as warned:
        corpus = prepare([path, good], tmp_path / "out", **SMALL)
    assert sentences_of(corpus) == [*sentences, ["the", "end"]]
    first, more = (str(warning.message) for warning in warned)
    assert first.startswith(f"{path}, line 61: not UTF-8; if it is Latin-1, iconv")
    assert more == f"{path}: 1 more left out"
    skipped = manifest_of(tmp_path / "out")["skipped"]
    assert [entry["line"] for entry in skipped["first"]] == [61, 162]


def test_nothing_but_latin_1(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes("schön\n".encode("latin-1") * 5)
    with (
        pytest.warns(UserWarning, match="left out"),
        pytest.raises(ValueError, match=f"{path}: no sentence; 5 left out"),
    ):
        prepare(path, tmp_path / "out", **SMALL)


@pytest.mark.parametrize("damage", ["cut", "no gzip", "no end"])
def test_broken_gzip(tmp_path, damage):
    """What can be read before is kept."""
    rng = np.random.default_rng(0)
    lines = [" ".join(map(str, rng.integers(10**6, size=5))) for _ in range(1000)]
    data = gzip.compress("\n".join(lines).encode())
    damaged = {
        "cut": data[: len(data) // 2],
        "no gzip": b"plain text\n",
        "no end": data[:-8],
    }[damage]
    stream, n_lines = gzip.GzipFile(fileobj=io.BytesIO(damaged)), 0
    with contextlib.suppress(OSError, EOFError, zlib.error):
        while stream.readline().endswith(b"\n"):
            n_lines += 1
    assert (n_lines > 300) == (damage != "no gzip")
    (tmp_path / "a.txt.gz").write_bytes(damaged)
    check_bad(
        tmp_path,
        "a.txt.gz",
        damaged,
        [line.split() for line in lines[:n_lines]],
        f": the gzip file is broken after line {n_lines}: ",
    )


def test_bad_json(tmp_path):
    lines = ['{"tokens": ["a"]}', '{"tokens": ["a"', "[1]", '{"tokens": [1]}', "{}"]
    lines += ['{"text": "half \\ud800"}', json.dumps({"tokens": ["b"] * 10})]
    places = [f", line {number}: " for number in range(2, 8)]
    check_bad(tmp_path, "a.jsonl", "\n".join(lines).encode(), [["a"]], *places)


def test_long_sentences(tmp_path):
    lines = ["a b", "c " * 9, "d " * 10, "e", "f " * 100_000]
    expected = [["a", "b"], ["c"] * 9, ["e"]]
    places = [", line 3: a sentence of 10 tokens", ", line 5: a sentence of 100,000 tokens"]
    check_bad(tmp_path, "a.txt", "\n".join(lines).encode(), expected, *places)


@pytest.mark.parametrize("n_lines", [30, 20])
def test_not_every_line_is_named(tmp_path, n_lines):
    (tmp_path / "a.jsonl").write_bytes(b'{"tokens": ["good"]}\n' + b"[]\n" * n_lines)
    with pytest.warns(UserWarning, match="left out") as warned:
        prepare(tmp_path / "a.jsonl", tmp_path / "out", **{**SMALL, "chunk_size": 16})
    messages = [str(warning.message) for warning in warned]
    assert len(messages) == 20 + (n_lines > 20)
    assert n_lines == 20 or messages[-1] == f"{tmp_path / 'a.jsonl'}: 10 more left out"
    skipped = manifest_of(tmp_path / "out")["skipped"]
    assert skipped["by_file"] == {str(tmp_path / "a.jsonl"): n_lines}
    assert [entry["line"] for entry in skipped["first"]] == list(range(2, 22))


def test_nothing_to_read(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"tokens": []}\n', "utf8")
    for name, message in (("a.jsonl", "no sentence"), ("missing.txt", "no .*file at")):
        with pytest.raises(ValueError, match=message) as error:
            prepare(tmp_path / name, tmp_path / "out", **SMALL)
        assert name in str(error.value)
