"""Component `elmo_qa`: finds the answer to a question, as a span of its context."""

import math
import re
import string
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Optional

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from spacy.tokens import Doc, SpanGroup
from spacy.training import Example
from spacy.vocab import Vocab
from thinc.types import Floats2d

from ...embedding.embed import by_tokens
from ...registry import registry
from ..shared import check_sizes, log_sum_exp
from ..shared.pipe import Getter, TaskPipe
from ..shared.spans import checked_spans, name_of, to_predicted
from . import ANSWER, ANSWER_TEXTS, read_halves
from .models import AnswerModel

ARTICLES = re.compile(r"\b(a|an|the)\b")
NO_ANSWER = "no_answer"  # Key of `cfg`: whether training had questions without an answer.
WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)
MAX_DOCS = 256  # Maximum number of Docs in a batch of predictions.


class Answer(NamedTuple):
    """Answer to a question.

    end (int): The token after the last one of the answer.
    score (float): Probability of the span, among all spans that may be the answer.
    """

    start: int
    end: int
    score: float


class QuestionAnswerer(TaskPipe):
    """Component that finds the answer to a question in its context.

    It sets `doc.spans["answer"]`, a group of one span, or an empty group if there is no answer.
    Training skips examples whose reference has no such group.

    If a training question has no answer, the model also learns when there is none (Levy et al.
    2017). "No answer" is then one more choice in the softmax over first tokens and in the
    softmax over last tokens. The score of this choice is fixed at 0. The scores of tokens can be
    above or below 0, because they have a learned bias.

    max_answer_tokens (int): Maximum number of tokens of an answer.
    min_score (float): Minimum score of an answer, between 0 and 1. If the best answer has a lower
        score, there is no answer.
    RAISES (ValueError): A value is out of range.
    """

    factory = "elmo_qa"
    _wanted = f"answer in doc.spans[{ANSWER!r}]"

    def __init__(
        self,
        vocab: Vocab,
        model: AnswerModel,
        name: str = "elmo_qa",
        *,
        max_answer_tokens: int = 17,
        min_score: float = 0.0,
        scorer: Optional[Callable] = None,
    ):
        check_sizes("elmo_qa", max_answer_tokens=max_answer_tokens)
        if not 0.0 <= min_score <= 1.0:
            raise ValueError(f"elmo_qa: min_score must be between 0 and 1, got {min_score}")
        super().__init__(vocab, model, name, scorer)
        self.cfg[NO_ANSWER] = False
        self.max_answer_tokens = max_answer_tokens
        self.min_score = min_score

    # Applying

    def predict(self, docs: Iterable[Doc]) -> list[Optional[Answer]]:
        """Find the answers of Docs, without changing them.

        RETURNS (List[Optional[Answer]]): None if the context is empty, "no answer" is more
            probable, or the score is below `min_score`.
        RAISES (ValueError): A Doc has no question or context, or the pipe is not initialized.
        """
        self._check_initialized()
        found: list[Optional[Answer]] = []
        for group in by_tokens(docs, self.model.attrs["max_batch_tokens"], MAX_DOCS):
            for doc, values in zip(group, map(self.model.ops.to_numpy, self.model.predict(group))):
                context = self._context(doc)
                sentences = np.cumsum(doc.to_array("SENT_START")[context] == 1)
                limits = (self.max_answer_tokens, sentences, self.cfg[NO_ANSWER])
                best = best_span(values, *limits) if len(values) else None
                if best and best.score >= self.min_score:
                    start = context.start
                    found.append(Answer(best.start + start, best.end + start, best.score))
                else:
                    found.append(None)
        return found

    def set_annotations(self, docs: Iterable[Doc], scores: list[Optional[Answer]]) -> None:
        """Set `doc.spans["answer"]`, with the score of the answer in its `attrs["scores"]`."""
        for doc, answer in zip(docs, scores):
            spans = [doc[answer.start : answer.end]] if answer else []
            attrs = {"scores": [answer.score] if answer else []}
            doc.spans[ANSWER] = SpanGroup(doc, name=ANSWER, spans=spans, attrs=attrs)

    def _context(self, doc: Doc) -> slice:
        return read_halves(doc, self.model.attrs["groups"]).second

    # Training

    def _found_in(self, doc: Doc) -> Iterable[str]:
        """Return the texts of the answers; `[""]` for a question without an answer."""
        answers = doc.spans.get(ANSWER)
        return [] if answers is None else [span.text for span in answers] or [""]

    def _samples(self, get_examples: Getter, has_labels: bool = False) -> tuple[list[Doc], set]:
        docs, found = super()._samples(get_examples, has_labels)
        self.cfg[NO_ANSWER] = "" in found
        return docs, found

    def _loss(
        self, gold: list[Optional[list[tuple[int, int]]]], scores: list[Floats2d]
    ) -> tuple[float, list[Floats2d]]:
        """Return the loss, summed over Docs, and its gradient.

        The loss of a Doc is the negative logarithm of the summed probability of the first tokens of
        all gold answers, plus the same for their last tokens. If the model learns questions
        without an answer, "no answer" is one more token with scores 0.
        """
        xp = self.model.ops.xp
        loss, gradients = 0.0, []
        for answers, values in zip(gold, scores):
            if answers is None:
                gradients.append(xp.zeros_like(values))
                continue
            n_tokens = len(values)
            if self.cfg[NO_ANSWER]:
                values = xp.concatenate([values, xp.zeros_like(values, shape=(1, 2))])
                answers = answers or [(n_tokens, n_tokens + 1)]
            right = xp.full_like(values, -xp.inf)
            for start, end in answers:
                right[start, 0], right[end - 1, 1] = values[start, 0], values[end - 1, 1]
            log_sum, log_right = log_sum_exp(values, axis=0), log_sum_exp(right, axis=0)
            loss += float((log_sum - log_right).sum())
            gradients.append((xp.exp(values - log_sum) - xp.exp(right - log_right))[:n_tokens])
        return loss, gradients

    def _gold(self, example: Example) -> Optional[list[tuple[int, int]]]:
        """Return the gold answers as spans of whole tokens, counted from the context's first token.

        For a question without an answer, return an empty list if the model learns such questions,
        or else None. Return None without annotation.
        """
        doc, context = example.predicted, self._context(example.predicted)
        spans = list(checked_spans(example.reference, ANSWER, labeled=False))
        aligner, found = to_predicted(example), []
        for start, end in filter(None, (aligner.around(span.start, span.end) for span in spans)):
            if not context.start <= start < end <= context.stop:
                raise ValueError(
                    f"the answer {doc[start:end].text!r} ({start}, {end}) of the Doc "
                    f"{name_of(doc)} is not in its context ({context.start}, {context.stop})"
                )
            found.append((start - context.start, end - context.start))
        is_impossible = self.cfg[NO_ANSWER] and ANSWER in example.reference.spans and not spans
        return [] if is_impossible else found or None


