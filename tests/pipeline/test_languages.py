"""Pipelines of other languages, and of other token encoders than English models have."""

import copy
import warnings

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc
from spacy.training import Example
from thinc.api import Adam

import spacy_elmo
from spacy_elmo.weights import read_weights

from helpers.components import listener, tagger
from helpers.golden import MANYLANGS, read_manylangs
from helpers.models import check_refused, tiny_bilm
from helpers.reference_manylangs import write_random
from helpers.rounding import check_close

pytestmark = pytest.mark.pipelines

WIDTH = 12


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a random model of some characters and words, as ELMoForManyLangs writes it."""
    return write_random(tmp_path_factory.mktemp("german") / "142", seed=2)


def pipeline(folder, lang="de", **config):
    nlp = spacy.blank(lang)
    nlp.add_pipe("elmo", config={**spacy_elmo.pretrained(folder), **config})
    return nlp


def test_vectors_are_the_mean_of_the_layers_of_the_reference():
    nlp = pipeline(MANYLANGS, "xx", mix="average", initial_state="zeros", store_layers=True)
    for words, expected in zip(*read_manylangs()):
        doc = nlp.get_pipe("elmo")(Doc(nlp.vocab, words=words))
        check_close(doc._.elmo, expected)
        check_close(doc.tensor, expected.mean(axis=0))


@pytest.mark.parametrize("reader", [None, "spacy-elmo.manylangs.v1"])
def test_a_saved_pipeline_has_equal_vectors(folder, tmp_path, reader):
    weights = str(folder) if reader is None else {"@weights_readers": reader, "path": str(folder)}
    nlp = pipeline(folder, weights=weights)
    text = "Käthe wohnt in Köln , 漢字 und Überraschungen inklusive ."
    expected = nlp(text).tensor
    nlp.to_disk(tmp_path / "pipeline")
    loaded = spacy.load(tmp_path / "pipeline")
    assert loaded.config["components"]["elmo"]["model"]["token_encoder"] == "manylangs"
    blank = pipeline(folder, weights=None)
    for other in (loaded, blank.from_bytes(nlp.to_bytes()), copy.deepcopy(nlp)):
        np.testing.assert_array_equal(other(text).tensor, expected)
    assert read_weights(tmp_path / "pipeline").config == nlp.get_pipe("elmo").bilm.config


def test_default_sizes_follow_the_weights_and_others_must_agree(folder):
    nlp = spacy.blank("de")
    nlp.add_pipe("elmo", config={"weights": str(folder)})
    assert nlp("Es regnet .").tensor.shape == (3, WIDTH)
    model = {"@architectures": "spacy-elmo.BiLM.v1", "lstm_dim": 20, "projection_dim": 6}
    nlp = pipeline(folder, model=model)
    check_refused(lambda: nlp("Es regnet ."), "token_encoder is manylangs there and bilm-tf in")


def with_tagger(nlp):
    nlp.add_pipe("tagger", config=tagger(listener(width=WIDTH)))
    doc = nlp.make_doc("The té wohnt cat")
    examples = [Example.from_dict(doc, {"tags": ["A", "B", "B", "A"]})]
    nlp.initialize(lambda: examples)
    return examples


@pytest.mark.training
def test_replaced_listeners_keep_the_vocabulary(folder, tmp_path):
    nlp = pipeline(folder)
    with_tagger(nlp)
    doc = nlp("Ülkü wohnt in Paris .")
    node = nlp.get_pipe("tagger").model.get_ref("tok2vec")
    nlp.replace_listeners("elmo", "tagger", ["model.tok2vec"])
    nlp.to_disk(tmp_path)
    again = spacy.load(tmp_path, exclude=["elmo"]).get_pipe("tagger").model.get_ref("tok2vec")
    found, expected = again.predict([nlp.make_doc(doc.text)]), node.predict([doc])
    check_close(found[0], expected[0])


@pytest.mark.training
def test_fine_tuning_reaches_words_and_code_points(folder):
    nlp = pipeline(folder, frozen=False)
    examples = with_tagger(nlp)
    sgd = Adam(0.01, L2=0.0)
    encoder = nlp.get_pipe("elmo").bilm.encoder
    before = {name: weight.clone() for name, weight in encoder.named_parameters()}
    for _ in range(2):  # the first update may only reach the tagger, which starts from zeros
        nlp.update(examples, sgd=sgd)
    nlp.to_bytes()  # what is still due is done
    for name, weight in encoder.named_parameters():
        assert not np.array_equal(weight.detach(), before[name]), name
    vocabularies = encoder.indexer.vocabularies
    for part, known, read, unread in (
        ("words", vocabularies.words, "cat", "the"),
        ("embedding", vocabularies.characters, "é", "漢"),
    ):
        changed = (getattr(encoder, part).weight != before[f"{part}.weight"]).any(dim=1)
        assert changed[known[read]] and not changed[known[unread]]


@pytest.mark.parametrize(
    ("lang", "of", "n_warnings"), [("de", "en", 1), ("en", "en", 0), ("xx", "en", 0), ("de", "", 0)]
)
def test_weights_of_another_language_give_one_warning(recwarn, lang, of, n_warnings):
    """The warning comes at the first use."""
    bilm = tiny_bilm()
    bilm.provenance = {"lang": of} if of else {}
    nlp = spacy.blank(lang)
    nlp.add_pipe("elmo", config={"weights": None})
    nlp.get_pipe("elmo").set_bilm(bilm)
    warnings.simplefilter("always")
    for _ in range(3):
        nlp("ein Text")
    messages = [str(warning.message) for warning in recwarn if "language" in str(warning.message)]
    assert len(messages) == n_warnings
    assert all("'en'" in message and "'de'" in message for message in messages)
