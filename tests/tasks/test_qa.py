"""The component `elmo_qa`: it learns, with any tok2vec; what it has learned is kept; what is wrong
with gold answers is said."""

import json
import pickle
import subprocess
import sys
import zipfile

import numpy as np
import pytest
import spacy
import torch
from spacy.cli.package import package
from spacy.tokens import DocBin
from spacy.training import Example
from thinc.api import Adam

from spacy_elmo.tasks.bidaf_module import BiDAFSelfAttention
from spacy_elmo.tasks.pairs import QUESTION, copy_pair, make_pair
from spacy_elmo.tasks.qa import best_span
from spacy_elmo.tasks.qa_corpus import make_question

from commands import run_elmo
from components import concat_input, embed, listener
from gradients import check_gradients, randomize, softmax

TEXTS = [
    ("Who gave Tom a book ?", "Maria gave Tom a book . It rained .", ["Maria"]),
    ("What was sold in Rome ?", "The firm sold a car in Rome .", ["a car", "car"]),
    ("Where did she live ?", "She lived in Paris for years .", ["Paris"]),
    ("Who sleeps ?", "The old dog sleeps , and Anna runs .", ["The old dog"]),
]
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


def qa(tok2vec, output=None, *, max_answer_tokens=17, **settings):
    """The config of a small component."""
    sizes = {"width": 16, "dropout": 0.0, "output_tok2vec": output, **settings}
    model = {"@architectures": "spacy-elmo.BiDAFSelfAttention.v1", "tok2vec": tok2vec, **sizes}
    return {"model": model, "max_answer_tokens": max_answer_tokens}


def gold(nlp, question, context, texts):
    answers = [{"text": text, "answer_start": context.index(text)} for text in texts]
    return make_question(nlp, question, context, answers)


def examples(nlp):
    docs = [gold(nlp, *text) for text in TEXTS]
    return [Example(copy_pair(doc, QUESTION), doc) for doc in docs]


def train(nlp, steps=80):
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
        nlp.add_pipe("elmo_qa", config=qa(tok2vec, output, **settings))
        return nlp

    return make


@pytest.fixture(scope="module")
def trained():
    """A pipeline without ELMo that knows its training questions."""
    spacy.util.fix_random_seed(0)
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo_qa", config=qa(WITHOUT_ELMO))
    train(nlp)
    return nlp


def answers(nlp, **settings):
    docs = nlp.pipe((example.predicted for example in examples(nlp)), **settings)
    return [[str(span) for span in doc.spans["answer"]] for doc in docs]


GOLD = [["Maria"], ["a car"], ["Paris"], ["The old dog"]]


def right(found):
    return all(one[0] in text[2] for one, text in zip(found, TEXTS))


@pytest.mark.parametrize(
    ("tok2vec", "output"),
    [
        (listener(layer_norm=True), None),
        (concat_input(), listener(layer_norm=True)),
        (WITHOUT_ELMO, None),
    ],
)
def test_it_learns(make, tok2vec, output):
    spacy.util.fix_random_seed(0)
    nlp = make(tok2vec, output)
    scores = nlp.evaluate(train(nlp))
    assert scores["qa_exact"] == scores["qa_f1"] == 1.0
    assert right(answers(nlp))


def test_the_language_model_reads_each_text_once_and_alone(make_nlp, computed):
    split = {"@segmenters": "spacy-elmo.spans.v1", "sentences": False}
    nlp = make_nlp(segmenter=split)
    nlp.add_pipe("elmo_qa", config=qa(listener(), listener()))
    nlp.initialize(lambda: examples(nlp))
    computed.clear()
    nlp(make_pair(nlp, "Who ran", "Anna ran . Tom did not .", QUESTION))
    assert sorted(map(len, computed)) == [2, 7]


# The model