def best_span(
    scores: np.ndarray, max_tokens: int, sentences: np.ndarray, no_answer: bool = False
) -> Optional[Answer]:
    """Find the span whose first and last token have the highest sum of scores.

    A span has at most `max_tokens` tokens, of one sentence. A softmax converts the sums to
    probabilities. With `no_answer`, "no answer" is one more choice, with the sum 0.

    scores (numpy.ndarray): Logits that a token of the context is the first and the last token of
        the answer. *Shape:* `(n_tokens, 2)`
    sentences (numpy.ndarray): Index of the sentence of each token. *Shape:* `(n_tokens,)`
    RETURNS (Optional[Answer]): In tokens of the context; None if "no answer" is more probable.
    """
    # Axes of ends, ends_in and sums: distance from first to last token, first token.
    starts, n_tokens = scores[:, 0], len(scores)
    beyond = (0, min(max_tokens, n_tokens) - 1)
    ends = sliding_window_view(np.pad(scores[:, 1], beyond), n_tokens)
    ends_in = sliding_window_view(np.pad(sentences, beyond, constant_values=-1), n_tokens)
    sums = np.where(ends_in == sentences, starts + ends, -np.inf)
    best = sums.max()
    if no_answer and best < 0.0:
        return None
    distance, start = divmod(int(sums.argmax()), n_tokens)
    total = np.exp(sums.astype("float64") - best).sum() + (math.exp(-best) if no_answer else 0.0)
    return Answer(start, start + distance + 1, float(1.0 / total))


@registry.scorers("spacy-elmo.qa_scorer.v1")
def make_qa_scorer() -> Callable:
    """Return the scorer of `elmo_qa`, the function `score_qa`."""
    return score_qa


def score_qa(examples: Iterable[Example], **kwargs: Any) -> dict[str, Any]:
    """Compute the same scores as the official script of SQuAD 2.0 (Rajpurkar et al. 2018).

    * `qa_exact`: the share of answers that equal a gold answer.
    * `qa_f1`: the mean F-score of the words that the answer shares with a gold answer.
    * `qa_has_ans_f1`, `qa_no_ans_f1`: `qa_f1` of questions with and without a gold answer.

    If there are several gold answers, the best score counts. Case, articles and punctuation are
    ignored. Examples whose reference has no `doc.spans["answer"]` are skipped. If this group is
    empty, the question has no answer: an empty prediction scores 1, and an answer scores 0.

    RETURNS (Dict[str, Any]): Scores are None if there are no questions.
    """
    exact: list[float] = []
    f1: dict[bool, list[float]] = {True: [], False: []}
    for example in examples:
        gold = example.reference.spans.get(ANSWER)
        if gold is None:
            continue
        texts = gold.attrs.get(ANSWER_TEXTS) or [span.text for span in gold]
        texts = list(filter(normalize, texts)) or [""]
        found = [span.text for span in example.predicted.spans.get(ANSWER, ())]
        answer = found[0] if found else ""
        exact.append(max(normalize(answer) == normalize(text) for text in texts))
        f1[len(gold) > 0].append(max(f1_of_words(answer, text) for text in texts))
    has, none = f1[True], f1[False]
    parts = {"qa_exact": exact, "qa_f1": has + none, "qa_has_ans_f1": has, "qa_no_ans_f1": none}
    return {key: sum(part) / len(part) if part else None for key, part in parts.items()}


def normalize(text: str) -> str:
    """Lower-case a text and remove punctuation, articles and extra spaces, like SQuAD's script."""
    return " ".join(ARTICLES.sub(" ", text.lower().translate(WITHOUT_PUNCTUATION)).split())


def f1_of_words(answer: str, gold: str) -> float:
    """Compute the F-score of the words that answer and gold answer share, counting repetitions.

    It is 1 if both have no words, as in the script of SQuAD 2.0.
    """
    words, gold_words = normalize(answer).split(), normalize(gold).split()
    if not words and not gold_words:
        return 1.0
    n_shared = (Counter(words) & Counter(gold_words)).total()
    return 2.0 * n_shared / (len(words) + len(gold_words))
