import warnings

import numpy as np
import pytest
import spacy

from components import concat_both, examples, listener, ner, tagger, textcat


@pytest.fixture
def trained(make_nlp):
    nlp = make_nlp()
    nlp.add_pipe("tagger", config=tagger(listener()))
    batch = examples(nlp)
    sgd = nlp.initialize(lambda: batch)
    nlp.update(batch, sgd=sgd)
    return nlp


def test_reads_the_layers_of_the_pipe(trained):
    doc = trained("They sat on the bank")
    node = trained.get_pipe("tagger").model.get_ref("tok2vec")
    np.testing.assert_allclose(node.predict([doc])[0], doc._.elmo.mean(0), atol=1e-2)


def test_disabled_upstream_warns_once(trained):
    """Design, fact 14."""
    with trained.select_pipes(disable=["elmo"]):
        with pytest.warns(UserWarning, match="disabled") as caught:
            trained("a b")
            trained("a b")
        assert len(caught) == 1
        docs = [trained.make_doc("a b"), trained.make_doc("")]
        outputs = trained.get_pipe("tagger").model.get_ref("tok2vec").predict(docs)
        assert [output.shape for output in outputs] == [(2, 12), (0, 12)]
        assert not outputs[0].any()


def test_initialize_warns_of_nothing(make_nlp):
    nlp = make_nlp()
    nlp.add_pipe("ner", config=ner(concat_both()))
    nlp.add_pipe("textcat", config=textcat(listener()))
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        nlp.initialize(lambda: examples(nlp))


def test_empty_docs_in_a_batch(make_nlp):
    """Design, fact 16."""
    nlp = make_nlp()
    nlp.add_pipe("ner", config=ner(concat_both()))
    nlp.add_pipe("textcat", config=textcat(concat_both()))
    batch = examples(nlp)
    batch.append(spacy.training.Example.from_dict(nlp.make_doc(""), {"cats": {"MONEY": 1.0}}))
    sgd = nlp.initialize(lambda: batch)
    nlp.update(batch, sgd=sgd)
    assert [len(doc) for doc in nlp.pipe(["", "a b", ""])] == [0, 2, 0]


def test_wrong_width(make_nlp):
    config = tagger({**listener(), "width": 10})
    nlp = make_nlp()
    nlp.add_pipe("tagger", config=config)
    with pytest.raises(ValueError, match="width = 10.*set width = 12"):
        nlp.initialize(lambda: examples(nlp))


def test_retokenised_after_elmo(trained):
    doc = trained.make_doc("They sat on the bank")
    trained.get_pipe("elmo")(doc)
    with doc.retokenize() as retokenizer:
        retokenizer.merge(doc[0:2])
    with pytest.raises(ValueError, match="retokenized"):
        trained.get_pipe("tagger")(doc)


def test_without_a_pipe(trained):
    nlp = spacy.blank("en")
    nlp.add_pipe("tagger", config=tagger(listener(upstream="other")))
    batch = examples(nlp)
    with pytest.warns(UserWarning, match="'other'"):
        nlp.initialize(lambda: batch)
    with pytest.raises(ValueError, match="listens to 'other'"):
        nlp.update(batch)


def test_upstream_by_name(make_nlp, tiny_weights):
    nlp = make_nlp()
    nlp.add_pipe("elmo", name="second", config={"weights": str(tiny_weights)})
    nlp.add_pipe("tagger", config=tagger(listener(upstream="second")))
    assert nlp.get_pipe("second").listening_components == ["tagger"]
    assert nlp.get_pipe("elmo").listening_components == []


def test_same_words_in_another_batch(make_nlp):
    """Design, fact 13: batches are told apart by their Docs, not by their words."""
    nlp = make_nlp(frozen=False)
    nlp.add_pipe("tagger", config=tagger(listener()))
    batch = examples(nlp)
    nlp.initialize(lambda: batch)
    elmo = nlp.get_pipe("elmo")
    elmo.update(batch)
    same_words = [nlp.make_doc(example.reference.text) for example in batch]
    layers, report = elmo.training_layers(same_words, elmo.listeners[0])
    assert report is None
    assert layers[0].shape[1] == len(same_words[0])
    assert elmo.training_layers([batch[2].predicted], elmo.listeners[0])[1] is not None


def test_some_docs_without_layers(trained):
    with pytest.raises(ValueError, match="1 of 2 Docs"):
        list(trained.get_pipe("tagger").pipe([trained("a b"), trained.make_doc("a")]))


@pytest.mark.parametrize("annotating", [(), ("elmo",)])
@pytest.mark.parametrize("frozen_components", [(), ("elmo",)])
def test_frozen_and_annotating_components(make_nlp, annotating, frozen_components):
    """Neither is needed, and neither changes what is learned."""
    results = []
    for annotates, exclude in (((), ()), (annotating, frozen_components)):
        spacy.util.fix_random_seed(0)
        nlp = make_nlp()
        nlp.add_pipe("tagger", config=tagger(listener()))
        batch = examples(nlp)
        sgd = nlp.initialize(lambda batch=batch: batch)
        for _ in range(3):
            nlp.update(batch, sgd=sgd, annotates=annotates, exclude=exclude)
        results.append([token.tag_ for token in nlp("They sat on the Bank")])
        results[-1].append(nlp.get_pipe("tagger").model.get_ref("softmax").get_param("W").copy())
    assert results[0][:-1] == results[1][:-1]
    np.testing.assert_allclose(results[0][-1], results[1][-1], atol=1e-6)


@pytest.mark.parametrize("order", [["tok2vec", "elmo"], ["elmo", "tok2vec"]])
def test_beside_spacy_s_tok2vec(make_nlp, tiny_weights, order):
    """Design, fact 4: one pipeline, two upstreams, each component reads its own."""
    nlp = spacy.blank("en")
    for name in order:
        config = {"weights": str(tiny_weights)} if name == "elmo" else {}
        nlp.add_pipe(name, config=config)
    nlp.add_pipe("tagger")  # listens to tok2vec: doc.tensor, 96 wide
    nlp.replace_pipe(
        "tagger",
        "tagger",
        config=tagger({"@architectures": "spacy.Tok2VecListener.v1", "width": 96}),
    )
    nlp.add_pipe("textcat", config=textcat(listener()))
    batch = examples(nlp)
    sgd = nlp.initialize(lambda: batch)
    nlp.update(batch, sgd=sgd)
    doc = nlp("They sat on the bank")
    assert doc.tensor.shape == (5, 96)
    assert doc._.elmo.shape == (3, 5, 12)
    assert doc[0].tag_
    assert doc.cats