def test_the_module_is_the_formulas():
    """Each pair by itself; the recurrent layers are PyTorch's."""
    torch.manual_seed(0)
    module = BiDAFSelfAttention(nI=3, nE=2, width=4, dropout=0.5).double().eval()
    texts = [[torch.randn(n, 3).double() for n in lengths] for lengths in ((4, 1), (2, 6))]
    beside = [[torch.randn(len(x), 2).double() for x in one] for one in texts]
    for i, found in enumerate(module(*texts, *beside)):
        q, h = [
            np.concatenate([run(module.encode, one[i]), more[i].numpy()], axis=1)
            for one, more in zip(texts, beside)
        ]
        scores = trilinear(module.attention, h, q)
        seen = softmax(scores) @ q
        from_question = softmax(scores.max(axis=1)) @ h
        merged = np.concatenate([h, seen, h * seen, from_question * seen], axis=1)
        x = np.maximum(linear(module.merge, merged), 0.0)
        g = run(module.encode_merged, torch.from_numpy(x))
        scores = trilinear(module.self_attention, g, g)
        np.fill_diagonal(scores, -1e30)
        seen = softmax(scores) @ g
        both = np.concatenate([g, seen, g * seen], axis=1)
        x = x + np.maximum(linear(module.merge_self, both), 0.0)
        starts = run(module.encode_start, torch.from_numpy(x))
        ends = run(module.encode_end, torch.from_numpy(np.concatenate([x, starts], axis=1)))
        wanted = np.concatenate([linear(module.start, starts), linear(module.end, ends)], axis=1)
        np.testing.assert_allclose(found.detach(), wanted, rtol=1e-6)


def run(layer, x):
    with torch.no_grad():
        return layer.rnn(x[None])[0][0].numpy()


def linear(layer, x):
    weights = layer.state_dict()
    return x @ weights["weight"].numpy().T + weights["bias"].numpy()


def trilinear(layer, h, q):
    first, second, both = layer.weight.detach().numpy()
    return np.array([[first @ one + second @ two + both @ (one * two) for two in q] for one in h])


def test_a_context_of_one_token(trained):
    """It sees no other token."""
    doc = trained(make_pair(trained, "Who ?", "Anna", QUESTION))
    assert [str(span) for span in doc.spans["answer"]] == ["Anna"]
    assert np.isfinite(doc.spans["answer"].attrs["scores"][0])


@pytest.mark.parametrize(("window", "overlap"), [(600, 200), (4, 2)])
def test_gradients(make, window, overlap):
    """Of the negative log-likelihood, with respect to all weights; windows compete."""
    spacy.util.fix_random_seed(0)
    both = (listener(layer_norm=True), listener(layer_norm=True))
    nlp = make(*both, window=window, overlap=overlap, max_batch_tokens=30)
    data = examples(nlp)
    nlp.initialize(lambda: data)
    pipe = nlp.get_pipe("elmo_qa")
    randomize(pipe.model)
    told = pipe.update(data)["elmo_qa"]
    docs = [nlp.get_pipe("elmo")(example.predicted) for example in data]

    def loss():
        total = 0.0
        for scores, example in zip(pipe.model.predict(docs), data):
            start = example.reference.spans["context"][0].start
            probabilities = softmax(scores.astype("float64"), axis=0)
            spans = example.reference.spans["answer"]
            total -= np.log(sum(probabilities[i, 0] for i in {s.start - start for s in spans}))
            total -= np.log(sum(probabilities[i, 1] for i in {s.end - 1 - start for s in spans}))
        return total

    assert loss() == pytest.approx(told, rel=1e-4)
    check_gradients(pipe.model, loss)


def test_the_best_span_is_that_of_all():
    rng = np.random.default_rng(0)
    for n_tokens in (1, 2, 9, 30):
        scores = rng.normal(size=(n_tokens, 2)).astype("float32")
        for most in (1, 3, 17):
            spans = {
                (i, j + 1): float(scores[i, 0] + scores[j, 1])
                for i in range(n_tokens)
                for j in range(i, min(i + most, n_tokens))
            }
            found = best_span(scores, most)
            assert spans[found.start, found.end] == found.score == max(spans.values())


