"""`spacy elmo extract` writes the text of TEI files and of plain text, and changes no input."""

import gzip

import pytest

from helpers.commands import shown_by

pytestmark = pytest.mark.commands

TEI = "<TEI><text><body><head>I</head><p>{}</p></body></text></TEI>"


def texts(folder):
    return {path.name: path.read_text("utf8") for path in folder.iterdir()}


def test_extract_joins_words_as_all_files_write_them(tmp_path):
    source, out = tmp_path / "in", tmp_path / "new" / "out"
    (source / "sub").mkdir(parents=True)
    (source / "a.XML").write_text(TEI.format("Peut-\n  être la par-<lb/>tie."), "utf8")
    (source / "sub" / "b.txt").write_bytes("Vor-\r\nund peut-être.\r\n\r\nSaint-\r\nMalo".encode())
    with gzip.open(source / "c.v1.txt.gz", "wt", encoding="utf8") as file:
        file.write("Hin- und her, la partie.")
    (source / "d.xml").write_text("<TEI><text/></TEI>", "utf8")
    before = {path: path.read_bytes() for path in source.rglob("*.*")}
    shown = shown_by("extract", source, out)
    assert texts(out) == {
        "a.txt": "Peut-être la partie.\n",
        "b.txt": "Vor-\nund peut-être.\n\nSaint-Malo",
        "c.v1.txt": "Hin- und her, la partie.",
    }
    assert "d.xml has no text" in shown and "3 files" in shown
    assert "1 joined, 2 joined with their hyphen, 1 left as they are" in shown
    assert {path: path.read_bytes() for path in source.rglob("*.*")} == before


def test_elements_are_included_and_excluded(tmp_path):
    (tmp_path / "a.xml").write_text(TEI.format("One <q>two</q>."), "utf8")
    options = ("--include", "head", "--exclude", "q")
    shown_by("extract", tmp_path / "a.xml", tmp_path / "out", *options)
    assert texts(tmp_path / "out") == {"a.txt": "I\n\nOne .\n"}
    shown = shown_by("extract", tmp_path, tmp_path / "new", "--include", "q", status=2)
    assert "--include: 'q' is not skipped. Use one of back, castList" in shown


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.xml", b"<TEI>", "a.xml: cannot be read as XML: no element found: line 1"),
        ("a.xml", b"<TEI/>", "no file has text"),
        ("a.txt", b"\xff", "a.txt: not UTF-8"),
        ("a.txt", b" \n", "no file has text"),
        ("b.TXT", b"One.", "would both become b.txt"),
        ("a.html", b"One.", "no .xml, .txt file"),
    ],
)
def test_an_error_leaves_no_output(name, content, message, tmp_path):
    (tmp_path / "in" / "sub").mkdir(parents=True)
    (tmp_path / "in" / name).write_bytes(content)
    if "both" in message:
        (tmp_path / "in" / "sub" / "b.txt").write_text("Two.", "utf8")
    shown = shown_by("extract", tmp_path / "in", tmp_path / "out", status=1)
    assert message in " ".join(shown.split())
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


@pytest.mark.parametrize("kind", ["file", "folder", "link"])
def test_an_existing_output_stays(kind, tmp_path):
    (tmp_path / "a.txt").write_text("One.", "utf8")
    out = tmp_path / "out"
    if kind == "folder":
        out.mkdir()
    elif kind == "file":
        out.write_text("mine", "utf8")
    else:
        out.symlink_to(tmp_path / "missing")
    assert "out exists" in shown_by("extract", tmp_path / "a.txt", out, status=1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt", "out"]


def test_other_commands_name_extract(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.xml").write_text(TEI.format("One."), "utf8")
    shown = shown_by("corpus", tmp_path / "in", tmp_path / "out", status=1)
    assert "For TEI files (.xml), first run `extract`" in " ".join(shown.split())
