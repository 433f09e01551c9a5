"""`python -m spacy elmo evaluate`: the scores of the tasks, by the reader of the config."""

import json

import pytest
import srsly
from spacy.tokens import DocBin

from spacy_elmo.cli.evaluate import read_gold_examples

from helpers.commands import shown_by
from helpers.tasks import CRF, PAIRS, QA, QUESTIONS, TEXTPAIR, entity_examples, pair_examples


@pytest.fixture
def pairs(know, tmp_path):
    """A trained pipeline and its pairs, of which two of six have a wrong label."""
    nlp = know(TEXTPAIR)
    nlp.config["corpora"]["dev"] = {"@readers": "spacy-elmo.TextPairCorpus.v1", "path": None}
    nlp.to_disk(tmp_path / "pipeline")
    labels = [label if i > 1 else "neutral" for i, (_, _, label) in enumerate(PAIRS)]
    lines = [
        {"premise": premise.split(), "hypothesis": hypothesis.split(), "label": label}
        for (premise, hypothesis, _), label in zip(PAIRS, labels)
    ]
    srsly.write_jsonl(tmp_path / "test.jsonl", lines)
    docs = [example.predicted for example in pair_examples(nlp)]
    for doc, label in zip(docs, labels):
        doc.cats = {label: 1.0}
    DocBin(docs=docs).to_disk(tmp_path / "test.spacy")
    return tmp_path


def test_all_of_a_file_counts(know, tmp_path):
    """Whatever part of the dev data the config takes, and whatever has a weight."""
    nlp = know(CRF)
    block = {"@readers": "spacy.Corpus.v1", "path": None, "gold_preproc": False, "limit": 1}
    nlp.config["corpora"]["dev"] = {**block, "max_length": 3, "augmenter": None}
    nlp.config["training"]["score_weights"] = dict.fromkeys(("ents_p", "ents_r", "ents_f"))
    data = entity_examples(nlp)
    data[-1].reference.ents = []
    DocBin(docs=[example.reference for example in data]).to_disk(tmp_path / "test.spacy")
    assert len(read_gold_examples(nlp, tmp_path / "test.spacy")) == len(data) > 1
    nlp.to_disk(tmp_path / "pipeline")
    shown = shown_by("evaluate", tmp_path / "pipeline", tmp_path / "test.spacy")
    assert f"ents_f {100 * nlp.evaluate(data)['ents_f']:.2f}" in shown
    assert "token_acc" not in shown


@pytest.mark.parametrize("name", ["test.jsonl", "test.spacy"])
def test_scores_by_the_reader_of_the_config(pairs, name):
    arguments = ("evaluate", pairs / "pipeline", pairs / name, "--output", pairs / "scores.json")
    shown = shown_by(*arguments)
    assert "scores.json exists already" in shown_by(*arguments, status=1)
    assert "cats_acc 66.67" in shown and "words/s" in shown
    scores = json.loads((pairs / "scores.json").read_text("utf8"))
    assert scores["cats_acc"] == pytest.approx(4 / 6)
    assert scores["cats_f_per_type"]


def test_another_reader(know, tmp_path):
    """Without a config of `spacy train` it is spaCy's."""
    nlp = know(QA)
    nlp.to_disk(tmp_path / "pipeline")
    lines = []
    for question, context, texts in QUESTIONS:
        answers = [{"text": text, "answer_start": context.index(text)} for text in texts]
        lines.append({"question": question, "context": context, "answers": answers})
    srsly.write_jsonl(tmp_path / "test.jsonl", lines)
    where = (tmp_path / "pipeline", tmp_path / "test.jsonl")
    assert "spacy.Corpus.v1 reads .spacy" in shown_by("evaluate", *where, status=1)
    shown = shown_by("evaluate", *where, "--reader", "spacy-elmo.QACorpus.v1")
    assert "qa_f1 100.00" in shown and "qa_exact 100.00" in shown
    assert "no reader 'QACorpus'" in shown_by("evaluate", *where, "--reader", "QACorpus", status=1)


def test_nothing_to_score(know, tmp_path):
    nlp = know(CRF)
    nlp.to_disk(tmp_path / "pipeline")
    path = tmp_path / "test.spacy"
    DocBin().to_disk(path)
    where = (tmp_path / "pipeline", path)
    assert "contains no examples for the reader spacy.Corpus.v1" in shown_by(
        "evaluate", *where, status=1
    )
    DocBin(docs=[nlp.make_doc("Tom saw Rome .")]).to_disk(path)
    assert "has no annotation for elmo_crf" in shown_by("evaluate", *where, status=1)
