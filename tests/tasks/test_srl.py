"""The component `elmo_srl`: it learns, with any tok2vec; what it has learned is kept; what is
wrong with gold roles is said."""

import pickle

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc, DocBin, Span
from spacy.training import Example
from spacy.util import registry

from spacy_elmo.tasks.srl_corpus import make_doc
from spacy_elmo.tasks.srl_frames import gold_frames, read_frames, write_frames
from spacy_elmo.tasks.srl_model import Instance, InstanceScorer

from components import concat_input, embed, listener

TEXTS = [
    ("Maria gave Tom a book .", {1: "B-ARG0 B-V B-ARG2 B-ARG1 I-ARG1 O"}),
    ("A book was given to Tom .", {3: "B-ARG1 I-ARG1 O B-V B-ARG2 I-ARG2 O"}),
    (
        "Tom ran home , and Maria saw him .",
        {1: "B-ARG0 B-V B-ARG4 O O O O O O", 6: "O O O O O B-ARG0 B-V B-ARG1 O"},
    ),
    ("Today Maria ran .", {2: "B-ARGM-TMP B-ARG0 B-V O"}),
    ("Home .", {}),
]
LABELS = ("ARG0", "ARG1", "ARG2", "ARG4", "ARGM-TMP", "V")
WITHOUT_ELMO = {
    "@architectures": "spacy.Tok2Vec.v2",
    "embed": embed(16),
    "encode": {
        "@architectures": "spacy-elmo.HighwayLSTM.v1",
        "width": 16,
        "depth": 1,
        "dropout": 0.0,
    },
}


def srl(tok2vec, **settings):
    """The config of a small component."""
    encode = {"@architectures": "spacy-elmo.HighwayLSTM.v1", "width": 24, "dropout": 0.0}
    model = {"@architectures": "spacy-elmo.SRL.v1", "tok2vec": tok2vec, "encode": encode}
    return {"model": {**model, "flag_width": 8}, **settings}


def examples(nlp, texts=TEXTS):
    return [
        Example(
            nlp.make_doc(text),
            make_doc(
                nlp.vocab,
                text.split(),
                [{"pred": pred, "tags": tags.split()} for pred, tags in frames.items()],
            ),
        )
        for text, frames in texts
    ]


def train(nlp, steps=70, **settings):
    data = examples(nlp)
    optimizer = nlp.initialize(lambda: data)
    optimizer.learn_rate = 0.02
    for _ in range(steps):
        nlp.update(data, sgd=optimizer, **settings)
    return data


@pytest.fixture
def make(make_nlp):
    """Makes a pipeline with the component, and before it `elmo` if need be."""

    def make(tok2vec, *, elmo=False, **settings):
        nlp = make_nlp() if elmo else spacy.blank("en")
        nlp.add_pipe("elmo_srl", config=srl(tok2vec, **settings))
        return nlp

    return make


@pytest.fixture(scope="module")
def trained():
    """A pipeline without ELMo that knows its training sentences."""
    spacy.util.fix_random_seed(0)
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo_srl", config=srl(WITHOUT_ELMO))
    train(nlp)
    return nlp


def frames_of(nlp):
    return [read_frames(doc) for doc in nlp.pipe(text for text, _ in TEXTS)]


def gold(nlp):
    return [read_frames(example.reference) for example in examples(nlp)]


@pytest.mark.parametrize("tok2vec", [listener(layer_norm=True), concat_input(), WITHOUT_ELMO])
def test_it_learns(make, tok2vec):
    spacy.util.fix_random_seed(0)
    nlp = make(tok2vec, elmo=tok2vec is not WITHOUT_ELMO)
    data = train(nlp, steps=150)
    assert nlp.get_pipe("elmo_srl").labels == LABELS
    scores = nlp.evaluate(data)
    assert scores["srl_f"] == scores["srl_predicates_f"] == 1.0
    assert set(scores["srl_per_type"]) == set(LABELS) - {"V"}
    doc = nlp("Maria gave Tom a book .")
    assert {label: [str(span) for span in spans] for label, spans in doc[1]._.srl.items()} == {
        "ARG0": ["Maria"],
        "V": ["gave"],
        "ARG2": ["Tom"],
        "ARG1": ["a book"],
    }
    assert doc[0]._.srl == {}
    assert next((span.label_, span.id) for span in doc.spans["srl"]) == ("ARG0", 1)


