"""The project's scripts, on small inputs."""

from helpers.project_scripts import call, docs, run


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
