"""`spacy elmo corpus` prepares text, in one process or in shares, and says how to resume."""

from unittest.mock import Mock

import pytest

from spacy_elmo.text.corpus import load_text
from spacy_elmo.text.prepare import open_corpus

from helpers.commands import shown_by

pytestmark = pytest.mark.commands


def test_corpus_prepares_text_once(tmp_path):
    (tmp_path / "a.txt").write_text("a b\n\nb c\n", "utf8")
    (tmp_path / "b.txt").write_bytes(b"d\n\xff\n")
    out = tmp_path / "out"
    inputs = (tmp_path / "a.txt", tmp_path / "b.txt")
    output = shown_by("corpus", *inputs, out, "--max-size", "4", "-n", "1")
    assert "b.txt, line 2: not UTF-8" in output
    assert "tokens 5 sentences 3 types 6 left out 1" in output
    assert (out / "vocab.txt").read_text("utf8").split() == ["<S>", "</S>", "<UNK>", "b"]
    (tmp_path / "b.txt").write_text("d\n", "utf8")
    corpus, expected = open_corpus(out), load_text(inputs)
    assert sorted(corpus.types) == sorted(expected.types)
    assert "another corpus" in shown_by("corpus", *inputs, out, "-n", "1", status=1)


def test_bad_text_is_refused_and_an_interrupt_says_how_to_resume(tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_bytes(b"a\n\xff\n")
    where = (tmp_path / "a.txt", tmp_path / "out")
    assert "line 2: not UTF-8" in shown_by("corpus", *where, "--on-error", "refuse", status=1)
    monkeypatch.setattr("spacy_elmo.text.prepare.prepare", Mock(side_effect=KeyboardInterrupt))
    assert "the same command" in shown_by("corpus", *where, status=130)


def test_input_format_of_files_without_a_suffix(tmp_path):
    """The billion-word corpus has names such as `news.en-00001-of-00100`."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "news.en-00001-of-00100").write_text("a b\n", "utf8")
    (tmp_path / "in" / "b.jsonl").write_text('{"tokens": ["c"]}\n', "utf8")
    (tmp_path / "in" / "c.conllu").write_text("no text", "utf8")
    command = ("corpus", tmp_path / "in", tmp_path / "out", "-n", "1")
    shown = shown_by(*command, "--input-format", "txt")
    assert "left out c.conllu" in shown and "tokens 3 sentences 2" in shown
    assert "--input-format must be one of txt, jsonl" in shown_by(
        *command, "--input-format", "csv", status=1
    )


def test_workers_read_shares_that_a_last_run_joins(tmp_path):
    (tmp_path / "a.txt").write_text("a b\nb c\n", "utf8")
    command = ("corpus", tmp_path / "a.txt", tmp_path / "out", "--workers", "1")
    for worker in ("1/2", "2/2"):
        output = shown_by(*command, "--worker", worker)
        assert f"Read share {worker}" in output
        assert "without --worker" in output
    assert "tokens" in shown_by(*command)
    assert open_corpus(tmp_path / "out").n_words == 4
