"""All components of `spacy_elmo.tasks` learn with any tok2vec and keep what they learned.

Tokens without annotation teach nothing, and impossible settings are named.
"""

import pickle
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import spacy
import torch
from spacy.tokens import Doc, DocBin, Span
from spacy.training import Example
from thinc.api import Model

from spacy_elmo.embedding.segmenters import Segment
from spacy_elmo.layers.scalar_mix import mixes_of
from spacy_elmo.tasks.coref.clusters import gold_clusters, write_clusters
from spacy_elmo.tasks.coref.scorer import score_coref
from spacy_elmo.tasks.crf.gold import gold_spans
from spacy_elmo.tasks.srl.frames import gold_frames
from spacy_elmo.tasks.srl.model import InstanceScorer

from helpers.calls import note_calls
from helpers.components import concat_input, embed, listener
from helpers.gradients import check_gradients, parameters, randomize
from helpers.models import check_refused
from helpers.tasks import LSTM, RNN, TASKS, without_elmo

CRF, SRL, COREF, QA, TEXTPAIR = TASKS


@pytest.fixture(params=TASKS, ids=lambda task: task.factory)
def task(request):
    return request.param


def bcn(tok2vec, **settings):
    sizes = {"hidden_width": 8, "maxout_widths": [12, 6], "dropout": 0.0, **settings}
    return {"model": {"@architectures": "spacy-elmo.BCN.v1", "tok2vec": tok2vec, **sizes}}


def review_examples(nlp):
    texts = {"a fine and moving film .": 1, "not a fine film .": 0, "moving !": 1, "dull .": 0}
    return [
        Example.from_dict(nlp.make_doc(text), {"cats": {"GOOD": good, "BAD": 1 - good}})
        for text, good in texts.items()
    ]


BCN = replace(TEXTPAIR, factory="textcat", examples=review_examples, steps=100)
BCN = replace(BCN, config=bcn, tok2vec=embed(8), scores=("cats_macro_f",))
several = partial(bcn, exclusive_classes=False)
MULTILABEL = replace(BCN, factory="textcat_multilabel", config=several)


INPUT = listener(layer_norm=True)
TOK2VEC, EMBED, CONCAT = "model.tok2vec", "model.tok2vec.embed", "model.tok2vec.embed.elmo"
BOTH = {"output_tok2vec": INPUT}
OUTPUT = "model.output_tok2vec"


@pytest.mark.training
@pytest.mark.pipelines
@pytest.mark.parametrize(
    ("task", "tok2vec", "output", "places"),
    [
        (CRF, {**without_elmo(RNN), "embed": INPUT}, {}, [EMBED]),
        (CRF, concat_input(), {}, [CONCAT]),
        (SRL, INPUT, {}, [TOK2VEC]),
        (COREF, concat_input(), {}, [CONCAT]),
        (QA, INPUT, {}, [TOK2VEC]),
        (QA, concat_input(), BOTH, [CONCAT, OUTPUT]),
        (TEXTPAIR, TEXTPAIR.tok2vec, BOTH, [OUTPUT]),
        (TEXTPAIR, concat_input(), BOTH, [CONCAT, OUTPUT]),
        (BCN, INPUT, {"elmo": INPUT}, [TOK2VEC, "model.elmo"]),
        (MULTILABEL, INPUT, {"elmo": INPUT}, [TOK2VEC, "model.elmo"]),
    ],
    ids=lambda value: getattr(value, "factory", None),
)
def test_a_component_learns_from_elmo(make_nlp, tmp_path, task, tok2vec, output, places):
    """Predictions stay the same after its listeners are replaced by the language model."""
    nlp = task.add(make_nlp(), tok2vec, **output)
    task.train(nlp)
    found = task.found_by(nlp)
    assert set(task.main_scores(nlp)) == {1.0}
    assert task.all_right(nlp, found)
    mixes = [one for one in nlp.get_pipe(task.factory).model.walk() if "scalar_mix" in one.name]
    assert len(mixes) == len(places)
    assert ("output" in {mix.attrs["place"] for mix in mixes}) == bool(output)
    nlp.replace_listeners("elmo", task.factory, places)
    nlp.to_disk(tmp_path / "pipeline")
    loaded = spacy.load(tmp_path / "pipeline", exclude=["elmo"])
    assert task.all_close(task.found_by(loaded), found)


