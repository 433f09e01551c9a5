"""Docs of two texts, and files of them."""

import gzip
import json

import pytest
import spacy
from spacy.tokens import Doc, DocBin
from spacy.util import registry

from spacy_elmo.tasks.pairs import QUESTION, copy_pair, make_pair, read_halves


@pytest.fixture(scope="module")
def nlp():
    return spacy.blank("en")


@pytest.mark.parametrize("first", ["A man didn't eat.", ["A", "man", "did", "n't", "eat", "."]])
def test_two_texts_of_a_pipeline(nlp, first):
    doc = make_pair(nlp, first, "A man eats.")
    assert [token.text for token in doc][:6] == ["A", "man", "did", "n't", "eat", "."]
    assert doc.spans["premise"][0].text == doc[:6].text
    assert doc.spans["hypothesis"][0].text == "A man eats."
    assert read_halves(doc, ("premise", "hypothesis")) == (slice(0, 6), slice(6, 10))
    assert [sentence.start for sentence in doc.sents] == [0, 6]
    if isinstance(first, str):
        assert doc.text == "A man didn't eat. A man eats."


def test_two_texts_of_a_vocab(nlp):
    doc = make_pair(nlp.vocab, "Who  isn't it ?", "He .", QUESTION)
    assert [token.text for token in doc] == ["Who", "isn't", "it", "?", "He", "."]
    assert doc.spans["question"][0].text == "Who isn't it ?"
    assert doc.spans["context"][0].text == "He ."


@pytest.mark.parametrize(("first", "second"), [("", "A man ."), ("A man .", ""), ("", "")])
def test_a_text_may_be_empty(nlp, first, second):
    doc = make_pair(nlp, first, second)
    (loaded,) = DocBin(docs=[doc]).from_bytes(DocBin(docs=[doc]).to_bytes()).get_docs(nlp.vocab)
    for one in (doc, loaded, copy_pair(doc, ("premise", "hypothesis"))):
        halves = read_halves(one, ("premise", "hypothesis"))
        assert [one[half].text for half in halves] == [first, second]


def test_a_copy_has_what_can_be_predicted_from(nlp):
    doc = make_pair(nlp, "A man didn't eat.", "A man eats.")
    doc.cats = {"neutral": 1.0}
    copy = copy_pair(doc, ("premise", "hypothesis"))
    assert copy.text == doc.text
    assert [token.is_sent_start for token in copy] == [token.is_sent_start for token in doc]
    assert not copy.cats


def test_docs_that_are_no_pairs(nlp):
    with pytest.raises(ValueError, match=r"'A man eats .'.*'premise'.*has 0.*make_pair"):
        read_halves(nlp("A man eats ."), ("premise", "hypothesis"))
    doc = make_pair(nlp, "A man .", "He eats .")
    doc.spans["premise"] = [doc[:2], doc[2:3]]
    with pytest.raises(ValueError, match=r"'premise'.*has 2"):
        read_halves(doc, ("premise", "hypothesis"))
    doc.spans["premise"] = [doc[:4]]
    with pytest.raises(ValueError, match=r"premise \(0, 4\) and hypothesis \(3, 6\).*overlap"):
        read_halves(doc, ("premise", "hypothesis"))


# Files

LINES = [
    {"premise": "A man eats.", "hypothesis": "He sleeps.", "label": "contradiction"},
    {"premise": ["A", "man"], "hypothesis": ["He"], "label": "entailment", "id": 3},
]


def write(path, *lines):
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "wt", encoding="utf8") as file:
        file.writelines(
            line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines
        )
    return path


def read(path, **settings):
    reader = registry.get("readers", "spacy-elmo.TextPairCorpus.v1")
    return list(reader(path=path, **settings)(spacy.blank("en")))


@pytest.mark.parametrize("name", ["pairs.jsonl", "pairs.jsonl.gz", "pairs.spacy"])
def test_examples(tmp_path, name):
    examples = read(write(tmp_path / name.replace(".spacy", ".jsonl"), *LINES, "\n"))
    if name == "pairs.spacy":
        DocBin(docs=[example.reference for example in examples]).to_disk(tmp_path / name)
        examples = read(tmp_path / name)
    assert [example.reference.cats for example in examples] == [
        {"contradiction": 1.0},
        {"entailment": 1.0},
    ]
    for example in examples:
        assert not example.predicted.cats
        assert example.predicted.text == example.reference.text
        assert [*map(str, example.predicted.spans["premise"])] == [
            *map(str, example.reference.spans["premise"])
        ]
    assert [token.text for token in examples[0].predicted][:4] == ["A", "man", "eats", "."]


def test_other_names_of_the_texts(tmp_path):
    line = {"one": "I sat by the bank.", "other": "A bank lends.", "label": "no"}
    (example,) = read(write(tmp_path / "pairs.jsonl", line), groups=["one", "other"])
    assert example.predicted.spans["other"][0].text == "A bank lends."


@pytest.mark.parametrize(
    "line",
    ["{\n", {"premise": "A man"}, {**LINES[0], "label": 1}, {**LINES[0], "hypothesis": [1]}, [1]],
)
def test_wrong_lines_are_named(tmp_path, line):
    path = write(tmp_path / "pairs.jsonl", LINES[0], line)
    with pytest.raises(ValueError, match=r'expected {"premise": "\.\.\."') as error:
        read(path)
    assert str(error.value).startswith(f"{path}:2: ")
    assert "\n" not in str(error.value)


def test_docs_of_a_file_without_texts_are_named(tmp_path, nlp):
    path = tmp_path / "pairs.spacy"
    DocBin(docs=[Doc(nlp.vocab, words=["A", "man"])]).to_disk(path)
    with pytest.raises(ValueError, match=r"pairs\.spacy: the Doc 'A man' needs one span"):
        read(path)
