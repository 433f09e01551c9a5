"""What all components of `spacy_elmo.tasks` do: they learn, with any tok2vec; what they have
learned is kept; what is not annotated teaches nothing; impossible settings are named."""

import pickle
import shutil

import numpy as np
import pytest
import spacy
from spacy.cli.package import package
from spacy.tokens import DocBin
from spacy.training import Example

from helpers.commands import run_python
from helpers.components import concat_input, listener
from helpers.gradients import parameters
from helpers.tasks import COREF, CRF, QA, RNN, SRL, TASKS, TEXTPAIR, without_elmo


@pytest.fixture(params=TASKS, ids=lambda task: task.factory)
def task(request):
    return request.param


INPUT = listener(layer_norm=True)
EMBEDDED = {**without_elmo(RNN), "embed": INPUT}
TOK2VEC, EMBED, CONCAT = "model.tok2vec", "model.tok2vec.embed", "model.tok2vec.embed.elmo"
OUTPUT = "model.output_tok2vec"


@pytest.mark.parametrize(
    ("task", "tok2vec", "output", "places", "score"),
    [
        (CRF, listener(), None, [TOK2VEC], 0.3),
        (CRF, EMBEDDED, None, [EMBED], 1.0),
        (CRF, concat_input(), None, [CONCAT], 1.0),
        (SRL, INPUT, None, [TOK2VEC], 1.0),
        (SRL, concat_input(), None, [CONCAT], 1.0),
        (COREF, INPUT, None, [TOK2VEC], 0.4),  # vectors of random weights tell little
        (COREF, concat_input(), None, [CONCAT], 1.0),
        (QA, INPUT, None, [TOK2VEC], 1.0),
        (QA, concat_input(), INPUT, [CONCAT, OUTPUT], 1.0),
        (TEXTPAIR, INPUT, None, [TOK2VEC], 1.0),
        (TEXTPAIR, concat_input(), None, [CONCAT], 1.0),
        (TEXTPAIR, TEXTPAIR.tok2vec, INPUT, [OUTPUT], 1.0),
        (TEXTPAIR, concat_input(), INPUT, [CONCAT, OUTPUT], 1.0),
    ],
    ids=lambda value: getattr(value, "factory", None),
)
def test_it_learns_from_elmo(make, tmp_path, task, tok2vec, output, places, score):
    """And finds the same where its listeners are replaced by the language model."""
    both = {"output_tok2vec": output} if output else {}
    nlp = make(task, tok2vec, elmo=True, **both)
    task.train(nlp)
    scores, found = task.main_scores(nlp), task.found_by(nlp)
    assert scores[0] >= score
    assert score < 1.0 or (set(scores) == {1.0} and task.all_right(nlp, found))
    mixes = [one for one in nlp.get_pipe(task.factory).model.walk() if "scalar_mix" in one.name]
    assert len(mixes) == len(places)
    assert ("output" in {mix.attrs["place"] for mix in mixes}) == bool(output)
    nlp.replace_listeners("elmo", task.factory, places)
    nlp.to_disk(tmp_path / "pipeline")
    loaded = spacy.load(tmp_path / "pipeline", exclude=["elmo"])
    assert task.all_close(task.found_by(loaded), found)


def test_it_learns_by_default(task, make_nlp):
    """Where nothing but the names of the pipes is said."""
    spacy.util.fix_random_seed(0)
    nlp = make_nlp()
    nlp.add_pipe(task.factory)
    assert nlp.config["training"]["score_weights"][task.scores[0]] == 1.0
    data = task.examples(nlp)
    optimizer = nlp.initialize(lambda: data)
    losses = [nlp.update(data, sgd=optimizer)[task.factory] for _ in range(20)]
    assert np.isfinite(losses).all()
    # By default a pair's model drops half of its inputs: so few steps tell nothing.
    assert losses[-1] < 0.95 * losses[0] or task is TEXTPAIR


def test_it_listens_to_a_tok2vec(task):
    """Which sees all Docs of a batch, those without annotation, too: spaCy's listener refuses
    other Docs than it was sent."""
    spacy.util.fix_random_seed(0)
    nlp = spacy.blank("en")
    nlp.add_pipe("tok2vec", config={"model": task.tok2vec})
    task.add(nlp, {"@architectures": "spacy.Tok2VecListener.v1", "width": 16})
    plain = Example(task.docs(nlp)[0], task.docs(nlp)[0])
    data = [plain, *task.examples(nlp)]
    task.train(nlp, steps=1, data=data)
    untrained = nlp.get_pipe("tok2vec").model.to_bytes()
    task.train(nlp, data=data)
    assert set(task.main_scores(nlp)) == {1.0}
    assert nlp.get_pipe("tok2vec").model.to_bytes() != untrained


def test_a_corpus_without_examples_is_named(task, make):
    # elmo_textpair is spaCy's textcat there.
    named = "E930" if task is TEXTPAIR else f"'{task.factory}' got no training examples.*Corpus.v1"
    with pytest.raises((ValueError, TypeError), match=named):
        make(task).initialize(list)


def test_the_language_model_reads_a_training_sentence_once(task, make, computed):
    """Each token once, in whatever batches; what a frozen model computed is kept for the next
    epoch."""
    small = {} if task is COREF else {"max_batch_tokens": 8}
    nlp = make(task, listener(), elmo=True, **small)
    data = task.examples(nlp)
    optimizer = nlp.initialize(lambda: data)
    nlp.update(data, sgd=optimizer)
    assert computed
    computed.clear()
    nlp.update(data, sgd=optimizer)
    assert computed == []
    doc = task.docs(nlp)[0]
    words = [f"{token.text}s" for token in doc]  # others than before
    new = spacy.tokens.Doc(nlp.vocab, words=words)
    for key, group in doc.spans.items():
        new.spans[key] = [new[span.start : span.end] for span in group]
    nlp(new)
    assert sorted(word for sequence in computed for word in sequence) == sorted(words)