@pytest.mark.training
@pytest.mark.pipelines
def test_a_component_learns_with_its_default_settings(task, make_nlp):
    nlp = make_nlp()
    nlp.add_pipe(task.factory)
    assert nlp.config["training"]["score_weights"][task.scores[0]] == 1.0
    data = task.examples(nlp)
    optimizer = nlp.initialize(lambda: data)
    losses = [nlp.update(data, sgd=optimizer)[task.factory] for _ in range(20)]
    assert np.isfinite(losses).all()
    # By default a pair's model drops half of its inputs: so few steps tell nothing.
    assert losses[-1] < 0.95 * losses[0] or task is TEXTPAIR


@pytest.mark.training
@pytest.mark.pipelines
def test_a_component_listens_to_a_tok2vec(task):
    """The tok2vec sees all Docs of a batch, also those without annotation.

    spaCy's listener refuses other Docs than it was sent.
    """
    nlp = spacy.blank("en")
    nlp.add_pipe("tok2vec", config={"model": task.tok2vec})
    task.add(nlp, {"@architectures": "spacy.Tok2VecListener.v1", "width": 16})
    plain = Example(task.docs(nlp)[0], task.docs(nlp)[0])
    data = [plain, *task.examples(nlp)]
    optimizer = nlp.initialize(lambda: data)
    untrained = nlp.get_pipe("tok2vec").model.to_bytes()
    for _ in range(3):  # The first leads to no gradient: the weights of the scores are zeros.
        nlp.update(data, sgd=optimizer)
    assert nlp.get_pipe("tok2vec").model.to_bytes() != untrained


@pytest.mark.training
@pytest.mark.pipelines
def test_a_corpus_without_examples_is_named(task, make):
    # elmo_textpair is spaCy's textcat there.
    named = "E930" if task is TEXTPAIR else f"'{task.factory}' got no training examples.*Corpus.v1"
    with pytest.raises((ValueError, TypeError), match=named):
        make(task).initialize(list)


@pytest.mark.training
@pytest.mark.pipelines
def test_the_language_model_reads_a_training_sentence_once(task, make, computed):
    """Each token is read once in any batches.

    The outputs of a frozen model are kept for the next epoch.
    """
    small = {} if task is COREF else {"max_batch_tokens": 8}
    nlp = make(task, listener(), elmo=True, **small)
    data = task.examples(nlp)
    optimizer = nlp.initialize(lambda: data)
    nlp.update(data, sgd=optimizer)
    assert computed
    computed.clear()
    nlp.update(data, sgd=optimizer)
    assert computed == []


SENTENCES = {"@segmenters": "spacy-elmo.sentences.v2"}
SPANS = {"@segmenters": "spacy-elmo.spans.v1"}


@pytest.mark.training
@pytest.mark.pipelines
@pytest.mark.parametrize(
    ("task", "segmenter", "texts"),
    [
        (COREF, SENTENCES, ["Maria saw Tom .", "She greeted him ."]),
        (QA, {**SPANS, "sentences": False}, [*QA.texts[0][:2]]),
        (TEXTPAIR, SENTENCES, ["A man eats .", "A man sleeps ."]),
        (TEXTPAIR, SPANS, ["A man eats .", "A man sleeps ."]),
    ],
    ids=lambda value: getattr(value, "factory", None),
)
def test_the_language_model_reads_each_text_once_and_by_itself(
    make_nlp, computed, task, segmenter, texts
):
    output = {"output_tok2vec": listener()} if task in (QA, TEXTPAIR) else {}
    nlp = task.add(make_nlp(segmenter=segmenter), listener(), **output)
    nlp.initialize(lambda: task.examples(nlp))
    computed.clear()
    nlp(task.docs(nlp)[0])
    assert sorted(map(" ".join, computed)) == sorted(texts)


