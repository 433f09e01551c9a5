"""Listeners: components read the layers of the pipe `elmo`, in prediction, training and copies."""

import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest
import spacy
from spacy.tokens import DocBin
from thinc.api import Adam

from spacy_elmo.bilm.model import BiLM
from spacy_elmo.embedding.doc_layers import get_layers
from spacy_elmo.layers.scalar_mix import mix_weights
from spacy_elmo.weights.sizes import from_options

from helpers.components import concat_both, examples, listener, ner, tagger, textcat
from helpers.models import OPTIONS, scaled
from helpers.rounding import check_close
from helpers.trained import trained as train

pytestmark = pytest.mark.pipelines

TEXT = "They sat on the bank of the river"


@pytest.fixture
def trained(make_nlp):
    nlp = make_nlp()
    train(nlp, 1)
    return nlp


@pytest.fixture
def fine_tuned(make_nlp):
    nlp = make_nlp(frozen=False)
    return nlp, train(nlp)[0]


no_warning = pytest.mark.filterwarnings("error::UserWarning")


def node_of(nlp):
    return nlp.get_pipe("tagger").model.get_ref("tok2vec")


def tags(doc):
    return [token.tag_ for token in doc]


@pytest.mark.training
def test_a_listener_reads_the_layers_of_the_pipe(trained):
    """The Doc may be a sentence without user data, as the entity linker reads it."""
    doc, node = trained(TEXT), node_of(trained)
    np.testing.assert_allclose(node.predict([doc])[0], doc._.elmo.mean(0), atol=1e-2)
    part = doc[2:6].as_doc()
    assert get_layers(part, "elmo") is None
    alone = trained(" ".join(token.text for token in part))
    np.testing.assert_allclose(node.predict([part])[0], node.predict([alone])[0], atol=1e-5)


@pytest.mark.training
def test_docs_without_layers_of_their_tokens_are_refused(trained):
    tagger = trained.get_pipe("tagger")
    with pytest.raises(ValueError, match="1 of 2 Docs"):
        list(tagger.pipe([trained("a b"), trained.make_doc("a")]))
    doc = trained(TEXT)
    with doc.retokenize() as retokenizer:
        retokenizer.merge(doc[0:2])
    with pytest.raises(ValueError, match="retokenized"):
        tagger(doc)


@pytest.mark.training
@no_warning
def test_a_disabled_pipe_warns_once_and_gives_zeros(trained):
    """Design, fact 14."""
    with trained.select_pipes(disable=["elmo"]):
        node_of(trained).predict([trained.make_doc("")])  # nothing is predicted from zeros
        with pytest.warns(UserWarning, match="disabled") as caught:
            trained("a b")
            trained("a b")
        assert len(caught) == 1
        outputs = node_of(trained).predict([trained.make_doc("a b"), trained.make_doc("")])
        assert [output.shape for output in outputs] == [(2, 12), (0, 12)]
        assert not outputs[0].any()


FOLLOWING = {"@architectures": "spacy-elmo.ElmoListener.v1"}  # without width, mix, n_layers


@pytest.mark.training
@pytest.mark.parametrize("n_lstms", [1, 2])
def test_width_and_layers_follow_the_pipe(n_lstms, tmp_path):
    """The sizes are set at initialization and on loading."""
    config = from_options(OPTIONS)
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", config={"weights": None})
    nlp.get_pipe("elmo").set_bilm(BiLM(replace(config, n_layers=n_lstms)))
    both = concat_both()
    both["elmo"] = both["tok2vec"]["embed"]["elmo"] = FOLLOWING
    train(nlp, 1, tagger=tagger(FOLLOWING), ner=ner(both), textcat=textcat(FOLLOWING))
    nlp.to_disk(tmp_path)
    loaded = spacy.load(tmp_path)
    assert loaded.get_pipe_config("tagger")["model"]["tok2vec"]["width"] is None
    nodes = loaded.get_pipe("elmo").listeners
    assert [node.get_dim("nO") for node in nodes] == [config.width] * 4
    assert [len(mix_weights(node.mix)) for node in nodes] == [n_lstms + 1] * 4
    doc, again = nlp("Maria swims"), loaded("Maria swims")
    assert (tags(doc), doc.cats) == (tags(again), again.cats)
    nlp.replace_listeners("elmo", "tagger", ["model.tok2vec"])
    nlp.to_disk(tmp_path / "replaced")
    assert tags(spacy.load(tmp_path / "replaced")("Maria swims")) == tags(doc)


