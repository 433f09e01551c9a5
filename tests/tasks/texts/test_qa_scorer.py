"""The scores of answers, on worked examples."""

import pytest
import spacy
from spacy.training import Example

from spacy_elmo.tasks.texts import QUESTION, make_pair
from spacy_elmo.tasks.texts.corpus import make_question
from spacy_elmo.tasks.texts.qa import f1_of_words, normalize, score_qa

CONTEXT = "Maria's 1990s song, a hit, won in Rome."
ANSWERS = [{"text": "1990", "answer_start": 8}, {"text": "song", "answer_start": 14}]


@pytest.mark.parametrize("context", ["  The song.", "The song. "])
def test_blanks_around_answers(context):
    answers = [{"text": " song", "answer_start": context.index(" song")}]
    doc = make_question(spacy.blank("en"), "What?", context, answers)
    assert [span.text for span in doc.spans["answer"]] == ["song"]


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
        ("", "", 1.0),
        ("the", "", 1.0),
        ("dog", "", 0.0),
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
    # Punctuation and 1990s are not 1990.
    assert scores == {"qa_exact": 0.0, "qa_f1": 0.0, "qa_has_ans_f1": 0.0, "qa_no_ans_f1": None}
    examples[0].predicted.spans["answer"] = [examples[0].predicted[6:9]]
    assert examples[0].predicted.spans["answer"][0].text == "song, a"
    scores = score_qa(examples)
    assert (scores["qa_exact"], scores["qa_f1"]) == (pytest.approx(1 / 3), pytest.approx(1 / 3))
    examples[1].reference.spans["answer"].attrs.clear()
    assert score_qa(examples)["qa_f1"] == pytest.approx((1.0 + 2 / 3) / 3)
    doc = make_pair(nlp, "What?", "It.", QUESTION)
    assert set(score_qa([Example(doc, doc)]).values()) == {None}


# From the definitions in SQuAD's evaluate-v2.0.py: gold answers without words count as none; if
# answer or gold answer has no words, F is 1 if both have none. Columns: gold answers, tokens of
# the answer, exact, F.
JUDGED = [
    ([], None, 1, 1.0),
    ([], (6, 7), 0, 0.0),
    (["song"], None, 0, 0.0),
    (["song"], (6, 7), 1, 1.0),
    (["song, a hit"], (6, 7), 0, 2 / 3),
    ([","], None, 1, 1.0),
    ([",", "song"], None, 0, 0.0),
]


def test_scores_with_questions_without_an_answer():
    nlp = spacy.blank("en")
    examples = []
    for texts, tokens, _, _ in JUDGED:
        answers = [{"text": text, "answer_start": CONTEXT.index(text)} for text in texts]
        predicted = make_pair(nlp, "What won?", CONTEXT, QUESTION)
        predicted.spans["answer"] = [predicted[slice(*tokens)]] if tokens else []
        assert not tokens or predicted.spans["answer"][0].text == "song"
        examples.append(Example(predicted, make_question(nlp, "What won?", CONTEXT, answers)))
        exact, f1 = JUDGED[len(examples) - 1][2:]
        scores = score_qa(examples[-1:])
        assert (scores["qa_exact"], scores["qa_f1"]) == (exact, pytest.approx(f1))
    has = [f1 for texts, _, _, f1 in JUDGED if texts]
    assert score_qa(examples) == {
        "qa_exact": pytest.approx(sum(exact for _, _, exact, _ in JUDGED) / 7),
        "qa_f1": pytest.approx(sum(f1 for *_, f1 in JUDGED) / 7),
        "qa_has_ans_f1": pytest.approx(sum(has) / 5),
        "qa_no_ans_f1": 0.5,
    }
