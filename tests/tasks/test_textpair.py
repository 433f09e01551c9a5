"""The component `elmo_textpair`: it learns, with any tok2vec; what it has learned is kept; what
is wrong with examples is said."""

import pickle

import numpy as np
import pytest
import spacy
import torch
from spacy.training import Example

from spacy_elmo.tasks.esim_module import ESIM, align, pool
from spacy_elmo.tasks.pairs import make_pair

from components import concat_input, embed, listener
from gradients import check_gradients, randomize, softmax

TEXTS = [
    ("A man eats .", "A man sleeps .", "contradiction"),
    ("A man eats .", "A person eats .", "entailment"),
    ("The dog runs to Maria .", "The dog sleeps .", "contradiction"),
    ("The dog runs to Maria .", "An animal runs .", "entailment"),
    ("Tom has a car", "Tom drives .", "neutral"),
    ("The dog sleeps .", "It dreams of Maria .", "neutral"),
]
LABELS = ("contradiction", "entailment", "neutral")
WITHOUT_ELMO = {
    "@architectures": "spacy.Tok2Vec.v2",
    "embed": embed(16),
    "encode": {
        "@architectures": "spacy.MaxoutWindowEncoder.v2",
        "width": 16,
        "depth": 1,
        "window_size": 1,
        "maxout_pieces": 2,
    },
}


def textpair(tok2vec, output=None, **settings):
    """The config of a small component."""
    esim = {"width": 16, "dropout": 0.0, "output_tok2vec": output, **settings}
    return {"model": {"@architectures": "spacy-elmo.ESIM.v1", "tok2vec": tok2vec, **esim}}


def pairs(nlp):
    return [make_pair(nlp, first, second) for first, second, _ in TEXTS]


def examples(nlp):
    cats = [{name: float(name == label) for name in LABELS} for _, _, label in TEXTS]
    return [Example.from_dict(doc, {"cats": one}) for doc, one in zip(pairs(nlp), cats)]


def train(nlp, steps=60):
    data = examples(nlp)
    optimizer = nlp.initialize(lambda: data)
    optimizer.learn_rate = 0.01
    for _ in range(steps):
        nlp.update(data, sgd=optimizer)
    return data


@pytest.fixture
def make(make_nlp):
    """Makes a pipeline with the component, and before it `elmo` if need be."""

    def make(tok2vec, output=None, *, elmo=True, **settings):
        nlp = make_nlp() if elmo else spacy.blank("en")
        nlp.add_pipe("elmo_textpair", config=textpair(tok2vec, output, **settings))
        return nlp

    return make


@pytest.fixture(scope="module")
def trained():
    """A pipeline without ELMo that knows its training pairs."""
    spacy.util.fix_random_seed(0)
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo_textpair", config=textpair(WITHOUT_ELMO))
    train(nlp)
    return nlp


def predicted(nlp, **settings):
    docs = nlp.pipe(pairs(nlp), **settings)
    return np.array([[doc.cats[label] for label in LABELS] for doc in docs])


def labels_of(nlp, **settings):
    return [LABELS[i] for i in predicted(nlp, **settings).argmax(axis=1)]


GOLD = [label for _, _, label in TEXTS]


@pytest.mark.parametrize(
    ("tok2vec", "output"),
    [
        (listener(layer_norm=True), None),
        (concat_input(), None),
        (WITHOUT_ELMO, listener(layer_norm=True)),
        (concat_input(), listener(layer_norm=True)),
        (WITHOUT_ELMO, None),
    ],
)
def test_it_learns(make, tok2vec, output):
    spacy.util.fix_random_seed(0)
    nlp = make(tok2vec, output)
    scores = nlp.evaluate(train(nlp))
    assert scores["cats_acc"] == scores["cats_macro_f"] == 1.0
    assert labels_of(nlp) == GOLD
    places = [
        mix.attrs["place"]
        for mix in nlp.get_pipe("elmo_textpair").model.walk()
        if mix.name == "elmo_scalar_mix"
    ]
    assert ("output" in places) == (output is not None)