@pytest.mark.training
@pytest.mark.parametrize("task", [SRL, COREF], ids=lambda task: task.factory)
def test_a_segmenter_that_loses_tokens_is_an_error(task, know, monkeypatch):
    nlp = know(task)
    monkeypatch.setattr(nlp.get_pipe(task.factory), "segmenter", lambda doc: [Segment(0, 1, 0, 1)])
    check_refused(lambda: nlp(task.docs(nlp)[0]), "segments that keep only 1 of")


# What is kept


@pytest.mark.training
@pytest.mark.parametrize("task", [*TASKS, BCN, MULTILABEL], ids=lambda task: task.factory)
def test_disk_bytes_and_pickle_keep_the_component(task, know, tmp_path):
    nlp = know(task)
    found = task.found_by(nlp)
    assert task.all_right(nlp, found)
    nlp.to_disk(tmp_path / "pipeline")
    for loaded in (
        spacy.load(tmp_path / "pipeline"),
        task.add(spacy.blank("en")).from_bytes(nlp.to_bytes()),
        pickle.loads(pickle.dumps(nlp)),
    ):
        pipes = [one.get_pipe(task.factory) for one in (nlp, loaded)]
        assert getattr(pipes[0], "labels", None) == getattr(pipes[1], "labels", None)
        assert task.found_by(loaded) == found
        assert set(task.main_scores(loaded)) == {1.0}


@pytest.mark.training
def test_a_doc_bin_keeps_the_predictions(task, know):
    nlp = know(task)
    docs = list(nlp.pipe(task.docs(nlp)))
    kept = DocBin().from_bytes(DocBin(docs=docs).to_bytes()).get_docs(nlp.vocab)
    for doc, one in zip(docs, kept, strict=True):
        assert task.is_close(task.found(one), task.found(doc))
        attrs = [{key: group.attrs for key, group in each.spans.items()} for each in (doc, one)]
        assert attrs[0] == attrs[1]


@pytest.mark.training
@pytest.mark.processes
def test_processes_predict_the_same(task, know):
    nlp = know(task)
    assert task.all_right(nlp, task.found_by(nlp, n_process=2, batch_size=2))


# Docs of all kinds


@pytest.mark.pipelines
def test_a_component_that_is_not_initialized_is_named(task, make, tmp_path):
    """The component is named with and without labels. It can be moved and saved before."""
    nlp = make(task)
    pipe = nlp.get_pipe(task.factory)
    pipe.model.to_cpu()
    nlp.to_disk(tmp_path)
    for n_labels in range(2 if task in (CRF, SRL) else 1):
        if n_labels:
            pipe.add_label("PER")
        for use in (lambda: nlp(task.docs(nlp)[0]), lambda: pipe.update(task.examples(nlp))):
            with pytest.raises(ValueError, match=rf"\[E(109|143)\].*'{task.factory}'"):
                use()
    assert spacy.load(tmp_path).pipe_names == nlp.pipe_names


@pytest.mark.training
def test_empty_docs_change_nothing_for_others(task, know):
    nlp = know(task)
    assert list(nlp.pipe([])) == []
    empty = [nlp.make_doc("") for _ in range(2)]
    for doc in empty:
        for key in task.docs(nlp)[0].spans:
            doc.spans[key] = [doc[0:0]]
    first, *docs, last = nlp.pipe([empty[0], *task.docs(nlp), empty[1]])
    assert task.all_close([task.found(doc) for doc in docs], task.found_by(nlp))
    if task is TEXTPAIR:
        assert sum(first.cats.values()) == pytest.approx(1.0)
    else:
        assert not task.found(first) and not task.found(last)


