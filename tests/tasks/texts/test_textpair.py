"""The component `elmo_textpair`: its model by the formulas, its accuracy, its errors."""

import numpy as np
import pytest
import torch
from spacy.training import Example

from spacy_elmo.tasks.shared.recurrent import BidirectionalRNN
from spacy_elmo.tasks.texts import make_pair
from spacy_elmo.tasks.texts.modules import ESIM

from helpers.calls import note_calls
from helpers.formulas import linear, run
from helpers.gradients import softmax
from helpers.tasks import PAIR_LABELS, TEXTPAIR, pair_examples

TASK = TEXTPAIR


# The model


def attend(one, other):
    return softmax(one @ other.T) @ other if len(other) else np.zeros_like(one)


def pool(v):
    return [v.mean(0), v.max(0)] if len(v) else [np.zeros(v.shape[1])] * 2


def test_scores_equal_the_formulas():
    """Each pair is computed by itself, also one with an empty text.

    The recurrent layers are PyTorch's.
    """
    module = ESIM(nI=3, nE=2, nO=3, width=4, dropout=0.5).double().eval()
    texts = [[torch.randn(n, 3).double() for n in lengths] for lengths in ((4, 1, 2), (2, 5, 0))]
    beside = [[torch.randn(len(x), 2).double() for x in one] for one in texts]
    for i, logits in enumerate(module(*texts, *beside)):
        sides = [(run(module.encode, one[i]), more[i]) for one, more in zip(texts, beside)]
        first, second = (np.concatenate(side, axis=1) for side in sides)
        pooled = []
        for x, other in ((first, second), (second, first)):
            y = attend(x, other)
            m = linear(module.project, np.concatenate([x, y, x - y, x * y], axis=1))
            pooled += pool(run(module.compose, np.maximum(m, 0.0)))
        hidden = np.tanh(linear(module.hidden, np.concatenate(pooled)))
        np.testing.assert_allclose(logits.detach(), linear(module.output, hidden), rtol=1e-6)


# Examples


@pytest.mark.training
def test_unknown_labels_are_named(trained):
    wrong = Example.from_dict(make_pair(trained, "A man .", "He ."), {"cats": {"maybe": 1.0}})
    with pytest.raises(ValueError, match=r"'A man \. He \.' has the label 'maybe'") as error:
        trained.update([wrong])
    assert ", ".join(PAIR_LABELS) in str(error.value)


@pytest.mark.training
def test_accuracy_is_the_share_of_docs(trained):
    """Two of six gold labels are changed, so four of six are right."""
    data = pair_examples(trained)
    for example in data[:2]:
        example.reference.cats = {"neutral": 1.0}
    scores = trained.evaluate(data)
    assert scores["cats_acc"] == scores["cats_micro_f"] == pytest.approx(4 / 6)
    none = data[:1]
    none[0].reference.cats = {"contradiction": 0.0, "neutral": 0.0}
    assert trained.update(none)["elmo_textpair"] == 0.0
    # Labels of other components do not count, of the prediction or of the reference.
    data = pair_examples(trained)
    for example in data:
        example.reference.cats["POSITIVE"] = 1.0
        trained(example.predicted)
        example.predicted.cats["POSITIVE"] = 2.0
    score = trained.get_pipe("elmo_textpair").score
    assert [score(data)[name] for name in TEXTPAIR.scores] == [1.0, 1.0]
    for cats in ({"POSITIVE": 1.0}, {"contradiction": 0.0, "neutral": 0.0}):
        data[0].reference.cats = cats
        assert score(data[:1])["cats_acc"] is None


@pytest.mark.training
@pytest.mark.pipelines
@pytest.mark.parametrize("max_batch_tokens", [40, 200])
def test_padding_counts_in_the_size_of_a_batch(make, monkeypatch, max_batch_tokens):
    """The texts differ much in length."""
    nlp = make(TEXTPAIR, max_batch_tokens=max_batch_tokens)
    nlp.initialize(lambda: pair_examples(nlp))
    read = note_calls(monkeypatch, BidirectionalRNN, "forward", lambda _, x, mask: mask.numel())
    list(nlp.pipe([make_pair(nlp, "a " * 24, "b " * n) for n in (1, 2, 8)]))
    first, second = read[::4], read[1::4]  # each side is encoded, and then composed
    assert max(map(sum, zip(first, second))) <= max_batch_tokens
    assert sum(first) == 3 * 24
