"""Files of questions, and the scores of answers on worked examples."""

import json

import pytest
import spacy
from spacy.tokens import DocBin
from spacy.training import Example
from spacy.util import registry

from spacy_elmo.tasks.pairs import QUESTION, make_pair
from spacy_elmo.tasks.qa_corpus import make_question
from spacy_elmo.tasks.qa_scorer import f1_of_words, normalize, score_qa

CONTEXT = "Maria's 1990s song, a hit, won in Rome."
ANSWERS = [{"text": "1990", "answer_start": 8}, {"text": "song", "answer_start": 14}]
LINE = {"question": "What won?", "context": CONTEXT, "answers": ANSWERS}
ARTICLES = [
    {"title": "one", "paragraphs": [{"context": CONTEXT, "qas": [{**LINE, "id": "a"}]}]},
    {"title": "two", "paragraphs": [{"context": CONTEXT, "qas": [{**LINE, "id": "b"}] * 2}]},
]


def write(path, *lines):
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf8")
    return path


def read(path):
    return list(registry.get("readers", "spacy-elmo.QACorpus.v1")(path=path)(spacy.blank("en")))


@pytest.mark.parametrize("name", ["qa.jsonl", "qa.json", "qa.spacy"])
def test_examples(tmp_path, name):
    lines = [{"data": ARTICLES}] if name == "qa.json" else [LINE] * 3
    examples = read(write(tmp_path / name.replace("spacy", "jsonl"), *lines))
    if name == "qa.spacy":
        DocBin(docs=[example.reference for example in examples]).to_disk(tmp_path / name)
        examples = read(tmp_path / name)
    assert len(examples) == 3
    for example in examples:
        spans = example.reference.spans["answer"]
        assert [span.text for span in spans] == ["1990s", "song"]
        assert spans.attrs["texts"] == ["1990", "song"]
        assert "answer" not in example.predicted.spans
        assert example.predicted.spans["context"][0].text == CONTEXT


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"answers": [{"text": "Rom", "answer_start": 3}]}, "'Rom' does not stand at character 3"),
        ({"answers": [{"text": "", "answer_start": 3}]}, "'' does not stand"),
        ({"answers": [{"text": "Rome", "answer_start": "3"}]}, "expected .*answer_start"),
        ({"answers": [{"text": "Rome"}]}, "expected"),
        ({"context": None}, "expected"),
    ],
)
def test_wrong_lines_are_named(tmp_path, change, named):
    path = write(tmp_path / "qa.jsonl", LINE, {**LINE, **change})
    with pytest.raises(ValueError, match=named) as error:
        read(path)
    assert str(error.value).startswith(f"{path}:2: ")
    assert "\n" not in str(error.value)


def test_wrong_files_of_squad_are_named(tmp_path):
    wrong = {**LINE, "id": "c", "answers": [{"text": "Rome", "answer_start": 0}]}
    article = {"paragraphs": [{"context": CONTEXT, "qas": [wrong]}]}
    with pytest.raises(ValueError, match=r"qa\.json, question c: the answer 'Rome' does not"):
        read(write(tmp_path / "qa.json", {"data": [article]}))
    with pytest.raises(ValueError, match=r"qa\.json: this is no SQuAD 1\.1: KeyError"):
        read(write(tmp_path / "qa.json", {"dataset": []}))


@pytest.mark.parametrize("context", ["  The song.", "The song. "])
def test_blanks_around_answers(context):
    answers = [{"text": " song", "answer_start": context.index(" song")}]
    doc = make_question(spacy.blank("en"), "What?", context, answers)
    assert [span.text for span in doc.spans["answer"]] == ["song"]


# Scores


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("The Cat's  tail.", "cats tail"),
        ("an apple, a pear", "apple pear"),
        ("Anathema", "anathema"),
        ("a-the", "athe"),
        ("the", ""),
        ("U.S.", "us"),
    ],
)
def test_normalization(text, wanted):
    """As SQuAD's script: punctuation goes before articles, and leaves no blank."""
    assert normalize(text) == wanted


@pytest.mark.parametrize(
    ("answer", "gold", "wanted"),
    [
        ("the old dog", "old dog", 1.0),
        ("old dog", "the old black dog", 0.8),  # 2 of 2, 2 of 3
        ("dog dog", "dog", 2 / 3),  # 1 of 2, 1 of 1
        ("cat", "dog", 0.0),
        ("", "dog", 0.0),
    ],
)
def test_f1(answer, gold, wanted):
    assert f1_of_words(answer, gold) == pytest.approx(wanted)


def test_scores():
    """Each answer with the best of its gold answers, as they were written."""
    nlp = spacy.blank("en")
    examples = []
    for found in (slice(7, 8), slice(4, 6), None):
        predicted = make_pair(nlp, "What won?", CONTEXT, QUESTION)
        if found:
            predicted.spans["answer"] = [predicted[found]]
        examples.append(Example(predicted, make_question(nlp, "What won?", CONTEXT, ANSWERS)))
    texts = [example.predicted.spans.get("answer", [""])[0] for example in examples]
    assert [str(text) for text in texts] == [",", "'s 1990s", ""]
    scores = score_qa(examples)
    assert scores == {"qa_exact": 0.0, "qa_f1": 0.0}  # punctuation and 1990s are not 1990
    examples[0].predicted.spans["answer"] = [examples[0].predicted[6:9]]
    assert examples[0].predicted.spans["answer"][0].text == "song, a"
    assert score_qa(examples) == {"qa_exact": pytest.approx(1 / 3), "qa_f1": pytest.approx(1 / 3)}
    examples[1].reference.spans["answer"].attrs.clear()
    assert score_qa(examples)["qa_f1"] == pytest.approx((1.0 + 2 / 3) / 3)
    doc = make_pair(nlp, "What?", "It.", QUESTION)
    assert score_qa([Example(doc, doc)]) == {"qa_exact": None, "qa_f1": None}