# What is kept


def test_disk_bytes_and_pickle(task, know, tmp_path):
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


USE = """
import sys
sys.path.insert(0, "site")
import en_tiny
from spacy.tokens import DocBin
nlp = en_tiny.load()
for name in nlp.pipe_names:
    with nlp.select_pipes(enable=name):
        docs = nlp.pipe(DocBin().from_disk(f"{name}-read").get_docs(nlp.vocab))
        DocBin(docs=docs).to_disk(f"{name}-found")
"""


def test_package(know, tmp_path):
    """In a new process each component finds the same; a DocBin keeps it."""
    nlp = spacy.blank("en")
    for task in TASKS:
        nlp.add_pipe(task.factory, source=know(task))
        DocBin(docs=task.docs(nlp)).to_disk(tmp_path / f"{task.factory}-read")
    nlp.to_disk(tmp_path / "pipeline")
    settings = {"name": "tiny", "version": "1.2.3", "create_sdist": False, "create_wheel": True}
    package(tmp_path / "pipeline", tmp_path, **settings)
    (wheel,) = (tmp_path / "en_tiny-1.2.3" / "dist").glob("*.whl")
    shutil.unpack_archive(wheel, tmp_path / "site", "zip")
    run_python("-c", USE, cwd=tmp_path)
    for task in TASKS:
        path = tmp_path / f"{task.factory}-found"
        docs = list(DocBin().from_disk(path).get_docs(nlp.vocab))
        expected = list(know(task).pipe(task.docs(nlp)))
        assert task.all_close(*([task.found(doc) for doc in some] for some in (docs, expected)))
        for doc, wanted in zip(docs, expected):
            for key, group in wanted.spans.items():
                for name, values in group.attrs.items():
                    assert doc.spans[key].attrs[name] == pytest.approx(values)


@pytest.mark.processes
def test_processes(task, know):
    nlp = know(task)
    assert task.all_right(nlp, task.found_by(nlp, n_process=2, batch_size=2))


# Docs of all kinds


def test_not_initialized(task, make, tmp_path):
    """The component is named, with and without labels; it can be moved and saved before."""
    nlp = make(task)
    pipe = nlp.get_pipe(task.factory)
    pipe.model.to_cpu()
    nlp.to_disk(tmp_path)
    for n_labels in range(2 if task in (CRF, SRL) else 1):
        for label in ["PER"][:n_labels]:
            pipe.add_label(label)
        with pytest.raises(ValueError, match=rf"\[E(109|143)\].*'{task.factory}'"):
            nlp(task.docs(nlp)[0])
        with pytest.raises(ValueError, match=rf"\[E(109|143)\].*'{task.factory}'"):
            pipe.update(task.examples(nlp))
    assert spacy.load(tmp_path).pipe_names == nlp.pipe_names


def test_empty_docs(task, know):
    """Beside others, which find what they find alone."""
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


@pytest.mark.parametrize("max_batch_tokens", [1, 20])
@pytest.mark.parametrize("task", [QA, TEXTPAIR], ids=["elmo_qa", "elmo_textpair"])
def test_batches_change_nothing(task, know, monkeypatch, max_batch_tokens):
    nlp = know(task)
    found = task.found_by(nlp)
    attrs = nlp.get_pipe(task.factory).model.attrs
    monkeypatch.setitem(attrs, "max_batch_tokens", max_batch_tokens)
    assert task.all_close(task.found_by(nlp), found)


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


# Labels and settings


@pytest.mark.parametrize(
    ("task", "known", "own"), [(CRF, ["PER", "ORG"], []), (SRL, ["ARG0", "ARG7"], ["V"])]
)
def test_labels(make, task, known, own):
    nlp = make(task)
    pipe = nlp.get_pipe(task.factory)
    with pytest.raises(ValueError, match="Labels for component"):
        nlp("Tom ran .")
    plain = Example(nlp.make_doc("Tom ran ."), nlp.make_doc("Tom ran ."))
    with pytest.raises(ValueError, match="finds no spans in doc"):
        pipe.initialize(lambda: [plain])
    assert pipe.add_label(known[1]) == 1
    assert pipe.add_label(known[1]) == 0
    pipe.initialize(lambda: task.examples(nlp), labels=known)
    assert pipe.label_data == [*known[::-1], *own]
    with pytest.raises(ValueError, match="LOC"):
        pipe.add_label("LOC")


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
        (QA, {"groups": ["question"]}, "two different names"),
        (QA, {"width": 0}, "got 0"),
        (QA, {"window": 10, "overlap": 10}, "overlap"),
        (QA, {"max_answer_tokens": 0}, "max_answer_tokens"),
        (QA, {"min_score": 1.5}, "min_score must be between 0 and 1, got 1.5"),
        (TEXTPAIR, {"groups": ["premise", "premise"]}, "two different names"),
        (TEXTPAIR, {"groups": ["premise"]}, "two different names"),
        (TEXTPAIR, {"width": 5}, "got 5"),
        (TEXTPAIR, {"dropout": 1.0}, "got 1.0"),
        (TEXTPAIR, {"max_batch_tokens": 0}, "got 0"),
    ],
)
def test_impossible_settings(make, task, settings, named):
    with pytest.raises(ValueError, match=named):
        make(task, **settings)