def test_long_contexts_are_read_in_windows(trained, monkeypatch):
    """No attention is larger than a window; all tokens of the context compete."""
    sizes = []
    forward = BiDAFSelfAttention.forward

    def count(self, first, second, *beside):
        sizes.append((len(second), max(map(len, second))))
        return forward(self, first, second, *beside)

    monkeypatch.setattr(BiDAFSelfAttention, "forward", count)
    context = " ".join(["It rained ."] * 2000 + ["The old dog sleeps , and Anna runs ."])
    doc = trained(make_pair(trained, "Who sleeps ?", context, QUESTION))
    assert max(longest for _, longest in sizes) == 600
    assert max(n * longest for n, longest in sizes) <= 4096
    assert sum(n for n, _ in sizes) == 15
    assert len(doc.spans["answer"]) == 1


# What is kept


def test_disk_bytes_and_pickle(trained, tmp_path):
    expected = answers(trained)
    assert right(expected)
    trained.to_disk(tmp_path / "pipeline")
    copy = spacy.blank("en")
    copy.add_pipe("elmo_qa", config=qa(WITHOUT_ELMO))
    for loaded in (
        spacy.load(tmp_path / "pipeline"),
        copy.from_bytes(trained.to_bytes()),
        pickle.loads(pickle.dumps(trained)),
    ):
        assert answers(loaded) == expected
        assert loaded.evaluate(examples(loaded))["qa_exact"] == 1.0


def test_package_and_processes(trained, tmp_path):
    trained.to_disk(tmp_path / "pipeline")
    kinds = {"create_sdist": False, "create_wheel": True}
    package(tmp_path / "pipeline", tmp_path, version="1.0.0", **kinds)
    (wheel,) = (tmp_path / "en_pipeline-1.0.0" / "dist").glob("*.whl")
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path / 'site')!r}); import en_pipeline;"
        "nlp = en_pipeline.load(); from spacy_elmo.tasks.pairs import QUESTION, make_pair;"
        f"docs = [make_pair(nlp, *texts, QUESTION) for texts in {[text[:2] for text in TEXTS]!r}];"
        "print([doc.spans['answer'][0].text for doc in nlp.pipe(docs, n_process=2, batch_size=2)])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == str([one for (one,) in answers(trained)]), done.stderr


def test_doc_bin_keeps_answers(trained):
    doc = trained(examples(trained)[1].predicted)
    (loaded,) = DocBin(docs=[doc]).from_bytes(DocBin(docs=[doc]).to_bytes()).get_docs(doc.vocab)
    assert str(loaded.spans["answer"]) == str(doc.spans["answer"])
    assert loaded.spans["answer"].attrs == doc.spans["answer"].attrs


def test_replaced_listeners(make, tmp_path):
    spacy.util.fix_random_seed(0)
    nlp = make(listener(layer_norm=True), listener())
    train(nlp, steps=10)
    expected = answers(nlp)
    nlp.replace_listeners("elmo", "elmo_qa", ["model.tok2vec", "model.output_tok2vec"])
    nlp.to_disk(tmp_path / "pipeline")
    assert answers(spacy.load(tmp_path / "pipeline", exclude=["elmo"])) == expected


def test_averages_of_the_optimizer_answer(make):
    """`use_averages`, which the paper has, too: in an evaluation the averages count."""
    spacy.util.fix_random_seed(0)
    nlp = make(WITHOUT_ELMO, elmo=False)
    data = examples(nlp)
    nlp.initialize(lambda: data)
    optimizer = Adam(0.01, use_averages=True)
    for _ in range(5):
        nlp.update(data, sgd=optimizer)
    pipe = nlp.get_pipe("elmo_qa")
    before = [values.copy() for values in pipe.model.predict([data[0].predicted])]
    with nlp.use_params(optimizer.averages):
        averaged = [values.copy() for values in pipe.model.predict([data[0].predicted])]
    assert np.abs(averaged[0] - before[0]).max() > 1e-3
    np.testing.assert_array_equal(pipe.model.predict([data[0].predicted])[0], before[0])