def test_it_listens_to_a_tok2vec():
    spacy.util.fix_random_seed(0)
    nlp = spacy.blank("en")
    nlp.add_pipe("tok2vec", config={"model": WITHOUT_ELMO})
    shared = {"@architectures": "spacy.Tok2VecListener.v1", "width": 16}
    nlp.add_pipe("elmo_textpair", config=textpair(shared))
    train(nlp, steps=1)
    untrained = nlp.get_pipe("tok2vec").model.to_bytes()
    assert nlp.evaluate(train(nlp))["cats_acc"] == 1.0
    assert nlp.get_pipe("tok2vec").model.to_bytes() != untrained


@pytest.mark.parametrize("segmenter", ["spacy-elmo.sentences.v2", "spacy-elmo.spans.v1"])
def test_the_language_model_reads_each_text_once_and_alone(make_nlp, computed, segmenter):
    nlp = make_nlp(segmenter={"@segmenters": segmenter})
    nlp.add_pipe("elmo_textpair", config=textpair(listener(), listener()))
    nlp.initialize(lambda: examples(nlp))
    computed.clear()
    nlp(make_pair(nlp, "Tom has a car", "He drives ."))
    assert sorted(computed) == [("He", "drives", "."), ("Tom", "has", "a", "car")]


@pytest.mark.parametrize("max_batch_tokens", [1, 20])
def test_batches_change_nothing(trained, max_batch_tokens):
    expected = predicted(trained)
    attrs = trained.get_pipe("elmo_textpair").model.attrs
    kept, attrs["max_batch_tokens"] = attrs["max_batch_tokens"], max_batch_tokens
    try:
        np.testing.assert_allclose(predicted(trained), expected, atol=1e-6)
    finally:
        attrs["max_batch_tokens"] = kept


# The model


def test_attention_and_pooling_are_the_formulas():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 5, 4)), rng.normal(size=(2, 5, 4))
    lengths = [(5, 3), (2, 0)]
    masks = [torch.tensor([[t < pair[i] for t in range(5)] for pair in lengths]) for i in (0, 1)]
    found = [x.numpy() for x in align(torch.from_numpy(a), torch.from_numpy(b), *masks)]
    for n, (n_a, n_b) in enumerate(lengths):
        scores = a[n, :n_a] @ b[n, :n_b].T
        if n_b:
            np.testing.assert_allclose(found[0][n, :n_a], softmax(scores) @ b[n, :n_b])
            np.testing.assert_allclose(found[1][n, :n_b], softmax(scores.T) @ a[n, :n_a])
        else:
            assert not found[0][n].any()
    pooled = pool(torch.from_numpy(b), masks[1]).numpy()
    np.testing.assert_allclose(pooled[0], [*b[0, :3].mean(0), *b[0, :3].max(0)])
    assert not pooled[1].any()


def test_the_module_is_the_formulas():
    """Each pair by itself; the recurrent layers are PyTorch's."""
    torch.manual_seed(0)
    module = ESIM(nI=3, nE=2, nO=3, width=4, dropout=0.5).double().eval()
    texts = [[torch.randn(n, 3).double() for n in lengths] for lengths in ((4, 1), (2, 5))]
    beside = [[torch.randn(len(x), 2).double() for x in one] for one in texts]
    for i, logits in enumerate(module(*texts, *beside)):
        h = [
            np.concatenate([run(module.encode, one[i]), more[i].numpy()], axis=1)
            for one, more in zip(texts, beside)
        ]
        scores = h[0] @ h[1].T
        found = [softmax(scores) @ h[1], softmax(scores.T) @ h[0]]
        pooled = []
        for x, y in zip(h, found):
            m = linear(module.project, np.concatenate([x, y, x - y, x * y], axis=1))
            v = run(module.compose, torch.from_numpy(np.maximum(m, 0.0)))
            pooled += [v.mean(0), v.max(0)]
        hidden = np.tanh(linear(module.hidden, np.concatenate(pooled)))
        np.testing.assert_allclose(logits.detach(), linear(module.output, hidden), rtol=1e-6)


def run(layer, x):
    with torch.no_grad():
        return layer.rnn(x[None])[0][0].numpy()


def linear(layer, x):
    weights = layer.state_dict()
    return x @ weights["weight"].numpy().T + weights["bias"].numpy()