def test_it_listens_to_a_tok2vec():
    spacy.util.fix_random_seed(0)
    nlp = spacy.blank("en")
    nlp.add_pipe("tok2vec", config={"model": WITHOUT_ELMO})
    shared = {"@architectures": "spacy.Tok2VecListener.v1", "width": 16}
    nlp.add_pipe("elmo_srl", config=srl(shared))
    before = train(nlp, steps=1)
    untrained = nlp.get_pipe("tok2vec").model.to_bytes()
    assert nlp.evaluate(train(nlp))["srl_f"] == 1.0
    assert len(before) == len(TEXTS)
    assert nlp.get_pipe("tok2vec").model.to_bytes() != untrained


def test_the_language_model_reads_a_sentence_once(make, computed):
    nlp = make(listener(), elmo=True, max_batch_tokens=8)
    nlp.initialize(lambda: examples(nlp))
    computed.clear()
    nlp(TEXTS[2][0])
    assert computed == [tuple(TEXTS[2][0].split())]


@pytest.mark.parametrize("max_batch_tokens", [1, 10, 4096])
def test_batches_change_nothing(trained, max_batch_tokens, monkeypatch):
    """However many tokens are read at a time, which is no more than the setting says, or one
    sentence."""
    sizes = []
    score = InstanceScorer.__call__

    def count(self, instances):
        sizes.append((sum(map(len, instances)), len(instances)))
        return score(self, instances)

    monkeypatch.setattr(InstanceScorer, "__call__", count)
    monkeypatch.setattr(trained.get_pipe("elmo_srl"), "max_batch_tokens", max_batch_tokens)
    assert frames_of(trained) == gold(trained)
    assert all(n_tokens <= max_batch_tokens or n == 1 for n_tokens, n in sizes)


def test_gradients(make):
    """Of all weights by finite differences, whatever the batches."""
    spacy.util.fix_random_seed(0)
    nlp = make(WITHOUT_ELMO, max_batch_tokens=10)
    data = examples(nlp)
    nlp.initialize(lambda: data)
    pipe = nlp.get_pipe("elmo_srl")
    rng = np.random.default_rng(0)
    nodes = [(node, name) for node in pipe.model.walk() for name in node.param_names]
    for node, name in nodes:
        values = node.get_param(name)
        node.set_param(name, rng.normal(scale=0.3, size=values.shape).astype("float32"))
    pipe.update(data)
    pipe.max_batch_tokens = 4096

    def loss():
        return pipe.update(data, losses={})["elmo_srl"]

    gradients = [node.get_grad(name).copy() for node, name in nodes]
    for (node, name), gradient in zip(nodes, gradients):
        values = node.get_param(name)
        direction = rng.normal(size=values.shape).astype("float32")
        around = []
        for step in (1e-3, -1e-3):
            node.set_param(name, values + np.float32(step) * direction)
            around.append(loss())
        node.set_param(name, values)
        expected = (around[0] - around[1]) / 2e-3
        found = float((gradient * direction).sum())
        assert found == pytest.approx(expected, rel=0.03, abs=0.05), (node.name, name)


def test_loss_is_the_log_likelihood(trained):
    pipe = trained.get_pipe("elmo_srl")
    (example,) = examples(trained, TEXTS[:1])
    (segment,) = pipe.segmenter(example.predicted)
    instance = Instance(0, segment, 1)
    rng = np.random.default_rng(0)
    probabilities = rng.dirichlet(np.ones(13), size=6).astype("float32")
    names = ["O", *(f"{prefix}-{label}" for label in LABELS for prefix in "BI")]
    tags = [names.index(tag) for tag in TEXTS[0][1][1].split()]
    loss, (d_logits,) = pipe.get_loss([example], ([instance], [probabilities]))
    assert loss == pytest.approx(-np.log(probabilities[range(6), tags]).sum(), rel=1e-5)
    np.testing.assert_allclose(d_logits, probabilities - np.eye(13)[tags], atol=1e-6)


# What is kept


