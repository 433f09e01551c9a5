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
