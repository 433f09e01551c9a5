import pytest
import spacy
from spacy.tokens import DocBin

from scripts.data.convert_homograph import main

ROWS = (
    '"bass"\t"bass_corp"\t"A naïve Bass swam ""off""."\t8\t12\n'
    '"bass"\t"bass"\t"The bass guitar."\t5\t9\n'  # wrong offsets
    '"bass"\t"bass"\t"The bassline."\t4\t8\n'  # a part of a token
    '"bass"\t"bass"\t"Loud bass"\t5\t9\n'
)
CONTENT = ("\ufeffhomograph\twordid\tsentence\tstart\tend\n" + ROWS).encode("utf8")


def test_homographs(tmp_path, capsys):
    (tmp_path / "bass.tsv").write_bytes(CONTENT)
    main(tmp_path, tmp_path / "out" / "train.spacy")
    docs = DocBin().from_disk(tmp_path / "out" / "train.spacy").get_docs(spacy.blank("en").vocab)
    found = [(doc.text, [(s.text, s.label_) for s in doc.spans["senses"]]) for doc in docs]
    assert found == [
        ('A naïve Bass swam "off".', [("Bass", "bass_corp")]),
        ("Loud bass", [("bass", "bass")]),
    ]
    shown = " ".join(capsys.readouterr().out.split())
    assert "2 sentences, 2 senses" in shown
    assert "wrong offsets: 1" in shown
    assert "a part of a token: 1" in shown


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "contains no .tsv file"),
        (b"word\twordid\n", "bass.tsv: expected the columns"),
        (CONTENT.replace(b"\t9\n", b"\tx\n", 1), "bass.tsv:3: start and end must be numbers"),
        (CONTENT.replace(b"\t9\n", b"\n", 1), "bass.tsv:3: expected 5 columns"),
        (CONTENT.replace(b"\t9\n", b"\t9\t9\n", 1), "bass.tsv:3: expected 5 columns"),
        (CONTENT.replace("ï".encode(), b"\xff"), "utf-8"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, monkeypatch, capsys, content, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    if content is not None:
        (tmp_path / "in" / "bass.tsv").write_bytes(content)
    with pytest.raises(SystemExit):
        main((tmp_path / "in").relative_to(tmp_path), tmp_path / "out.spacy")
    assert message in " ".join(capsys.readouterr().out.split())
    assert not (tmp_path / "out.spacy").exists()