def test_disk_bytes_and_pickle(trained, tmp_path):
    expected = frames_of(trained)
    trained.to_disk(tmp_path / "pipeline")
    copy = spacy.blank("en")
    copy.add_pipe("elmo_srl", config=srl(WITHOUT_ELMO))
    for loaded in (
        spacy.load(tmp_path / "pipeline"),
        copy.from_bytes(trained.to_bytes()),
        pickle.loads(pickle.dumps(trained)),
    ):
        assert loaded.get_pipe("elmo_srl").labels == LABELS
        assert frames_of(loaded) == expected
        assert loaded.evaluate(examples(loaded))["srl_f"] == 1.0


def test_processes(trained):
    texts = [text for text, _ in TEXTS]
    found = [read_frames(doc) for doc in trained.pipe(texts, n_process=2, batch_size=2)]
    assert found == gold(trained)


def test_doc_bin_keeps_roles(trained):
    doc = trained(TEXTS[2][0])
    (loaded,) = DocBin(docs=[doc]).from_bytes(DocBin(docs=[doc]).to_bytes()).get_docs(doc.vocab)
    assert read_frames(loaded) == read_frames(doc) != {}
    assert loaded[6]._.srl["ARG0"][0].text == "Maria"
    (empty,) = DocBin(docs=[trained("Home .")]).get_docs(doc.vocab)
    assert read_frames(empty) == {}


@pytest.mark.parametrize("tok2vec", [listener(), concat_input()])
def test_replaced_listeners(make, tmp_path, tok2vec):
    spacy.util.fix_random_seed(0)
    nlp = make(tok2vec, elmo=True)
    train(nlp, steps=10)
    expected = frames_of(nlp)
    place = "model.tok2vec" if tok2vec == listener() else "model.tok2vec.embed.elmo"
    nlp.replace_listeners("elmo", "elmo_srl", [place])
    nlp.to_disk(tmp_path / "pipeline")
    assert frames_of(spacy.load(tmp_path / "pipeline", exclude=["elmo"])) == expected


# Predicates


def test_verbs(trained, tmp_path):
    trained.to_disk(tmp_path)
    nlp = spacy.load(tmp_path, config={"components": {"elmo_srl": {"predicates": "verbs"}}})
    with pytest.raises(ValueError, match="'Maria gave Tom a book .'.*token.pos"):
        nlp(TEXTS[0][0])
    words = TEXTS[0][0].split()
    doc = Doc(nlp.vocab, words=words, pos=["PROPN", "VERB", "PROPN", "DET", "AUX", "PUNCT"])
    assert list(read_frames(nlp(doc))) == [1, 4]
    assert read_frames(nlp("")) == {}


def test_gold_predicates(trained, tmp_path):
    """Given on the Doc, or those of the reference in an evaluation."""
    trained.to_disk(tmp_path)
    nlp = spacy.load(tmp_path, config={"components": {"elmo_srl": {"predicates": "gold"}}})
    doc = nlp.make_doc(TEXTS[0][0])
    assert "srl" not in nlp(doc).spans
    write_frames(doc, {1: [(1, 2, "V")], 4: [(4, 5, "V")]})
    frames = read_frames(nlp(doc))
    assert list(frames) == [1, 4]
    assert frames[1] == gold(nlp)[0][1]
    scores = nlp.evaluate(examples(nlp))
    assert scores["srl_f"] == scores["srl_predicates_f"] == 1.0
    given = examples(nlp, TEXTS[:1])
    write_frames(given[0].predicted, {4: [(4, 5, "V")]})
    assert nlp.evaluate(given)["srl_predicates_f"] == 0.0


def test_gold_predicates_are_not_asked_for_in_training(make):
    """The tags V of sentences without a flag cost nothing."""

    def first_loss(predicates):
        nlp = make(WITHOUT_ELMO, predicates=predicates)
        data = examples(nlp)
        nlp.initialize(lambda: data)
        return nlp.update(data)["elmo_srl"]

    # Before the first step all 13 tags are equally probable.
    once = sum(len(text.split()) for text, _ in TEXTS)
    per_predicate = sum(len(text.split()) * len(frames) for text, frames in TEXTS)
    assert first_loss("gold") == pytest.approx(per_predicate * np.log(13), rel=1e-4)
    assert first_loss("model") == pytest.approx((per_predicate + once) * np.log(13), rel=1e-4)