@pytest.mark.training
@pytest.mark.parametrize(
    ("settings", "place", "message"),
    [
        ({"width": 10}, "first", "width = 10.*Set width = 12"),
        ({"upstream": "other"}, None, "listens to 'other'.*pipeline = .*other.*in .nlp."),
        ({}, "last", "listens to 'elmo'.*before it.*pipeline = .*elmo.*in .nlp."),
    ],
)
def test_listeners_that_cannot_be_connected_are_refused(tiny_weights, settings, place, message):
    nlp = spacy.blank("en")
    nlp.add_pipe("tagger", config=tagger({**listener(), **settings}))
    if place is not None:
        nlp.add_pipe("elmo", config={"weights": str(tiny_weights)}, **{place: True})
    with pytest.raises(ValueError, match=message):
        nlp.initialize(lambda: examples(nlp))


@pytest.mark.training
def test_layers_in_training_belong_to_the_docs_of_the_batch(fine_tuned):
    """Design, fact 13: batches differ by their Docs, not by their words."""
    nlp, batch = fine_tuned
    elmo = nlp.get_pipe("elmo")
    elmo.update(batch)
    same_words = [nlp.make_doc(example.reference.text) for example in batch]
    layers, report = elmo.training_layers(same_words, elmo.listeners[0])
    assert report is None
    assert layers[0].shape[1] == len(same_words[0])
    docs = [example.predicted for example in batch]
    layers, report = elmo.training_layers(docs, elmo.listeners[0])
    gradient = [np.ones_like(values) for values in layers]
    report(gradient)
    elmo.to_bytes()  # takes the backward pass
    with pytest.raises(RuntimeError, match="after"):
        report(gradient)


@pytest.mark.training
@pytest.mark.parametrize("annotating", [(), ("elmo",)])
@pytest.mark.parametrize("frozen_components", [(), ("elmo",)])
def test_freezing_and_annotating_do_not_change_training(make_nlp, annotating, frozen_components):
    """Training needs neither."""
    results = []
    for annotates, exclude in (((), ()), (annotating, frozen_components)):
        spacy.util.fix_random_seed(0)
        nlp = make_nlp()
        batch, sgd = train(nlp)
        for _ in range(3):
            nlp.update(batch, sgd=sgd, annotates=annotates, exclude=exclude)
        weights = nlp.get_pipe("tagger").model.get_ref("softmax").get_param("W").copy()
        results.append((tags(nlp("They sat on the Bank")), weights))
    assert results[0][0] == results[1][0]
    check_close(results[0][1], results[1][1])


@pytest.mark.training
@no_warning
@pytest.mark.parametrize("frozen", [True, False])
def test_a_frozen_component_can_annotate(make_nlp, frozen):
    nlp = make_nlp(frozen=frozen)
    batch, sgd = train(nlp, tagger=tagger(listener()), textcat=textcat(listener()))
    nlp.update(batch, sgd=sgd, exclude=["tagger"], annotates=["tagger"])


@pytest.mark.training
@pytest.mark.parametrize("order", [["tok2vec", "elmo"], ["elmo", "tok2vec"]])
def test_spacys_tok2vec_works_beside_the_pipe(tiny_weights, order, caplog):
    """Design, fact 4: in a pipeline with two upstreams each component reads its own. The pipe
    leaves doc.tensor to spaCy, and the log says so once."""
    nlp = spacy.blank("en")
    for name in order:
        nlp.add_pipe(name, config={"weights": str(tiny_weights)} if name == "elmo" else {})
    block = {"@architectures": "spacy.Tok2VecListener.v1", "width": 96}
    train(nlp, 1, tagger=tagger(block), textcat=textcat(listener()))
    doc = nlp("They sat on the bank")
    assert (doc.tensor.shape, doc._.elmo.shape) == ((5, 96), (3, 5, 12))
    assert doc[0].tag_ and doc.cats
    assert sum("does not set doc.tensor" in record.message for record in caplog.records) == 1


@pytest.mark.training
@no_warning
def test_a_component_disabled_at_load_works_when_enabled(trained, tmp_path):
    trained.to_disk(tmp_path / "pipeline")
    nlp = spacy.load(tmp_path / "pipeline", disable=["tagger"])
    nlp.enable_pipe("tagger")
    assert nlp("They sat")._.elmo is not None


