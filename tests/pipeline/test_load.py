"""Models that are found by path, name or language, and errors for other things."""

import shutil

import numpy as np
import pytest
import spacy
from spacy.training import Example
from spacy.util import registry
from thinc.api import ConfigValidationError

from spacy_elmo.pipeline.load import elmo_pipe, read_pipeline

from helpers.models import check_refused

ALLENNLP = "spacy-elmo.allennlp.v1"


def layers(nlp):
    return elmo_pipe(nlp).predict([spacy.tokens.Doc(nlp.vocab, words=["the", "cat"])])[0]


@pytest.mark.pipelines
def test_pipelines_and_weights_are_loaded(tmp_path, nlp, tiny_weights):
    """A pipeline keeps its settings."""
    nlp.rename_pipe("elmo", "vectors")
    nlp.to_disk(tmp_path / "model")
    expected = layers(nlp)
    for source in (tmp_path / "model", tmp_path / "model" / "vectors", tiny_weights):
        assert (layers(read_pipeline(str(source))) == expected).all(), source
    nlp.get_pipe("vectors").initial_state = "zeros"
    nlp.to_disk(tmp_path / "model")
    assert (layers(nlp) != expected).any()
    assert (layers(read_pipeline(str(tmp_path / "model"))) == layers(nlp)).all()


def test_packages_and_languages_are_found(tmp_path, monkeypatch, tiny_weights):
    (tmp_path / "de_elmo").mkdir()
    (tmp_path / "de_elmo" / "meta.json").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(spacy.util, "is_package", lambda name: name in ("de_elmo", "numpy"))
    monkeypatch.setattr(spacy, "load", lambda name: f"the package {name}")
    assert read_pipeline("de_elmo") == "the package de_elmo"
    assert read_pipeline(str(tiny_weights)).lang == "xx"
    assert read_pipeline(str(tiny_weights), "de").lang == "de"


@pytest.mark.pipelines
def test_pipelines_without_a_language_model_are_refused(tmp_path, nlp):
    blank = spacy.blank("en")
    check_refused(lambda: elmo_pipe(blank), "no 'elmo' pipe; it has no component")
    blank.add_pipe("sentencizer")
    check_refused(lambda: elmo_pipe(blank), "it has sentencizer")
    nlp.add_pipe("elmo", name="second", config={"weights": None})
    check_refused(lambda: elmo_pipe(nlp), "several 'elmo' pipes: elmo, second")
    for name in (str(tmp_path / "missing"), "numpy"):
        pipe = elmo_pipe(read_pipeline(name))
        check_refused(lambda pipe=pipe: pipe.bilm, "no weights at")


@pytest.mark.training
@pytest.mark.pipelines
def test_a_name_can_be_a_number(tmp_path, monkeypatch, tiny_weights):
    """spaCy parses `--paths.elmo 142` as a number."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(tiny_weights.parent, "142")
    np.savetxt("7", 2 * np.eye(12))
    nlp, aligned, late = spacy.blank("en"), spacy.blank("en"), spacy.blank("en")
    nlp.add_pipe("elmo", config={"weights": {"@weights_readers": ALLENNLP, "path": 142}})
    disk = {"@feature_caches": "spacy-elmo.disk.v1", "path": 8}
    pipe = aligned.add_pipe("elmo", config={"weights": 142, "align": 7, "features": disk})
    settings = pipe.settings
    assert (settings.weights, settings.align, settings.features.config()["path"]) == (
        "142",
        "7",
        "8",
    )
    expected = layers(nlp)
    np.testing.assert_allclose(layers(aligned), 2 * expected, rtol=1e-6)
    late.add_pipe("elmo").initialize(
        lambda: [Example.from_dict(late.make_doc("a"), {})], weights=142
    )
    assert (layers(late) == expected).all()
    tok2vec = {"@architectures": "spacy-elmo.Tok2VecElmo.v1", "weights": 142}
    tok2vec["bilm"] = {"@architectures": "spacy-elmo.BiLM.v1"}
    registry.resolve({"model": tok2vec})
    with pytest.raises(ConfigValidationError):
        nlp.add_pipe("elmo", name="other", config={"weights": True})
