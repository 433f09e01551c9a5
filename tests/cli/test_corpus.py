from spacy.cli._util import app
from typer.testing import CliRunner

import spacy_elmo.cli  # noqa: F401  (adds the commands to spaCy's)
from spacy_elmo.text.corpus import load_text
from spacy_elmo.text.prepare import open_corpus


def run(*arguments):
    return CliRunner().invoke(app, ["elmo", "corpus", *map(str, arguments)])


def test_corpus(tmp_path):
    (tmp_path / "a.txt").write_text("a b\n\nb c\n", "utf8")
    (tmp_path / "b.txt").write_bytes(b"d\n\xff\n")
    out = tmp_path / "out"
    inputs = (tmp_path / "a.txt", tmp_path / "b.txt")
    result = run(*inputs, out, "--max-size", "4", "-n", "1")
    assert result.exit_code == 0
    assert "b.txt, line 2: not UTF-8" in " ".join(result.output.split())
    rows = dict(line.split() for line in result.output.splitlines() if len(line.split()) == 2)
    assert (rows["tokens"], rows["sentences"], rows["documents"], rows["types"]) == (
        ("5", "3", "3", "6")
    )
    assert (out / "vocab.txt").read_text("utf8").split() == ["<S>", "</S>", "<UNK>", "b"]
    (tmp_path / "b.txt").write_text("d\n", "utf8")
    corpus, expected = open_corpus(out), load_text(inputs)
    assert sorted(corpus.types) == sorted(expected.types)
    assert corpus.documents.tolist() == expected.documents.tolist()
    assert run(*inputs, out, "-n", "1").exit_code == 1


def test_what_is_refused(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"a\n\xff\n")
    result = run(tmp_path / "a.txt", tmp_path / "out", "--on-error", "refuse")
    assert result.exit_code == 1
    assert "line 2: not UTF-8" in " ".join(result.output.split())
    assert run(tmp_path / "missing.txt", tmp_path / "out").exit_code == 1
    result = run(tmp_path / "a.txt", "memory://out")
    assert result.exit_code == 2
    assert "memory://out: a corpus is written to a disk" in " ".join(result.output.split())


def test_help():
    result = run("--help")
    assert result.exit_code == 0
    assert "Example" in result.output


def test_stopped(tmp_path, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("spacy_elmo.text.prepare.prepare", stop)
    (tmp_path / "a.txt").write_text("a\n", "utf8")
    result = run(tmp_path / "a.txt", tmp_path / "out")
    assert result.exit_code == 130
    assert "the same command" in result.output


def test_shares(tmp_path):
    (tmp_path / "a.txt").write_text("a b\nb c\n", "utf8")
    command = (tmp_path / "a.txt", tmp_path / "out", "--workers", "1")
    for worker in ("1/2", "2/2"):
        result = run(*command, "--worker", worker)
        assert result.exit_code == 0
        assert f"Read share {worker}" in result.output
        assert "without --worker" in " ".join(result.output.split())
    assert "tokens" in run(*command).output
    assert open_corpus(tmp_path / "out").n_words == 4
    assert run(*command, "--worker", "3/2").exit_code == 1
