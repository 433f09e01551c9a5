"""The component `elmo_qa`: its model by the formulas, its scores by worked examples, its errors."""

import json
import math

import numpy as np
import pytest
import spacy
import torch
from spacy.tokens import Doc
from spacy.training import Example

from spacy_elmo.tasks.texts import QUESTION, copy_pair, make_pair
from spacy_elmo.tasks.texts.corpus import make_question
from spacy_elmo.tasks.texts.modules import BiDAFSelfAttention
from spacy_elmo.tasks.texts.qa import NO_ANSWER, best_span, f1_of_words, score_qa

from helpers.calls import note_calls
from helpers.commands import run_elmo
from helpers.formulas import linear, run
from helpers.gradients import softmax
from helpers.models import check_refused
from helpers.tasks import QA, QUESTIONS, gold_answers, question_examples

# Questions whose context does not answer them.
UNANSWERABLE = [
    ("Who gave Tom a book ?", "The firm sold a car in Rome .", []),
    ("Where did she live ?", "The old dog sleeps , and Anna runs .", []),
]


TASK = QA


# The model


def test_scores_equal_the_formulas():
    """Each pair is computed by itself; the recurrent layers are PyTorch's."""
    module = BiDAFSelfAttention(nI=3, nE=2, width=4, dropout=0.5).double().eval()
    texts = [[torch.randn(n, 3).double() for n in lengths] for lengths in ((4, 1), (2, 6))]
    beside = [[torch.randn(len(x), 2).double() for x in one] for one in texts]
    for i, found in enumerate(module(*texts, *beside)):
        sides = [(run(module.encode, one[i]), more[i]) for one, more in zip(texts, beside)]
        q, h = (np.concatenate(side, axis=1) for side in sides)
        scores = trilinear(module.attention, h, q)
        seen = softmax(scores) @ q
        from_question = softmax(scores.max(axis=1)) @ h
        merged = np.concatenate([h, seen, h * seen, from_question * seen], axis=1)
        x = np.maximum(linear(module.merge, merged), 0.0)
        g = run(module.encode_merged, x)
        scores = trilinear(module.self_attention, g, g)
        np.fill_diagonal(scores, -1e30)
        seen = softmax(scores) @ g
        both = np.concatenate([g, seen, g * seen], axis=1)
        x = x + np.maximum(linear(module.merge_self, both), 0.0)
        starts = run(module.encode_start, x)
        ends = run(module.encode_end, np.concatenate([x, starts], axis=1))
        wanted = np.concatenate([linear(module.start, starts), linear(module.end, ends)], axis=1)
        np.testing.assert_allclose(found.detach(), wanted, rtol=1e-6)


def trilinear(layer, h, q):
    first, second, both = layer.weight.detach().numpy()
    return np.array([[first @ one + second @ two + both @ (one * two) for two in q] for one in h])


@pytest.mark.training
@pytest.mark.parametrize("gap", [1.0, 3000.0])
@pytest.mark.parametrize("question", [QUESTIONS[0], QUESTIONS[1], UNANSWERABLE[0]])
def test_the_loss_equals_the_formula(trained, monkeypatch, question, gap):
    """The loss is minus the log of the probability that first and last token are right.

    The formula is computed in float64. No answer is one more token with scores 0.
    """
    pipe = trained.get_pipe("elmo_qa")
    monkeypatch.setitem(pipe.cfg, NO_ANSWER, not question[2])
    (example,) = question_examples(trained, [question])
    first = example.reference.spans["context"][0].start
    n_tokens = len(example.reference) - first
    right = np.zeros((n_tokens + 1, 2), dtype=bool)
    for span in example.reference.spans["answer"]:
        right[span.start - first, 0] = right[span.end - 1 - first, 1] = True
    right[-1] = not question[2]
    scores = np.zeros((n_tokens, 2), dtype="float32")
    scores[-1] = gap
    loss, (gradient,) = pipe._loss([pipe._gold(example)], [scores])
    none = np.full((1, 2), -np.inf if question[2] else 0.0)
    wide = np.vstack([scores.astype("float64"), none]) - gap
    log_p = wide - np.logaddexp.reduce(wide)
    log_right = np.logaddexp.reduce(np.where(right, log_p, -np.inf))
    assert loss == pytest.approx(-log_right.sum(), rel=1e-6)
    wanted = np.exp(log_p) - np.exp(np.where(right, log_p - log_right, -np.inf))
    np.testing.assert_allclose(gradient, wanted[:-1], atol=1e-6)


