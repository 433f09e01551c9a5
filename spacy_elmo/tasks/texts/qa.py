"""Component `elmo_qa`: the answer to a question, as a span of its context."""

import re
import string
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Optional

import numpy as np
from spacy.tokens import Doc, SpanGroup
from spacy.training import Example
from spacy.vocab import Vocab
from thinc.types import Floats2d

from ...embedding.embed import by_tokens
from ...layers.finite import check_loss
from ...registry import registry
from ..shared import check_sizes
from ..shared.log_space import log_sum_exp
from ..shared.pipe import TaskPipe
from ..shared.spans import checked_spans, name_of, to_predicted
from ..shared.task_files import READERS
from . import ANSWER, ANSWER_TEXTS, read_halves
from .models import AnswerModel

ARTICLES = re.compile(r"\b(a|an|the)\b")
WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)
MAX_DOCS = 256  # Largest number of Docs in a batch of predictions.


class Answer(NamedTuple):
    """Answer to a question.

    start (int): Its first token.
    end (int): The token after its last one.
    score (float): Sum of the scores of its ends before the softmax.
    """

    start: int
    end: int
    score: float


class QuestionAnswerer(TaskPipe):
    """Component that finds the answer to a question in its context.

    It sets `doc.spans["answer"]`. A Doc without a span there is not annotated.

    vocab (Vocab): The vocab.
    model (Model[List[Doc], List[Floats2d]]): The model.
    name (str): Name of the pipe.
    max_answer_tokens (int): Largest number of tokens of an answer.
    scorer (Optional[Callable]): The scorer.
    RAISES (ValueError): A value is out of range.
    """

    reader = READERS["elmo_qa"]

    def __init__(
        self,
        vocab: Vocab,
        model: AnswerModel,
        name: str = "elmo_qa",
        *,
        max_answer_tokens: int = 17,
        scorer: Optional[Callable] = None,
    ):
        check_sizes("elmo_qa", max_answer_tokens=max_answer_tokens)
        super().__init__(vocab, model, name, scorer)
        self.max_answer_tokens = max_answer_tokens

    # Applying

    def predict(self, docs: Iterable[Doc]) -> list[Optional[Answer]]:
        """Find the answers of Docs, without changing them.

        docs (Iterable[Doc]): The Docs.
        RETURNS (List[Optional[Answer]]): The best answer for each Doc; None if its context is
            empty.
        RAISES (ValueError): A Doc has no question or context, or the pipe is not initialized.
        """
        self._check_initialized()
        found: list[Optional[Answer]] = []
        for group in by_tokens(docs, self.model.attrs["max_batch_tokens"], MAX_DOCS):
            scores = [self.model.ops.to_numpy(values) for values in self.model.predict(group)]
            for doc, values in zip(group, scores):
                best = best_span(values, self.max_answer_tokens) if len(values) else None
                start = self._context(doc).start
                found.append(best and Answer(best.start + start, best.end + start, best.score))
        return found

    def set_annotations(self, docs: Iterable[Doc], scores: list[Optional[Answer]]) -> None:
        """Set `doc.spans["answer"]`, with the score in its `attrs["scores"]`.

        docs (Iterable[Doc]): The Docs.
        scores (List[Optional[Answer]]): The result of `predict` for them.
        """
        for doc, answer in zip(docs, scores):
            spans = [doc[answer.start : answer.end]] if answer else []
            attrs = {"scores": [answer.score] if answer else []}
            doc.spans[ANSWER] = SpanGroup(doc, name=ANSWER, spans=spans, attrs=attrs)

    def _context(self, doc: Doc) -> slice:
        return read_halves(doc, self.model.attrs["groups"]).second

    # Training

    @property
    def _wanted(self) -> str:
        return f"answer in doc.spans[{ANSWER!r}]"

    def _found_in(self, doc: Doc) -> Iterable[str]:
        return map(str, doc.spans.get(ANSWER, ()))

    def _loss(
        self, gold: list[Optional[list[tuple[int, int]]]], scores: list[Floats2d]
    ) -> tuple[float, list[Floats2d]]:
        """Return the sum of the Docs' losses, and its gradient.

        A Doc's loss is the negative log of the summed probability of the first tokens of all gold
        answers, plus the same for their last tokens.
        """
        xp = self.model.ops.xp
        loss, gradients = 0.0, []
        for answers, values in zip(gold, scores):
            if answers is None:
                gradients.append(xp.zeros_like(values))
                continue
            right = xp.full_like(values, -xp.inf)
            for start, end in answers:
                right[start, 0], right[end - 1, 1] = values[start, 0], values[end - 1, 1]
            log_sum, log_right = log_sum_exp(values, axis=0), log_sum_exp(right, axis=0)
            loss += float((log_sum - log_right).sum())
            gradients.append(xp.exp(values - log_sum) - xp.exp(right - log_right))
        check_loss(loss, self.name)
        return loss, gradients

    def _gold(self, example: Example) -> Optional[list[tuple[int, int]]]:
        """Return the gold answers, in whole tokens of the predicted Doc's context."""
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
        return found or None


