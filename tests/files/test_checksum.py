"""Digests, against those that the standards print."""

import sys

import pytest

from spacy_elmo.files import checksum

MODULE = sys.modules["spacy_elmo.files.checksum"]  # its function has its name

# FIPS 180-4's examples, and RFC 1321's.
ABC = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
A_MILLION = "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"


@pytest.mark.parametrize(
    ("content", "expected"), [(b"abc", ABC), (b"", EMPTY), (b"a" * 1_000_000, A_MILLION)]
)
@pytest.mark.parametrize("block", [1000, MODULE.BLOCK])
def test_sha256(tmp_path, monkeypatch, content, expected, block):
    monkeypatch.setattr(MODULE, "BLOCK", block)
    (tmp_path / "x").write_bytes(content)
    assert checksum(tmp_path / "x") == expected