@pytest.mark.parametrize("no_answer", [False, True])
@pytest.mark.parametrize("n_sentences", [1, 3])
def test_the_best_span_is_the_best_of_all_spans(no_answer, n_sentences):
    """Its score is a softmax over the spans of the sentences, and no answer."""
    rng = np.random.default_rng(0)
    missing = 0
    for n_tokens in (1, 2, 9, 30):
        scores = rng.normal(-1.0, 2.0, size=(n_tokens, 2)).astype("float32")
        sentences = np.sort(rng.integers(n_sentences, size=n_tokens))
        for most in (1, 3, 17):
            spans = {
                (i, j + 1): float(scores[i, 0] + scores[j, 1])
                for i in range(n_tokens)
                for j in range(i, min(i + most, n_tokens))
                if sentences[i] == sentences[j]
            }
            found = best_span(scores, most, sentences, no_answer)
            total = sum(map(math.exp, spans.values())) + no_answer
            if found is None:
                assert no_answer and max(spans.values()) < 0.0
                missing += 1
                continue
            best = spans[found.start, found.end]
            assert best == max(spans.values())
            assert found.score == pytest.approx(math.exp(best) / total, rel=1e-12)
    assert bool(missing) == no_answer


def test_scores_far_apart_give_probabilities():
    scores = np.array([[3000.0, -3000.0], [-3000.0, 3000.0], [0.0, 0.0]], dtype="float32")
    assert best_span(scores, 17, np.zeros(3)) == (0, 2, 1.0)
    start, end, score = best_span(scores, 17, np.arange(3))
    assert (start, end, score) == (0, 1, pytest.approx(1 / 3))


@pytest.mark.training
def test_answers_do_not_cross_sentences(trained):
    """A context of one token has an answer, too."""
    for words, starts, answers in (
        (QUESTIONS[3][1], [0], ["The old dog"]),
        (QUESTIONS[3][1], [0, 2], ["The old", "dog", "dog sleeps"]),
        ("Anna", [0], ["Anna"]),
    ):
        doc = make_pair(trained, "Who sleeps ?", words, QUESTION)
        for start in starts:
            doc[3 + start].is_sent_start = True
        (answer,) = trained(doc).spans["answer"]
        assert answer.text in answers
        assert len(list(answer.sents)) == 1
        assert 0.0 < doc.spans["answer"].attrs["scores"][0] <= 1.0


@pytest.mark.training
def test_long_contexts_are_read_in_windows(trained, monkeypatch):
    """No attention is larger than a window; all tokens of the context compete."""

    def sizes_of(self, first, second, *beside):
        return len(second), max(map(len, second))

    sizes = note_calls(monkeypatch, BiDAFSelfAttention, "forward", sizes_of)
    context = " ".join(["It rained ."] * 2000 + ["The old dog sleeps , and Anna runs ."])
    doc = trained(make_pair(trained, "Who sleeps ?", context, QUESTION))
    assert max(longest for _, longest in sizes) == 600
    assert max(n * longest for n, longest in sizes) <= 4096
    assert sum(n for n, _ in sizes) == 15
    assert len(doc.spans["answer"]) == 1


# No answer