@pytest.mark.training
@pytest.mark.parametrize("max_batch_tokens", [1, 10])
@pytest.mark.parametrize("task", [CRF, SRL, QA, TEXTPAIR], ids=lambda task: task.factory)
def test_batches_change_nothing(task, know, monkeypatch, max_batch_tokens):
    """The number of tokens at a time is at most the setting, or one text.

    The tests of QA and TEXTPAIR count their padding.
    """
    nlp = know(task)
    found = task.found_by(nlp)
    pipe = nlp.get_pipe(task.factory)
    if task in (CRF, SRL):
        monkeypatch.setattr(pipe, "max_batch_tokens", max_batch_tokens)
    else:
        monkeypatch.setitem(pipe.model.attrs, "max_batch_tokens", max_batch_tokens)
    places = {CRF: (Model, "predict"), SRL: (InstanceScorer, "__call__")}
    read = note_calls(monkeypatch, *places[task], lambda _, texts: texts) if task in places else []
    assert task.all_close(task.found_by(nlp), found)
    assert bool(read) == (task in places)
    assert all(sum(map(len, one)) <= max_batch_tokens or len(one) == 1 for one in read)


@pytest.mark.training
def test_docs_without_annotation_teach_nothing(task, know):
    nlp = know(task)
    pipe = nlp.get_pipe(task.factory)

    def gradients(data):
        for _, _, gradient in parameters(pipe.model):
            if gradient is not None:
                gradient.zero_()
        losses = pipe.update(data, losses={})
        found = [gradient for _, _, gradient in parameters(pipe.model)]
        return losses, [None if gradient is None else gradient.clone() for gradient in found]

    data = task.examples(nlp)
    plain = Example(task.docs(nlp)[0], task.docs(nlp)[0])
    losses, found = gradients([plain])
    assert losses == {task.factory: 0.0}
    assert all(gradient is None or not gradient.any() for gradient in found)
    for one, other in zip(gradients([plain, *data])[1], gradients(data)[1]):
        np.testing.assert_allclose(one, other, atol=1e-5)
    scores = nlp.evaluate([plain])
    assert scores[task.scores[0]] is None
    assert task is TEXTPAIR or {scores[name] for name in task.scores} == {None}


def crf_examples(nlp):
    """Return examples with empty Docs, and unknown and missing annotation."""
    partly = {"entities": ["-", "-", "B-LOC", "L-LOC", "O"]}
    plain = [Example(nlp.make_doc(text), nlp.make_doc(text)) for text in ("Who ?", "")]
    partly_known = Example.from_dict(nlp.make_doc("Ann saw Old Town ."), partly)
    return [*CRF.examples(nlp), *plain, partly_known]


def unanswerable(nlp):
    """A question, and one that its context does not answer."""
    return QA.examples(nlp, [QA.texts[0], (QA.texts[0][0], QA.texts[1][1], [])])


def some_clusters(nlp):
    return COREF.examples(nlp, COREF.texts[1:4])


ELMO = {"elmo": True, "tok2vec": INPUT, **BOTH, "max_batch_tokens": 30}


@pytest.mark.training
@pytest.mark.pipelines
@pytest.mark.parametrize(
    ("task", "examples", "settings", "scale", "bounds"),
    [
        (CRF, crf_examples, {}, 0.3, {"step": 1e-3, "rel": 0.03, "noise": 0.05}),
        (SRL, SRL.examples, {"max_batch_tokens": 10}, 0.3, {"rel": 0.05, "noise": 0.05}),
        (QA, unanswerable, ELMO, 0.4, {"step": 1e-3}),
        (QA, QA.examples, {**ELMO, "window": 4, "overlap": 2}, 0.4, {"step": 1e-3}),
        (COREF, some_clusters, {"mention_loss": 0.3}, 0.2, {"rel": 0.02}),
    ],
)
def test_gradients_equal_finite_differences(make, task, examples, settings, scale, bounds):
    """The gradients are of all weights, through the tok2vec, in any batches."""
    nlp = make(task, **settings)
    data = examples(nlp)
    nlp.initialize(lambda: data)
    pipe = nlp.get_pipe(task.factory)
    randomize(pipe.model, scale)
    pipe.update(data)
    if task is SRL:
        pipe.max_batch_tokens = 4096

    def loss():
        return pipe.update(data, losses={})[pipe.name]

    # With small steps, spans whose scores are far apart stay what they are.
    check_gradients(pipe.model, loss, **{"step": 3e-4, **bounds})