def test_windows_share_predicates(trained):
    """Each token is asked for in one window, and roles are found in the window around it."""
    pipe = trained.get_pipe("elmo_srl")
    before = pipe.segmenter
    pipe.segmenter = registry.get("segmenters", "spacy-elmo.windows.v1")(size=6, overlap=2)
    try:
        doc = trained(" ".join([TEXTS[0][0]] * 4))
    finally:
        pipe.segmenter = before
    frames = read_frames(doc)
    spans = [(start, end) for roles in frames.values() for start, end, _ in roles]
    assert all(0 <= start < end <= len(doc) for start, end in spans)
    assert 1 in frames
    assert all((token, "V") in [(s, label) for s, _, label in frames[token]] for token in frames)


# Gold roles


def spans(doc, *roles):
    doc.spans["srl"] = [
        Span(doc, start, end, label=label, span_id=pred) for start, end, label, pred in roles
    ]
    return doc


@pytest.mark.parametrize(
    ("roles", "named"),
    [
        ([(0, 2, "ARG0", 3), (1, 3, "ARG1", 3)], r"'ran'.*token 3.*ARG0 \(0, 2\).*ARG1 \(1, 3\)"),
        ([(0, 1, "ARG0", 5), (5, 6, "V", 5)], r"ARG0 \(0, 1\) reaches.*sentence \(4, 7\)"),
        ([(0, 1, "ARG9", 1)], r"ARG9 \(0, 1\) has a label"),
        ([(0, 1, "V", 1)], r"V \(0, 1\) does not begin"),
        ([(0, 3, "ARG0", 1)], "overlap"),  # the predicate itself is V
        ([(0, 1, "ARG0", 99)], "id 99.*7 tokens"),
    ],
)
def test_wrong_gold_roles_are_named(trained, roles, named):
    words = ["Tom", "and", "Maria", "ran", ".", "They", "left"]
    starts = (
        [i in (0, 5) for i in range(7)] if roles[0][3] != 5 else [i in (0, 4) for i in range(7)]
    )
    reference = spans(Doc(trained.vocab, words=words, sent_starts=starts), *roles)
    example = Example(Doc(trained.vocab, words=words, sent_starts=starts), reference)
    with pytest.raises(ValueError, match=named) as error:
        trained.update([example])
    assert "'Tom and Maria ran . They left" in str(error.value)
    assert "\n" not in str(error.value)


def test_docs_without_annotation_teach_nothing(trained):
    plain = Example(trained.make_doc("Tom ran ."), trained.make_doc("Tom ran ."))
    assert trained.update([plain])["elmo_srl"] == 0.0
    scores = trained.evaluate([plain])
    assert scores["srl_f"] is None
    assert scores["srl_predicates_f"] is None


def test_other_tokens_than_the_reference():
    """Roles go to the predicted Doc's tokens, where those can hold them."""
    nlp = spacy.blank("en")
    reference = Doc(nlp.vocab, words=["He", "can", "not", "swim", "."], spaces=[1, 0, 1, 0, 0])
    spans(reference, (0, 1, "ARG0", 3), (2, 3, "ARGM-NEG", 3), (1, 3, "ARGM-MOD", 3))
    predicted = Doc(nlp.vocab, words=["He", "cannot", "swim", "."], spaces=[1, 1, 0, 0])
    assert gold_frames(Example(predicted, reference)) == {2: [(0, 1, "ARG0"), (1, 2, "ARGM-MOD")]}


# Settings


def test_labels(make):
    nlp = make(WITHOUT_ELMO)
    pipe = nlp.get_pipe("elmo_srl")
    with pytest.raises(ValueError, match="Labels for component"):
        nlp("Tom ran .")
    assert pipe.add_label("ARG7") == 1
    assert pipe.add_label("ARG7") == 0
    pipe.initialize(lambda: examples(nlp), labels=["ARG0", "ARG7"])
    assert pipe.label_data == ["ARG7", "ARG0", "V"]
    with pytest.raises(ValueError, match="ARG8"):
        pipe.add_label("ARG8")
    with pytest.raises(ValueError, match="finds no spans"):
        make(WITHOUT_ELMO).initialize(
            lambda: [Example(nlp.make_doc("Tom ran ."), nlp.make_doc("Tom ran ."))]
        )


@pytest.mark.parametrize(
    ("setting", "named"), [({"predicates": "nouns"}, "nouns"), ({"max_batch_tokens": 0}, "got 0")]
)
def test_impossible_settings(make, setting, named):
    with pytest.raises(ValueError, match=named):
        make(WITHOUT_ELMO, **setting)
