"""The scores of answers."""

import re
import string
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from spacy.training import Example

from ..registry import registry

KEY = "answer"
TEXTS = "texts"  # in the attributes of gold spans: the answers as they were written
ARTICLES = re.compile(r"\b(a|an|the)\b")
WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


@registry.scorers("spacy-elmo.qa_scorer.v1")
def make_qa_scorer() -> Callable:
    """RETURNS (Callable[[Iterable[Example]], Dict[str, Any]]): `score_qa`."""
    return score_qa


def score_qa(examples: Iterable[Example], **kwargs: Any) -> dict[str, Any]:
    """SQuAD's scores (Rajpurkar et al. 2016, section 6.1): the share of the answers that are a
    gold answer, and the mean of the F-scores of the words that an answer shares with a gold
    answer; each time with that gold answer which fits best, and without case, articles and
    punctuation. Examples whose reference has no answer do not count.

    examples (Iterable[Example]): The examples.
    RETURNS (Dict[str, Any]): `qa_exact` and `qa_f1`, None where there is nothing to count.
    """
    exact, f1 = [], []
    for example in examples:
        gold = example.reference.spans.get(KEY, ())
        if not len(gold):
            continue
        texts = gold.attrs.get(TEXTS) or [span.text for span in gold]
        found = [span.text for span in example.predicted.spans.get(KEY, ())]
        answer = found[0] if found else ""
        exact.append(max(normalize(answer) == normalize(text) for text in texts))
        f1.append(max(f1_of_words(answer, text) for text in texts))
    if not exact:
        return {"qa_exact": None, "qa_f1": None}
    return {"qa_exact": sum(exact) / len(exact), "qa_f1": sum(f1) / len(f1)}


def normalize(text: str) -> str:
    """RETURNS (str): The text in lower case, without punctuation, articles and more than one
    blank at a place, in the order of SQuAD's script."""
    return " ".join(ARTICLES.sub(" ", text.lower().translate(WITHOUT_PUNCTUATION)).split())


def f1_of_words(answer: str, gold: str) -> float:
    """RETURNS (float): The F-score of the words that both have, each as often."""
    words, gold_words = normalize(answer).split(), normalize(gold).split()
    n_shared = (Counter(words) & Counter(gold_words)).total()
    return 2.0 * n_shared / (len(words) + len(gold_words)) if n_shared else 0.0