def test_layers_of_other_weights_are_not_trusted(make_nlp):
    """Another process has stored the Docs with their layers and user data."""
    nlp = make_nlp(store_layers=True)
    stored = DocBin(docs=[nlp("They sat")], store_user_data=True).to_bytes()
    pipes = []
    for factor in (1.0, 2.0):
        other = make_nlp()
        pipe = other.get_pipe("elmo")
        pipe.set_bilm(scaled(pipe.bilm, "stacks.0.0.bias", factor))
        pipe._shim.id = nlp.get_pipe("elmo")._shim.id  # counted from 0 in every process
        doc = next(DocBin().from_bytes(stored).get_docs(other.vocab))
        before = doc._.elmo.copy()
        pipe.annotate([doc])
        wanted = pipe.predict([other.make_doc("They sat")])[0]
        check_close(doc._.elmo, wanted)
        pipes.append(np.allclose(doc._.elmo, before))
    assert pipes == [True, False]


@pytest.mark.training
def test_layers_do_not_outlive_their_weights(fine_tuned):
    """Layers of averages, with which `spacy train` evaluates, do not outlive the averages."""
    nlp, batch = fine_tuned
    pipe, doc, sgd = nlp.get_pipe("elmo"), nlp.make_doc("They sat"), Adam(0.1)
    weights = dict(pipe.bilm.named_parameters())
    averages = {(pipe._shim.id, name): 2 * w.detach().numpy() for name, w in weights.items()}
    found = []

    def annotate():
        pipe.annotate([doc])
        wanted = pipe.predict([nlp.make_doc("They sat")])[0]
        check_close(doc._.elmo, wanted)
        found.append(doc._.elmo.copy())

    annotate()
    with nlp.use_params(averages):
        annotate()
    annotate()
    for _ in range(3):  # the tagger's weights are zeros at first
        nlp.update(batch, sgd=sgd)
    annotate()
    pipe.set_bilm(BiLM(pipe.bilm.config))
    annotate()
    check_close(found[0], found[2])
    assert [np.allclose(found[0], other) for other in found] == [True, False, True, False, False]


def test_a_listener_refuses_a_pipe_that_does_not_store_layers(make_nlp):
    with pytest.raises(ValueError, match="store_layers"):
        make_nlp(store_layers=False).add_pipe("tagger", config=tagger(listener()))


@pytest.mark.training
def test_copies_share_the_pipe_and_removed_listeners_have_none(trained):
    """Copies of a component share the language model; a listener that is removed has no pipe."""
    pipe, model = trained.get_pipe("elmo"), trained.get_pipe("tagger").model
    copied = next(n for n in copy.deepcopy(model).walk() if n.name == "elmo_listener")
    (node,) = pipe.listeners
    assert copied.upstream is pipe
    assert copied.mix is not node.mix
    assert pipe.remove_listener(node, "tagger")
    assert (node.upstream, pipe.listening_components) == (None, [])
    assert not pipe.remove_listener(node, "tagger")
    assert not pipe._stores_layers  # as "auto" says where none listens


@pytest.mark.training
def test_a_pipe_can_be_pickled_in_the_middle_of_an_update(fine_tuned):
    nlp, batch = fine_tuned
    nlp.update(batch, sgd=False, exclude=["tagger"])
    pipe, doc = nlp.get_pipe("elmo"), nlp.make_doc("They sat")
    again = pickle.loads(pickle.dumps(pipe))
    check_close(again.predict([doc])[0], pipe.predict([doc])[0])


@pytest.mark.training
def test_a_pickle_has_one_copy_of_the_weights(fine_tuned):
    """Its size stays the same after the checksum was computed, and after an update."""
    nlp, batch = fine_tuned
    pipe = nlp.get_pipe("elmo")
    shim = pipe.model.shims[0]
    sizes, checksums = [], []
    for _ in range(2):
        sizes.append(len(pickle.dumps(shim)))
        checksums.append(shim.checksum())
        assert checksums[-1] == pipe.bilm.freeze().checksum()
        sizes.append(len(pickle.dumps(shim)))
        assert pickle.loads(pickle.dumps(shim)).checksum() == checksums[-1]
        for _ in range(3):  # the tagger's weights are zeros at first
            nlp.update(batch, sgd=Adam(0.01))
        pipe.finish_update(Adam(0.01))
    assert checksums[0] != checksums[1]
    n_bytes = sum(weight.nbytes for weight in pipe.bilm.parameters())
    assert max(sizes) - min(sizes) < 1000 < n_bytes
