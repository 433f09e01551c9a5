"""Number of tokens in a text, estimated quickly, and the tokens that a model truncates."""

import json
import tracemalloc

import pytest

from spacy_elmo.model.config import BiLMConfig
from spacy_elmo.model.indexers import character_ids
from spacy_elmo.text import size as text_size
from spacy_elmo.text.size import audit_tokens, estimate_tokens
from spacy_elmo.weights import safetensors_file

from helpers.commands import run_elmo, shown_by
from helpers.gzipped import gzipped
from helpers.models import WORDS_ONLY, tiny_bilm
from helpers.prepared import prepare

LINES = [f"the cat number {i} sat on a mat ." for i in range(3000)]
N_TOKENS = sum(len(line.split()) for line in LINES)
RECORDS = "\n".join(json.dumps({"tokens": line.split()}) for line in LINES)
CONTENTS = {"a.txt": "\n".join(LINES), "b.jsonl": RECORDS}


@pytest.fixture
def folder(tmp_path):
    for name, content in CONTENTS.items():
        (tmp_path / name).write_text(content, "utf8")
        (tmp_path / f"{name}.gz").write_bytes(gzipped(content.encode()))
    return tmp_path


@pytest.mark.parametrize("name", [name + end for name in CONTENTS for end in ("", ".gz")])
def test_small_files_are_counted_and_large_ones_estimated(folder, name, monkeypatch):
    assert estimate_tokens(folder / name) == N_TOKENS
    monkeypatch.setattr(text_size, "SAMPLE", 20_000)
    assert estimate_tokens(folder / name) == pytest.approx(N_TOKENS, rel=0.15)


PARTS = b"".join(gzipped(line) for line in (b"a b c\n", b"d e\n", b"f\n"))
BAD = b'no json\n{"text": 3}\n["a"]\n{"tokens": ["a", "b"]}\n'
MARK = b"\xef\xbb\xbf"
KINDS = [
    ("a.txt.gz", PARTS, "sentences", 6),
    ("a.txt", MARK + b"one two", "sentences", 2),
    ("a.jsonl", MARK + b'{"tokens": ["one", "two"]}', "sentences", 2),
    ("a.jsonl", BAD, "sentences", 2),
    # Running text has more tokens than words.
    ("a.txt", b"I can't see. Can you?\n" * 100, "sentences", 500),
    ("a.txt", b"I can't see. Can you?\n" * 100, "text", 600),
    ("a.jsonl", b'{"text": "I can\'t see. Can you?"}\n' * 100, "text", 600),
]


@pytest.mark.parametrize(("name", "data", "format", "expected"), KINDS)
def test_every_kind_of_text_is_counted(tmp_path, name, data, format, expected):
    (tmp_path / name).write_bytes(data)
    assert estimate_tokens(tmp_path / name, format=format) == expected


@pytest.mark.parametrize("name", ["broken.txt.gz", "missing"])
def test_files_that_cannot_be_read_are_named(tmp_path, name):
    (tmp_path / "broken.txt.gz").write_bytes(b"no gzip")
    with pytest.raises(ValueError, match=name):
        estimate_tokens(tmp_path / name)


def test_a_very_long_line_does_not_fill_the_memory(tmp_path):
    (tmp_path / "parts.txt.gz").write_bytes(gzipped(b"x" * 2**20) * 300)
    tracemalloc.start()
    estimate_tokens(tmp_path / "parts.txt.gz")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5 * text_size.LARGEST_RATIO * text_size.SAMPLE


def test_many_files_are_estimated_from_a_few(tmp_path, monkeypatch):
    monkeypatch.setattr(text_size, "MAX_FILES", 5)
    for i in range(23):
        (tmp_path / f"{i:02d}.txt").write_text("one two three\n" * 10, "utf8")
    (tmp_path / "empty.txt").touch()
    assert estimate_tokens(tmp_path) == 23 * 30
    assert estimate_tokens([tmp_path / "00.txt", str(tmp_path / "1*.txt")]) == 11 * 30


@pytest.mark.corpora
def test_a_prepared_corpus_knows_its_number_of_tokens(folder, tmp_path):
    prepare([folder / "a.txt"], tmp_path / "corpus", n_process=1)
    assert estimate_tokens([tmp_path / "corpus", folder / "b.jsonl"]) == 2 * N_TOKENS


# Tokens that a model cuts


# 48 bytes are read: of é and 日, two and three bytes each, 24 and 16.
TOKENS = ["a" * 48, "a" * 49, "é" * 24, "é" * 25, "日" * 16, "日" * 17, "日" * 17, "word"]


@pytest.fixture
def text(tmp_path):
    (tmp_path / "text.txt").write_text("\n".join(TOKENS), "utf8")
    return tmp_path / "text.txt"


def test_tokens_beyond_the_limit_of_bytes_are_reported(text):
    found = audit_tokens(BiLMConfig(), [str(text)])
    frequent = ["日" * 17, "a" * 49, "é" * 25]
    cut = {"cut": 4, "share": 0.5, "limit": "48 UTF-8 bytes", "most frequent": frequent}
    assert found == {"tokens": 8, **cut}
    # By the model's own spelling: it reads a cut token and a longer one alike.
    for token in TOKENS:
        rows = character_ids([token[:-1], token, token + "x"], max_characters=50, widest_filter=5)
        assert (rows[1] == rows[2]).all() == (token != "word")  # no room for more
        assert (rows[0] == rows[1]).all() == (token in frequent)


def test_limits_of_other_kinds_of_models(text):
    """One model reads code points, and another has no characters."""
    found = audit_tokens(BiLMConfig(token_encoder="manylangs", n_characters=300), [str(text)])
    assert (found["cut"], found["limit"]) == (1, "48 code points")
    with pytest.raises(ValueError, match="a model without characters does not truncate"):
        audit_tokens(BiLMConfig(**WORDS_ONLY), [str(text)])
    text.write_text("\n")
    with pytest.raises(ValueError, match="no token in"):
        audit_tokens(BiLMConfig(), [str(text)])


@pytest.mark.commands
def test_info_reports_unknown_characters_of_a_text(text, tmp_path):
    safetensors_file.write(tiny_bilm(max_characters_per_token=50), tmp_path / "a.safetensors")
    given = ("info", tmp_path / "a.safetensors")
    assert json.loads(run_elmo(*given, "--audit", text, "--json").stdout)["audit"]["cut"] == 4
    assert " cut 4 " in shown_by(*given, "--audit", text)
    assert "audit" not in shown_by(*given)