def best_span(scores: np.ndarray, max_tokens: int) -> Answer:
    """Find the span with the highest sum of the scores of its ends.

    scores (numpy.ndarray): Scores as first and as last token. *Shape:* `(n_tokens, 2)`
    max_tokens (int): Largest number of tokens of the span.
    RETURNS (Answer): The span, its ends counted in the context.
    """
    starts, ends = scores.T
    found = []
    for length in range(1, min(max_tokens, len(scores)) + 1):
        sums = starts[: len(starts) - length + 1] + ends[length - 1 :]
        start = int(sums.argmax())
        found.append(Answer(start, start + length, float(sums[start])))
    return max(found, key=lambda answer: answer.score)


@registry.scorers("spacy-elmo.qa_scorer.v1")
def make_qa_scorer() -> Callable:
    """Return `score_qa`."""
    return score_qa


def score_qa(examples: Iterable[Example], **kwargs: Any) -> dict[str, Any]:
    """Compute SQuAD's scores (Rajpurkar et al. 2016, section 6.1).

    They are the share of answers that equal a gold answer, and the mean F-score of the words that
    an answer shares with a gold answer. The best gold answer counts. Case, articles and punctuation
    are ignored. Examples whose reference has no answer do not count.

    examples (Iterable[Example]): The examples.
    RETURNS (Dict[str, Any]): `qa_exact` and `qa_f1`, None if there is nothing to count.
    """
    exact, f1 = [], []
    for example in examples:
        gold = example.reference.spans.get(ANSWER, ())
        if not len(gold):
            continue
        texts = gold.attrs.get(ANSWER_TEXTS) or [span.text for span in gold]
        found = [span.text for span in example.predicted.spans.get(ANSWER, ())]
        answer = found[0] if found else ""
        exact.append(max(normalize(answer) == normalize(text) for text in texts))
        f1.append(max(f1_of_words(answer, text) for text in texts))
    if not exact:
        return {"qa_exact": None, "qa_f1": None}
    return {"qa_exact": sum(exact) / len(exact), "qa_f1": sum(f1) / len(f1)}


def normalize(text: str) -> str:
    """Return a text in lower case without punctuation, articles and extra spaces, as in SQuAD."""
    return " ".join(ARTICLES.sub(" ", text.lower().translate(WITHOUT_PUNCTUATION)).split())


def f1_of_words(answer: str, gold: str) -> float:
    """Return the F-score of the words that answer and gold answer share, with repetitions."""
    words, gold_words = normalize(answer).split(), normalize(gold).split()
    n_shared = (Counter(words) & Counter(gold_words)).total()
    return 2.0 * n_shared / (len(words) + len(gold_words)) if n_shared else 0.0
