import spacy

from spacy_elmo.pipeline.load import elmo_pipe, read_pipeline

from helpers.models import check_refused


def layers(nlp):
    return elmo_pipe(nlp).predict([spacy.tokens.Doc(nlp.vocab, words=["the", "cat"])])[0]


def test_pipelines_and_weights(tmp_path, nlp, tiny_weights):
    """With the settings of the pipeline."""
    nlp.rename_pipe("elmo", "vectors")
    nlp.to_disk(tmp_path / "model")
    expected = layers(nlp)
    for source in (tmp_path / "model", tmp_path / "model" / "vectors", tiny_weights):
        assert (layers(read_pipeline(str(source))) == expected).all(), source
    nlp.get_pipe("vectors").initial_state = "zeros"
    nlp.to_disk(tmp_path / "model")
    assert (layers(nlp) != expected).any()
    assert (layers(read_pipeline(str(tmp_path / "model"))) == layers(nlp)).all()


def test_packages_and_languages(tmp_path, monkeypatch, tiny_weights):
    (tmp_path / "de_elmo").mkdir()
    (tmp_path / "de_elmo" / "meta.json").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(spacy.util, "is_package", lambda name: name in ("de_elmo", "numpy"))
    monkeypatch.setattr(spacy, "load", lambda name: f"the package {name}")
    assert read_pipeline("de_elmo") == "the package de_elmo"
    assert read_pipeline(str(tiny_weights)).lang == "xx"
    assert read_pipeline(str(tiny_weights), "de").lang == "de"


def test_what_is_no_language_model(tmp_path, nlp):
    blank = spacy.blank("en")
    check_refused(lambda: elmo_pipe(blank), "no 'elmo' pipe; it has no component")
    blank.add_pipe("sentencizer")
    check_refused(lambda: elmo_pipe(blank), "it has sentencizer")
    nlp.add_pipe("elmo", name="second", config={"weights": None})
    check_refused(lambda: elmo_pipe(nlp), "several 'elmo' pipes: elmo, second")
    for name in (str(tmp_path / "missing"), "numpy"):
        pipe = elmo_pipe(read_pipeline(name))
        check_refused(lambda pipe=pipe: pipe.bilm, "no weights at")
