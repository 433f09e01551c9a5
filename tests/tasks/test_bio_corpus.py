"""Sentences with BIO tags from files."""

import gzip

import pytest
import spacy

from spacy_elmo.tasks.bio_corpus import make_bio_corpus

LINE = '{"words": ["In", "New", "York"], "tags": ["O", "B-LOC", "I-LOC"]}'


@pytest.mark.parametrize("name", ["ner.jsonl", "ner.jsonl.gz"])
def test_read(tmp_path, name):
    opener = gzip.open if name.endswith("gz") else open
    with opener(tmp_path / name, "wt", encoding="utf8") as file:
        file.write(LINE + "\n\n" + LINE)
    nlp = spacy.blank("en")
    one, _ = make_bio_corpus(tmp_path / name)(nlp)
    assert [(ent.text, ent.label_) for ent in one.reference.ents] == [("New York", "LOC")]
    assert [token.text for token in one.predicted] == ["In", "New", "York"]
    assert not one.predicted.has_annotation("ENT_IOB")
    assert len(list(one.predicted.sents)) == 1
    one, _ = make_bio_corpus(tmp_path / name, spans_key="chunks")(nlp)
    assert [span.text for span in one.reference.spans["chunks"]] == ["New York"]
    assert not one.reference.ents


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("New York", "expected {"),
        ('{"words": ["In"]}', "expected {"),
        ('{"words": [1], "tags": ["O"]}', "expected {"),
        (LINE.replace('"O", ', ""), "3 words, but 2 tags"),
        (LINE.replace("B-", "I-"), "token 1: I-LOC follows O"),
        (LINE.replace("B-LOC", "LOC"), "token 1: .*'LOC'"),
    ],
)
def test_a_bad_line_is_named(tmp_path, line, named):
    (tmp_path / "ner.jsonl").write_text(f"{LINE}\n{line}\n", "utf8")
    with pytest.raises(ValueError, match=rf"ner.jsonl:2: .*{named}") as error:
        list(make_bio_corpus(tmp_path / "ner.jsonl")(spacy.blank("en")))
    assert "\n" not in str(error.value)
