"""The project's scripts, on small inputs."""

import subprocess
import sys
from pathlib import Path

import pytest
import spacy
import srsly
from spacy.tokens import DocBin

PROJECT = Path(__file__).parents[2] / "project"
VOCAB = spacy.blank("en").vocab


def run(name, *args, fails=False):
    command = [sys.executable, str(PROJECT / "scripts" / name), *map(str, args)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode != 0) == fails, done.stdout + done.stderr
    return " ".join((done.stdout + done.stderr).split())


def docs(path):
    return list(DocBin().from_disk(path).get_docs(VOCAB))


def test_convert_wnut17(tmp_path):
    """A line with a single TAB separates sentences, too."""
    source = tmp_path / "train.conll"
    source.write_text("In\tO\nNew\tB-location\nYork\tI-location\n\t\nBob\tB-person\n.\tO\n", "utf8")
    run("convert_wnut17.py", source, tmp_path / "train.spacy")
    one, two = docs(tmp_path / "train.spacy")
    assert [(ent.text, ent.label_) for ent in one.ents] == [("New York", "location")]
    assert [(ent.text, ent.label_) for ent in two.ents] == [("Bob", "person")]


def test_convert_wnut17_names_a_bad_line(tmp_path):
    source = tmp_path / "train.conll"
    source.write_text("In\tO\nNew\tX-location\n", "utf8")
    assert "2" in run("convert_wnut17.py", source, tmp_path / "train.spacy", fails=True)


def test_convert_sst5(tmp_path):
    source = tmp_path / "stsa.fine.dev"
    source.write_text("0 awful .\n4 a wonder of a film\n", "utf8")
    run("convert_sst5.py", source, tmp_path / "dev.spacy")
    one, two = docs(tmp_path / "dev.spacy")
    assert one.cats["very negative"] == 1.0
    assert two.cats["very positive"] == 1.0
    assert sum(two.cats.values()) == 1.0
    assert [token.text for token in two] == ["a", "wonder", "of", "a", "film"]


def test_prepare_text(tmp_path):
    book = tmp_path / "book.txt"
    book.write_text("One two\nthree. Four\n\nHeading\n\nFive, six.\n", "utf8")
    run("prepare_text.py", tmp_path / "out" / "train.txt", book)
    lines = (tmp_path / "out" / "train.txt").read_text("utf8").splitlines()
    assert lines == ["One two three .", "Four", "Heading", "Five , six ."]


def test_demo_data_is_the_same_every_time(tmp_path):
    for name in ("a", "b"):
        run("demo_data.py", tmp_path / name)
    names = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert "lm-train.txt" in names
    assert "textcat-test.spacy" in names
    for name in names:
        if name.endswith(".txt"):
            assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
        else:
            one, two = (docs(tmp_path / folder / name) for folder in ("a", "b"))
            assert [doc.to_json() for doc in one] == [doc.to_json() for doc in two]
    train = {doc.text for doc in docs(tmp_path / "a" / "ner-train.spacy")}
    assert not train & {doc.text for doc in docs(tmp_path / "a" / "ner-test.spacy")}


@pytest.mark.parametrize("name", ["project.yml", "README.md"])
def test_project_documentation(name):
    project = srsly.read_yaml(PROJECT / "project.yml")
    text = (PROJECT / name).read_text("utf8")
    assert all(command["name"] in text for command in project["commands"])
    for workflow in ("pretrain", "ner", "textcat", "all", "demo"):
        assert workflow in project["workflows"]
    assert all(len(asset["checksum"]) == 32 for asset in project["assets"])