# Gold answers


def test_answers_outside_of_the_context_are_named(trained):
    doc = gold(trained, *TEXTS[0])
    doc.spans["answer"] = [doc[1:3]]
    with pytest.raises(ValueError, match=r"'gave Tom' \(1, 3\).*'Who gave Tom.*\(6, 15\)"):
        trained.update([Example(copy_pair(doc, QUESTION), doc)])


def test_docs_that_are_no_pairs(trained):
    with pytest.raises(ValueError, match=r"'Who ran \?'.*'question'"):
        trained("Who ran ?")
    with pytest.raises(ValueError, match=r"'Who ran \?'.*'question'"):
        trained.update([Example(trained.make_doc("Who ran ?"), gold(trained, *TEXTS[0]))])


def test_docs_without_answers_teach_nothing(trained):
    doc = make_pair(trained, "Who ?", "Anna ran .", QUESTION)
    plain = Example(doc, doc.copy())
    before = trained.get_pipe("elmo_qa").model.to_bytes()
    assert trained.get_pipe("elmo_qa").update([plain])["elmo_qa"] == 0.0
    assert trained.get_pipe("elmo_qa").model.to_bytes() == before
    assert trained.evaluate([plain])["qa_f1"] is None


def test_an_empty_context_has_no_answer(trained):
    doc = trained(make_pair(trained, "Who ?", "", QUESTION))
    assert len(doc.spans["answer"]) == 0
    assert list(trained.pipe([])) == []


def test_other_tokens_than_the_reference(trained):
    """Answers go to the predicted Doc's tokens."""
    reference = make_pair(trained, "Who ?", ["It", "can", "not", "be", "Anna", "."], QUESTION)
    reference.spans["answer"] = [reference[6:7]]
    predicted = make_pair(trained, "Who ?", ["It", "can", "not", "be", "An", "na", "."], QUESTION)
    for token in (2, 3, 4):
        assert reference[token].text == predicted[token].text
    words = [token.text for token in predicted]
    spaces = [bool(token.whitespace_) for token in predicted]
    spaces[6] = False
    glued = spacy.tokens.Doc(trained.vocab, words=words, spaces=spaces)
    for group in QUESTION:
        span = predicted.spans[group][0]
        glued.spans[group] = [glued[span.start : span.end]]
    pipe = trained.get_pipe("elmo_qa")
    assert pipe._gold(Example(glued, reference)) == [(4, 6)]


@pytest.mark.parametrize(
    ("setting", "named"),
    [
        ({"groups": ["question"]}, "two different names"),
        ({"width": 0}, "got 0"),
        ({"window": 10, "overlap": 10}, "overlap"),
        ({"max_answer_tokens": 0}, "max_answer_tokens"),
    ],
)
def test_impossible_settings(make, setting, named):
    with pytest.raises(ValueError, match=named):
        make(WITHOUT_ELMO, elmo=False, **setting)


# The command


def test_ask(trained, tmp_path):
    trained.to_disk(tmp_path / "pipeline")
    (tmp_path / "text.txt").write_text(f"  {TEXTS[0][1]}\n", "utf8")
    where = (tmp_path / "pipeline", tmp_path / "text.txt", TEXTS[0][0])
    printed = run_elmo("ask", *where).output
    assert "Maria" in printed
    found = json.loads(run_elmo("ask", *where, "--json").output)
    assert set(found) == {"answer", "start_char", "end_char", "score"}
    text = (tmp_path / "text.txt").read_text("utf8")
    assert text[found["start_char"] : found["end_char"]] == found["answer"]
    (tmp_path / "text.txt").write_text("")
    assert "is empty" in run_elmo("ask", *where, status=1).output
    spacy.blank("en").to_disk(tmp_path / "pipeline")
    assert "no elmo_qa" in run_elmo("ask", *where, status=1).output