def test_annotation_is_aligned_with_the_predicted_tokens():
    """Entities that fit no tokens are missing, not wrong."""
    vocab = spacy.blank("en").vocab
    reference = Doc(vocab, words=["He", "can", "not", "see", "York"], spaces=[1, 0, 1, 1, 0])
    predicted = Doc(vocab, words=["He", "cannot", "see", "York"])
    example = Example(predicted, reference)
    spans = [Span(reference, 2, 3, "NEG"), Span(reference, 4, 5, "LOC")]
    reference.ents = reference.spans["chunks"] = spans
    for key in (None, "chunks"):
        spans, missing = gold_spans(example, key)
        assert spans == [(3, 4, "LOC")]
        assert missing.tolist() == [False, True, False, False]
    reference.spans["srl"] = [
        Span(reference, start, end, label=label, span_id=3)
        for start, end, label in ((0, 1, "ARG0"), (2, 3, "ARGM-NEG"), (1, 3, "ARGM-MOD"))
    ]
    assert gold_frames(example) == {2: [(0, 1, "ARG0"), (1, 2, "ARGM-MOD")]}
    write_clusters(reference, [[(0, 1), (4, 5), (1, 2)], [(2, 3)]])
    assert gold_clusters(example) == [[(0, 1), (3, 4)]]
    write_clusters(reference, [[(0, 1), (4, 5)]])
    write_clusters(predicted, [[(0, 1), (3, 4)]])
    assert score_coref([example])["coref_f"] == 1.0


# Labels and settings


@pytest.mark.training
@pytest.mark.pipelines
@pytest.mark.parametrize(
    ("task", "known", "own"), [(CRF, ["PER", "ORG"], []), (SRL, ["ARG0", "ARG7"], ["V"])]
)
def test_labels_are_given_added_or_found(make, task, known, own):
    nlp = make(task)
    pipe = nlp.get_pipe(task.factory)
    plain = Example(nlp.make_doc("Tom ran ."), nlp.make_doc("Tom ran ."))
    check_refused(lambda: pipe.initialize(lambda: [plain]), "finds no spans in doc")
    assert pipe.add_label(known[1]) == 1
    assert pipe.add_label(known[1]) == 0
    pipe.initialize(lambda: task.examples(nlp), labels=known)
    assert pipe.label_data == [*known[::-1], *own]
    check_refused(lambda: pipe.add_label("LOC"), "LOC")


@pytest.mark.training
@pytest.mark.pipelines
@pytest.mark.parametrize("task", [*TASKS, BCN, MULTILABEL], ids=lambda task: task.factory)
def test_a_second_initialization_begins_again(make, task):
    """Nothing remains of the earlier training, also in the mix of the layers."""
    nlp = make(task, concat_input(16), elmo=True)
    values = []
    for _ in range(2):
        spacy.util.fix_random_seed(0)
        data = task.examples(nlp)
        optimizer = nlp.initialize(lambda data=data: data)
        optimizer.learn_rate = 0.1
        pipe = nlp.get_pipe(task.factory)
        values.append([one.numpy().copy() for _, one, _ in parameters(pipe.model)])
        for _ in range(2):
            nlp.update(data, sgd=optimizer)
        (mix,) = mixes_of(pipe.model)
        assert mix.get_param("weights").any() and mix.get_param("gamma") != 1
    for first, second in zip(*values, strict=True):
        np.testing.assert_array_equal(first, second)


@pytest.mark.training
@pytest.mark.pipelines
@pytest.mark.parametrize(
    ("task", "texts", "labels"),
    [
        (CRF, [("Acme left Rome .", [(0, 1, "ORG"), (2, 3, "LOC")])], {"LOC", "ORG", "PER"}),
        (SRL, [("Tom ran home .", {1: "B-ARG7 B-V O O"})], {"ARG7", "V"}),
    ],
    ids=lambda value: getattr(value, "factory", None),
)
def test_a_second_initialization_can_have_other_labels(make, task, texts, labels, tmp_path):
    nlp = make(task)
    task.train(nlp, 1)
    nlp.to_disk(tmp_path)
    for one in (nlp, spacy.load(tmp_path)):
        pipe = one.get_pipe(task.factory)
        before = set(pipe.labels)
        data = task.examples(one, texts)
        optimizer = one.initialize(lambda data=data: data)
        assert set(pipe.labels) == before | labels
        losses = [one.update(data, sgd=optimizer, drop=0.0)[task.factory] for _ in range(4)]
        assert losses[-1] < losses[0]