@pytest.mark.training
@pytest.mark.pipelines
def test_no_answer_is_learned(make):
    """The saved and loaded model does the same. A Doc without the group is not annotated."""
    nlp = make(QA)
    data = question_examples(nlp, [*QUESTIONS, *UNANSWERABLE])
    QA.train(nlp, steps=60, data=data)
    loaded = make(QA).from_bytes(nlp.to_bytes())
    scores = loaded.evaluate(data)
    assert scores["qa_f1"] == scores["qa_has_ans_f1"] == scores["qa_no_ans_f1"] == 1.0
    reference = data[-1].reference
    update = loaded.get_pipe("elmo_qa").update
    assert update([Example(copy_pair(reference, QUESTION), reference)])["elmo_qa"] > 0.0
    del reference.spans["answer"]
    assert update([Example(copy_pair(reference, QUESTION), reference)])["elmo_qa"] == 0.0


@pytest.mark.training
def test_a_model_trained_only_with_answers_always_answers(trained):
    """Questions without an answer teach it nothing."""
    examples = question_examples(trained, UNANSWERABLE)
    assert trained.get_pipe("elmo_qa").update(examples)["elmo_qa"] == 0.0
    assert all(trained(example.predicted).spans["answer"] for example in examples)


@pytest.mark.training
def test_answers_below_the_smallest_score(trained, monkeypatch):
    docs = [trained(example.predicted) for example in question_examples(trained)]
    scores = [doc.spans["answer"].attrs["scores"][0] for doc in docs]
    least = sorted(scores)[1]
    monkeypatch.setattr(trained.get_pipe("elmo_qa"), "min_score", least)
    answered = [bool(trained(doc).spans["answer"]) for doc in docs]
    assert answered == [score >= least for score in scores]


# Gold answers


@pytest.mark.training
@pytest.mark.pipelines
def test_wrong_gold_answers_are_named(trained, make):
    doc = gold_answers(trained, *QUESTIONS[0])
    doc.spans["answer"] = [doc[1:3]]
    outside = Example(copy_pair(doc, QUESTION), doc)
    check_refused(lambda: trained.update([outside]), "'gave Tom' (1, 3)", "'Who gave", "(6, 15)")
    no_pair = Example(trained.make_doc("Who ran ?"), doc)
    for use in (lambda: trained("Who ran ?"), lambda: trained.update([no_pair])):
        check_refused(use, "'Who ran ?'", "'question'")
    doc.spans["answer"] = []
    named = "'elmo_qa' finds no answer in doc.spans['answer']"
    check_refused(lambda: make(QA).initialize(lambda: [outside]), named)


@pytest.mark.training
@pytest.mark.parametrize(
    ("context", "answer", "text", "wanted"),
    [
        ("It can not be Anna .", 6, "Who ? It can not be An na .", (4, 6)),
        ("Ann Smith - Jones ran", 3, "Who ? Ann Smith-Jones ran", (1, 2)),
    ],
)
def test_answers_are_aligned_with_the_predicted_tokens(trained, context, answer, text, wanted):
    """An answer within a token becomes the whole token."""
    reference = make_pair(trained, "Who ?", context.split(), QUESTION)
    reference.spans["answer"] = [reference[answer : answer + 1]]
    words = text.split()
    doc = Doc(trained.vocab, words=words, spaces=[word != "An" for word in words])
    doc.spans["question"], doc.spans["context"] = [doc[:2]], [doc[2:]]
    example = Example(doc, reference)
    assert trained.get_pipe("elmo_qa")._gold(example) == [wanted]
    assert trained.update([example])["elmo_qa"] > 0.0


# The command