@pytest.mark.parametrize("max_batch_tokens", [8, 4096])
def test_gradients(make, max_batch_tokens):
    """Of the negative log-likelihood, with respect to all weights."""
    spacy.util.fix_random_seed(0)
    both = (listener(layer_norm=True), listener(layer_norm=True))
    nlp = make(*both, max_batch_tokens=max_batch_tokens)
    data = examples(nlp)
    nlp.initialize(lambda: data)
    pipe = nlp.get_pipe("elmo_textpair")
    randomize(pipe.model)
    pipe.update(data)
    gold = [LABELS.index(label) for label in GOLD]

    docs = [nlp.get_pipe("elmo")(example.predicted) for example in data]

    def loss():
        probabilities = pipe.model.predict(docs).astype("float64")
        return -np.log(probabilities[range(len(gold)), gold]).sum()

    check_gradients(pipe.model, loss)


# What is kept


def test_disk_bytes_and_pickle(trained, tmp_path):
    expected = predicted(trained)
    trained.to_disk(tmp_path / "pipeline")
    copy = spacy.blank("en")
    copy.add_pipe("elmo_textpair", config=textpair(WITHOUT_ELMO))
    for loaded in (
        spacy.load(tmp_path / "pipeline"),
        copy.from_bytes(trained.to_bytes()),
        pickle.loads(pickle.dumps(trained)),
    ):
        assert loaded.get_pipe("elmo_textpair").labels == LABELS
        np.testing.assert_array_equal(predicted(loaded), expected)
        assert loaded.evaluate(examples(loaded))["cats_acc"] == 1.0


def test_processes(trained):
    assert labels_of(trained, n_process=2, batch_size=2) == GOLD


@pytest.mark.parametrize("both", [False, True])
def test_replaced_listeners(make, tmp_path, both):
    spacy.util.fix_random_seed(0)
    nlp = make(concat_input(), listener(layer_norm=True) if both else None)
    train(nlp, steps=10)
    expected = predicted(nlp)
    places = ["model.tok2vec.embed.elmo", *(["model.output_tok2vec"] if both else [])]
    nlp.replace_listeners("elmo", "elmo_textpair", places)
    nlp.to_disk(tmp_path / "pipeline")
    loaded = spacy.load(tmp_path / "pipeline", exclude=["elmo"])
    np.testing.assert_allclose(predicted(loaded), expected, atol=1e-6)


# Examples


def test_docs_that_are_no_pairs(trained):
    plain = trained.make_doc("A man eats .")
    with pytest.raises(ValueError, match=r"'A man eats \.'.*'premise'"):
        trained(plain)


def test_an_empty_text_has_a_label(trained):
    doc = trained(make_pair(trained, "", "A man ."))
    assert sum(doc.cats.values()) == pytest.approx(1.0)
    assert list(trained.pipe([])) == []


def test_unknown_labels_are_named(trained):
    wrong = Example.from_dict(make_pair(trained, "A man .", "He ."), {"cats": {"maybe": 1.0}})
    with pytest.raises(ValueError, match=r"'A man \. He \.' has the label 'maybe'") as error:
        trained.update([wrong])
    assert "contradiction, entailment, neutral" in str(error.value)


def test_docs_without_labels_teach_nothing(trained):
    doc = make_pair(trained, "A man .", "He .")
    plain = Example(doc, make_pair(trained, "A man .", "He ."))
    data = [plain, *examples(trained)[:2]]
    pipe = trained.get_pipe("elmo_textpair")
    scores = pipe.predict([example.predicted for example in data])
    _, d_scores = pipe.get_loss(data, scores)
    assert not d_scores[0].any()
    assert d_scores[1].any()
    assert trained.evaluate([plain])["cats_acc"] is None


def test_accuracy_counts_docs(trained):
    """2 of 6 gold labels changed: 4 of 6 are right."""
    data = examples(trained)
    for example in data[:2]:
        example.reference.cats = {"neutral": 1.0}
    scores = trained.evaluate(data)
    assert scores["cats_acc"] == pytest.approx(4 / 6)
    assert scores["cats_micro_f"] == pytest.approx(4 / 6)


@pytest.mark.parametrize(
    ("setting", "named"),
    [
        ({"groups": ["premise", "premise"]}, "two different names"),
        ({"groups": ["premise"]}, "two different names"),
        ({"width": 5}, "got 5"),
        ({"dropout": 1.0}, "got 1.0"),
        ({"max_batch_tokens": 0}, "got 0"),
    ],
)
def test_impossible_settings(make, setting, named):
    with pytest.raises(ValueError, match=named):
        make(WITHOUT_ELMO, elmo=False, **setting)