@pytest.fixture
def float64_by_default():
    """Other libraries set it when they are imported."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


@pytest.mark.training
@pytest.mark.pipelines
@pytest.mark.parametrize("task", [*TASKS, BCN], ids=lambda task: task.factory)
def test_weights_are_float32_whatever_pytorchs_default_type_is(task, make_nlp, float64_by_default):
    nlp = task.add(make_nlp(frozen=False), concat_input(16))
    data = task.examples(nlp)
    optimizer = nlp.initialize(lambda: data)
    for _ in range(2):
        losses = nlp.update(data, sgd=optimizer)
    nlp.evaluate(data)
    assert np.isfinite(losses[task.factory])
    loaded = task.add(make_nlp(frozen=False), concat_input(16)).from_bytes(nlp.to_bytes())
    assert task.all_close(task.found_by(loaded), task.found_by(nlp))
    for _, values, _ in parameters(nlp.get_pipe(task.factory).model):
        assert values.dtype == torch.float32


def encoder(kind, **changed):
    return {"tok2vec": without_elmo({**kind, **changed})}


@pytest.mark.pipelines
@pytest.mark.parametrize(
    ("task", "settings", "named"),
    [
        (CRF, {"scheme": "iob"}, "iob"),
        (CRF, {"max_batch_tokens": 0}, "got 0"),
        (SRL, {"predicates": "nouns"}, "nouns"),
        (SRL, {"max_batch_tokens": 0}, "got 0"),
        (COREF, {"span_cluster_prefix": ""}, "must not be empty"),
        (COREF, {"max_training_sentences": -1}, "got -1"),
        (COREF, {"mention_loss": -1.0}, "got -1"),
        (COREF, {"mention_loss": 0.0}, "with singletons, got 0"),
        (COREF, {"model": {"max_span_width": 0}}, "max_span_width.*got 0"),
        (COREF, {"model": {"encoder_width": 7}}, "must be even .*got 7"),
        (COREF, {"model": {"dropout": 1.0}}, "dropout must be .*got 1.0"),
        (COREF, {"model": {"input_dropout": -0.1}}, "input_dropout.*got -0.1"),
        (BCN, {"hidden_width": 0}, "hidden_width.*got 0"),
        (BCN, {"maxout_widths": [3, 0]}, "0"),
        (BCN, {"dropout": 1}, "got 1"),
        (CRF, encoder(RNN, width=5), "width .*5"),
        (CRF, encoder(RNN, depth=0), "depth .*0"),
        (CRF, encoder(RNN, cell="rnn"), "'rnn'"),
        (CRF, encoder(RNN, dropout=1.0), "got 1.0"),
        (CRF, encoder(LSTM, directions="both"), "directions.*'both'"),
        (CRF, encoder(LSTM, depth=0), "depth .*0"),
        (CRF, encoder(LSTM, width=5, directions="bidirectional"), "width .*5"),
        (CRF, encoder(LSTM, dropout=1.0), r"1\.0"),
        (QA, {"groups": ["question"]}, "two different names"),
        (QA, {"width": 0}, "got 0"),
        (QA, {"window": 10, "overlap": 10}, "overlap"),
        (QA, {"max_answer_tokens": 0}, "max_answer_tokens"),
        (QA, {"min_score": 1.5}, "min_score must be between 0 and 1, got 1.5"),
        (TEXTPAIR, {"groups": ["premise", "premise"]}, "two different names"),
        (TEXTPAIR, {"width": 5}, "got 5"),
        (TEXTPAIR, {"dropout": 1.0}, "got 1.0"),
        (TEXTPAIR, {"max_batch_tokens": 0}, "got 0"),
    ],
)
def test_impossible_settings_are_refused(make, task, settings, named):
    with pytest.raises(ValueError, match=named):
        make(task, **settings)