@pytest.mark.training
@pytest.mark.commands
def test_ask_command(trained, tmp_path):
    def ask(*options, status=0):
        output = run_elmo("ask", *where, *options, status=status).output
        return json.loads(output) if "--json" in options else " ".join(output.split())

    where = [tmp_path / "pipeline", tmp_path / "text.txt"]
    question = QUESTIONS[0][0]
    trained.to_disk(where[0])
    where[1].write_text(f"  {QUESTIONS[0][1]}\n", "utf-8-sig")
    assert "Maria" in ask(question)
    found = ask(question, "--json")
    score = found.pop("score")
    assert 0.0 < score < 1.0
    assert found == {"answer": "Maria", "start_char": 2, "end_char": 7}
    nothing = {**dict.fromkeys(found), "score": None}
    assert "No answer" in ask(question, "--min-score", "1.0")
    assert ask(question, "--min-score", "1.0", "--json") == nothing
    assert "--min-score" in ask(question, "--min-score", "2", status=2)
    assert "question is empty" in ask(" ", status=1)
    for empty in ("", " \n"):
        where[1].write_text(empty)
        assert "is empty" in ask(question, status=1)
    where[1].write_text("caf\xe9", "latin-1")
    assert "text.txt: not UTF-8; if it is Latin-1" in ask(question, status=1)
    spacy.blank("en").to_disk(where[0])
    assert "no elmo_qa" in ask(question, status=1)


# The scores


CONTEXT = "Maria's 1990s song, a hit, won in Rome."


@pytest.mark.parametrize("context", ["  The song.", "The song. "])
def test_blanks_around_answers_are_removed(context):
    answers = [{"text": " song", "answer_start": context.index(" song")}]
    doc = make_question(spacy.blank("en"), "What?", context, answers)
    assert [span.text for span in doc.spans["answer"]] == ["song"]


@pytest.mark.parametrize(
    ("answer", "gold", "wanted"),
    [
        ("old dog", "the old black dog", 0.8),  # 2 of 2, 2 of 3
        ("dog dog", "dog", 2 / 3),  # 1 of 2, 1 of 1
        # As SQuAD's script: punctuation goes before articles, and leaves no blank.
        ("The Cat's  tail.", "cats tail", 1.0),
        ("an apple, a pear", "apple pear", 1.0),
        ("Anathema", "anathema", 1.0),
        ("a-the", "athe", 1.0),
        ("the", "", 1.0),
        ("U.S.", "us", 1.0),
    ],
)
def test_f1_of_words_equals_worked_examples(answer, gold, wanted):
    assert f1_of_words(answer, gold) == pytest.approx(wanted)


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
    (["1990", "song"], (4, 6), 0, 0.0),  # 's 1990s: the answers are as they were written
    (["1990", "song"], (6, 9), 1, 1.0),  # song, a: the best of the answers counts
]


def test_scores_equal_worked_examples():
    nlp = spacy.blank("en")
    examples = []
    for texts, tokens, exact, f1 in JUDGED:
        answers = [{"text": text, "answer_start": CONTEXT.index(text)} for text in texts]
        predicted = make_pair(nlp, "What won?", CONTEXT, QUESTION)
        predicted.spans["answer"] = [predicted[slice(*tokens)]] if tokens else []
        examples.append(Example(predicted, make_question(nlp, "What won?", CONTEXT, answers)))
        scores = score_qa(examples[-1:])
        assert (scores["qa_exact"], scores["qa_f1"]) == (exact, pytest.approx(f1))
    has = [f1 for texts, _, _, f1 in JUDGED if texts]
    assert score_qa(examples) == {
        "qa_exact": pytest.approx(sum(exact for _, _, exact, _ in JUDGED) / 9),
        "qa_f1": pytest.approx(sum(f1 for *_, f1 in JUDGED) / 9),
        "qa_has_ans_f1": pytest.approx(sum(has) / 7),
        "qa_no_ans_f1": 0.5,
    }
    examples[-2].reference.spans["answer"].attrs.clear()  # the answer is the token then
    assert score_qa(examples[-2:-1])["qa_f1"] == pytest.approx(2 / 3)
    assert score_qa(examples[-2:-1])["qa_no_ans_f1"] is None
    doc = make_pair(nlp, "What?", "It.", QUESTION)
    assert set(score_qa([Example(doc, doc)]).values()) == {None}
