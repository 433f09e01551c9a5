"""Bad lines and broken files in a preparation: left out with a warning, or named in an error."""

import contextlib
import gzip
import io
import json
import re
import zlib

import numpy as np
import pytest

from spacy_elmo.text.corpus import load_text
from spacy_elmo.text.prepare import is_prepared

from helpers.gzipped import gzipped
from helpers.prepared import SMALL, manifest_of, prepare, sentences_of

pytestmark = [pytest.mark.corpora, pytest.mark.filterwarnings("error::UserWarning")]


def check_bad(path, data, sentences, warned, lines):
    """Check that bad input is left out with warnings and a note in the manifest, or refused."""
    path.write_bytes(data)
    good, out = path.with_name("good.txt"), path.with_name("out")
    good.write_text("the end\n", "utf8")
    with pytest.raises(ValueError, match=re.escape(f"{path}{warned[0]}")):
        prepare([path, good], out, on_error="refuse", max_sentence=9, **SMALL)
    assert not is_prepared(out)
    with pytest.warns(UserWarning, match="left out") as found:
        corpus = prepare([path, good], out, max_sentence=9, **SMALL)
    assert sentences_of(corpus) == [*sentences, ["the", "end"]]
    messages = [str(warning.message) for warning in found]
    for message, expected in zip(messages, warned, strict=True):
        assert message.startswith(f"{path}{expected}")
    skipped = manifest_of(out)["skipped"]
    assert skipped["by_file"] == {str(path): len(lines)}
    assert [entry["line"] for entry in skipped["first"]] == lines
    for entry in skipped["first"]:
        assert entry["path"] == str(path) and entry["reason"] in "".join(messages)


LATIN_1 = b"one two\n" * 60 + b"caf\xe9\n" + b"three\n" * 100 + b"\xff\xfe\n" + b"four\n"
WARNED = [", line 61: not UTF-8; if it is Latin-1, iconv -f latin1 -t utf8", ": 1 more left out"]
OF_LATIN_1 = ([["one", "two"]] * 60 + [["three"]] * 100 + [["four"]], WARNED, [61, 162])
JSON = ['{"tokens": ["a"]}', '{"tokens": ["a"', "[1]", '{"tokens": [1]}', "{}"]
JSON += ['{"text": "half \\ud800"}', json.dumps({"tokens": ["b"] * 10})]
LONG = "\n".join(["a b", "c " * 9, "d " * 10, "e", "f " * 100_000]).encode()
TOO_LONG = [", line 3: a sentence of 10 tokens", ", line 5: a sentence of 100,000 tokens"]
NOTHING = ([], [": contains no text"], [None])
OF_JSON = [f", line {number}: " for number in range(2, 8)]
BAD = [
    ("a.txt", b"", *NOTHING),
    ("a.txt", b"\n \r\n\n" * 200, *NOTHING),
    ("a.txt", LATIN_1, *OF_LATIN_1),
    ("a.txt.gz", gzipped(LATIN_1), *OF_LATIN_1),
    ("a.jsonl", "\n".join(JSON).encode(), [["a"]], OF_JSON, list(range(2, 8))),
    ("a.txt", LONG, [["a", "b"], ["c"] * 9, ["e"]], TOO_LONG, [3, 5]),
]


@pytest.mark.parametrize(("name", "data", "sentences", "warned", "lines"), BAD)
def test_bad_input_is_left_out_with_warnings(tmp_path, name, data, sentences, warned, lines):
    check_bad(tmp_path / name, data, sentences, warned, lines)


@pytest.mark.parametrize("damage", ["cut", "no gzip", "checksum", "inside", "no end"])
def test_broken_gzip_is_read_up_to_the_damage(tmp_path, damage):
    """Text that is read into memory is refused."""
    rng = np.random.default_rng(0)
    lines = [" ".join(map(str, rng.integers(10**6, size=5))) for _ in range(400)]
    data = gzipped("\n".join(lines).encode())
    damaged = {
        "cut": data[: len(data) // 2],
        "no gzip": b"plain text\n",
        "checksum": data[:-8] + b"\0\0\0\0" + data[-4:],
        "inside": data[:10] + b"\xff" * 60 + data[70:],
        "no end": data[:-8],
    }[damage]
    stream, n_lines = gzip.GzipFile(fileobj=io.BytesIO(damaged)), 0
    with contextlib.suppress(OSError, EOFError, zlib.error):
        while stream.readline().endswith(b"\n"):
            n_lines += 1
    assert (n_lines > 100) == (damage not in ("no gzip", "inside"))
    path, sentences = tmp_path / "a.txt.gz", [line.split() for line in lines[:n_lines]]
    message = f": the compressed file is broken after line {n_lines}: "
    check_bad(path, damaged, sentences, [message], [None])
    with pytest.raises(ValueError, match=f"{path}: broken .gz file after line \\d+: "):
        load_text(path)


def test_only_the_first_bad_lines_are_named(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(b'{"tokens": ["good"]}\n' + b"[]\n" * 30)
    with pytest.warns(UserWarning, match="left out") as warned:
        prepare(tmp_path / "a.jsonl", tmp_path / "out", **{**SMALL, "chunk_size": 16})
    assert len(warned) == 21
    assert str(warned[-1].message).endswith("a.jsonl: 10 more left out")
    skipped = manifest_of(tmp_path / "out")["skipped"]
    assert skipped["by_file"] == {str(tmp_path / "a.jsonl"): 30}
    assert [entry["line"] for entry in skipped["first"]] == list(range(2, 22))


def test_inputs_without_a_sentence_are_refused(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"tokens": []}\n', "utf8")
    (tmp_path / "b.txt").write_bytes("schön\n".encode("latin-1") * 5)
    for name, message in (("a.jsonl", "{}: no sentence"), ("missing.txt", "no .*file at '{}'")):
        with pytest.raises(ValueError, match=message.format(tmp_path / name)):
            prepare(tmp_path / name, tmp_path / "out", **SMALL)
    refused = pytest.raises(ValueError, match=f"{tmp_path / 'b.txt'}: no sentence; 5 left out")
    with pytest.warns(UserWarning, match="left out"), refused:
        prepare(tmp_path / "b.txt", tmp_path / "out", **SMALL)
