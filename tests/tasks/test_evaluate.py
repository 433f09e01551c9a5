"""`python -m spacy elmo evaluate`: the scores of the tasks, by the reader of the config."""

import json

import pytest
import srsly
from spacy.tokens import DocBin

from spacy_elmo.cli.evaluate import read_gold_examples, scores_by_label

from helpers.commands import shown_by
from helpers.tasks import CRF, PAIRS, QA, QUESTIONS, TEXTPAIR, entity_examples

NAMES = ("premise", "hypothesis", "label")


@pytest.mark.training
@pytest.mark.commands
def test_every_example_of_a_file_counts(know, tmp_path):
    """The limit of the dev data and the weights of scores do not matter."""
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
    words = " ".join(shown.split())
    assert "ents precision recall F" in words
    for label, scores in nlp.evaluate(data)["ents_per_type"].items():
        p, r, f = (f"{100 * scores[name]:.2f}" for name in "prf")
        assert f"{label} {p} {r} {f}" in words


def test_scores_are_shown_by_label():
    """The scores are of every form that spaCy's scorer and ours give: dicts, numbers, and none."""
    prf = {"p": 1.0, "r": 0.5, "f": 2 / 3}
    scores = {
        "cats_f_per_type": {"a": prf},
        "cats_auc_per_type": {"a": 0.75, "b": None},
        "spans_sc_per_type": {"x": prf, "y": prf},
        "morph_per_feat": {"Case": prf},
        "dep_las_per_type": None,
        "srl_per_type": {},
        "ents_f": 0.5,
    }
    assert scores_by_label(scores) == {
        "cats_f": {"a": prf},
        "cats_auc": {"a": {"score": 0.75}},
        "spans_sc": {"x": prf, "y": prf},
        "morph": {"Case": prf},
    }


@pytest.mark.training
@pytest.mark.commands
def test_scores_by_the_reader_of_the_config(know, tmp_path):
    """Two of six pairs have a wrong label."""
    nlp = know(TEXTPAIR)
    nlp.config["corpora"]["dev"] = {"@readers": "spacy-elmo.TextPairCorpus.v1", "path": None}
    nlp.to_disk(tmp_path / "pipeline")
    labels = [label if i > 1 else "neutral" for i, (_, _, label) in enumerate(PAIRS)]
    lines = [dict(zip(NAMES, (*pair[:2], label))) for pair, label in zip(PAIRS, labels)]
    srsly.write_jsonl(tmp_path / "test.jsonl", lines)
    docs = TEXTPAIR.docs(nlp)
    for doc, label in zip(docs, labels):
        doc.cats = {label: 1.0}
    DocBin(docs=docs).to_disk(tmp_path / "test.spacy")
    for name in ("test.jsonl", "test.spacy"):
        written = tmp_path / f"{name}-scores.json"
        arguments = ("evaluate", tmp_path / "pipeline", tmp_path / name, "--output", written)
        shown = shown_by(*arguments)
        assert "cats_acc 66.67" in shown and "words/s" in shown
        scores = json.loads(written.read_text("utf8"))
        assert scores["cats_acc"] == pytest.approx(4 / 6)
        assert scores["cats_f_per_type"]
        assert "scores.json exists already" in shown_by(*arguments, status=1)


@pytest.mark.training
@pytest.mark.commands
def test_the_reader_can_be_given(know, tmp_path):
    """Without a config of `spacy train`, spaCy's reader is the default."""
    nlp = know(QA)
    nlp.to_disk(tmp_path / "pipeline")
    question, context, _ = QUESTIONS[2]
    answers = [{"text": "Paris", "answer_start": 13}]
    line = {"question": question, "context": context, "answers": answers}
    where = (tmp_path / "pipeline", tmp_path / "test.jsonl")
    srsly.write_jsonl(where[1], [line])
    assert "spacy.Corpus.v1 reads .spacy" in shown_by("evaluate", *where, status=1)
    shown = shown_by("evaluate", *where, "--reader", "spacy-elmo.QACorpus.v1")
    assert "qa_f1 100.00" in shown and "qa_exact 100.00" in shown
    assert "no reader 'QACorpus'" in shown_by("evaluate", *where, "--reader", "QACorpus", status=1)


@pytest.mark.training
@pytest.mark.commands
def test_a_file_or_pipeline_without_anything_to_score_is_refused(know, tmp_path):
    nlp = know(CRF)
    where = (tmp_path / "pipeline", tmp_path / "test.spacy")
    nlp.to_disk(where[0])
    for docs, message in (
        ([], "contains no examples for the reader spacy.Corpus.v1"),
        ([nlp.make_doc("Tom saw Rome .")], "has no annotation for elmo_crf"),
    ):
        DocBin(docs=docs).to_disk(where[1])
        assert message in shown_by("evaluate", *where, status=1)
