"""What is made of a language model's text, beside a language model."""

import sys
from collections import Counter

import pytest

from helpers.gzipped import gzipped
from helpers.project_scripts import call, docs, run

TEXT = "".join(f"sentence {number} .\n" for number in range(10))


def test_hold_out(tmp_path):
    (tmp_path / "text.txt").write_text(TEXT)
    files = [tmp_path / name for name in ("text.txt", "new/train.txt", "new/dev.txt")]
    call("data.hold_out", *files, "--sentences", 3)
    assert files[1].read_text() + files[2].read_text() == TEXT
    assert files[2].read_text().startswith("sentence 7")
    output = call("data.hold_out", *files, "--sentences", 10, fails=True)
    assert "10 cannot be held out" in output


def test_floret(tmp_path, monkeypatch):
    """Vectors of the width asked for, that spaCy reads."""
    (tmp_path / "text.txt").write_text(TEXT * 20)
    args = (tmp_path / "vectors.floret", tmp_path / "text.txt", "--dim", 3, "--epochs", 1)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "floret", None)
        assert "pip install floret" in call("data.train_floret", *args, fails=True)
    pytest.importorskip("floret")
    call("data.train_floret", *args)
    header = (tmp_path / "vectors.floret").read_text().split("\n")[0]
    assert header.startswith("50000 3 5 6 2")


def test_weigh_sources(tmp_path):
    """Three rounds of 12 tokens of other sources, and at least 6 of the wiki each: of its five
    documents of 4 tokens all come in turn."""
    names = [f"wiki {number}" for number in range(5)] + [f"talk {number}" for number in range(3)]
    text = "".join(f"{name}\nthe end\n\n" for name in names)
    index = [f"{name[:4]}\t{name}\t{3 * place}\t2\n" for place, name in enumerate(names)]
    index.append("law\tempty\t24\t0\n")
    (tmp_path / "text.txt.gz").write_bytes(gzipped(text.encode()))
    (tmp_path / "index.tsv").write_text("".join(index))
    files = [tmp_path / name for name in ("text.txt.gz", "index.tsv", "weighed.txt")]
    options = ("--source", "wiki", "--share", 1 / 3, "--rounds", 3)
    assert "35.7%" in call("data.weigh_sources", *files, *options)
    written = files[2].read_text()
    documents = [tuple(document.split("\n")) for document in written.split("\n\n") if document]
    assert all(len(lines) == 2 and lines[1] == "the end" for lines in documents)
    counts = Counter(lines[0] for lines in documents)
    assert [counts[f"talk {number}"] for number in range(3)] == [3, 3, 3]
    assert sorted(counts[f"wiki {number}"] for number in range(5)) == [1, 1, 1, 1, 1]
    assert len(documents) == 14
    call("data.weigh_sources", *files, *options)
    assert files[2].read_text() == written  # the same seed
    for content, source, message in (
        ("".join(index), "web", "no source 'web'. It has talk, wiki."),
        ("wiki\tlong\t0\t99\n", "wiki", "ends before line 99, the end of 'long'"),
    ):
        files[1].write_text(content)
        options = ("--source", source, "--share", 0.5)
        assert message in call("data.weigh_sources", *files, *options, fails=True)


# Other scripts


def test_prepare_text(tmp_path):
    book = tmp_path / "book.txt"
    book.write_text("One two\nthree. Four\n\nHeading\n\nFive, six.\n", "utf8")
    call("data.prepare_text", tmp_path / "out" / "train.txt", book)
    lines = (tmp_path / "out" / "train.txt").read_text("utf8").splitlines()
    assert lines == ["One two three .", "Four", "Heading", "Five , six ."]


def test_demo_data_is_the_same_every_time(tmp_path):
    call("demo.data", tmp_path / "a")
    run("demo.data", tmp_path / "b")  # another process has other hashes
    names = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert {"lm-train.txt", "textcat-test.spacy"} <= {*names}
    for name in names:
        one, two = (tmp_path / folder / name for folder in ("a", "b"))
        assert one.read_bytes() == two.read_bytes()
    train = {doc.text for doc in docs(tmp_path / "a" / "ner-train.spacy")}
    assert not train & {doc.text for doc in docs(tmp_path / "a" / "ner-test.spacy")}
