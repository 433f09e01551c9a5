"""Settings that are changed on a pipe work as in a config, and are saved."""

import numpy as np
import pytest
import spacy
import torch
from spacy.util import load_config
from thinc.api import SGD

from spacy_elmo.bilm.model import BiLM
from spacy_elmo.frozen.model import FrozenBiLM
from spacy_elmo.registry import registry
from spacy_elmo.weights import read_weights

from helpers.calls import note_calls
from helpers.components import listener, tagger
from helpers.models import check_refused, weights_of
from helpers.trained import trained

pytestmark = pytest.mark.pipelines

TEXT = "They sat on the bank of the river . Maria swims ."
WINDOWS = {"@segmenters": "spacy-elmo.windows.v1", "size": 4, "overlap": 2}
# Values other than those of the pipe that `make` makes.
CHANGES = {
    "mix": "average",
    "initial_state": "zeros",
    "segmenter": WINDOWS,
    "frozen": False,
    "learn_rate_factor": 0.25,
    "store_layers": True,
    "set_vectors": False,
    "max_batch_tokens": 5,
    "cache": 3,
    "precision": "bfloat16",
    "features": None,
}


def behavior(nlp, monkeypatch):
    """Return results that depend on the settings, and the number of sequences of each call of the
    model."""
    with monkeypatch.context() as patch:
        calls = [
            note_calls(patch, kind, "embed", lambda self, sentences, *_, **__: len(sentences))
            for kind in (BiLM, FrozenBiLM)
        ]
        doc = nlp(TEXT)
        pipe = nlp.get_pipe("elmo")
        seen = [doc.tensor, doc._.elmo, doc.has_vector, doc.vector, pipe.cache]
        batch, _ = trained(nlp)
        rng = np.random.default_rng(0)
        layer = nlp.get_pipe("tagger").model.get_ref("output_layer")
        layer.set_param("W", rng.normal(size=layer.get_param("W").shape).astype("f"))
        for _ in range(2):
            nlp.update(batch, sgd=SGD(0.1))
    seen += [*calls, weights_of(pipe.bilm)["stacks.0.0.bias"]]
    return [value if value is None else np.asarray(value).tolist() for value in seen]


@pytest.mark.training
@pytest.mark.usefixtures("all_precisions")
@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_setting_works_as_in_a_config_and_is_saved(make_nlp, name, tmp_path, monkeypatch):
    given = {"frozen": False} if name == "learn_rate_factor" else {}
    expected = behavior(make_nlp(**given, **{name: CHANGES[name]}), monkeypatch)
    assert behavior(make_nlp(**given), monkeypatch) != expected
    nlp, value = make_nlp(**given), CHANGES[name]
    if isinstance(value, dict):
        value = registry.resolve({name: value})[name]
    setattr(nlp.get_pipe("elmo"), name, value)
    nlp.to_disk(tmp_path)
    loaded = [make_nlp(**given).from_bytes(nlp.to_bytes()), spacy.load(tmp_path)]
    assert [getattr(each.get_pipe("elmo"), name) for each in (nlp, *loaded)] == [value] * 3
    for each in (nlp, loaded[1]):
        assert behavior(each, monkeypatch) == expected
    assert load_config(tmp_path / "config.cfg")["components"]["elmo"][name] == CHANGES[name]


def test_an_override_comes_before_the_saved_setting(nlp, tmp_path):
    nlp.get_pipe("elmo").mix = np.asarray([0.5, 0.25, 0.25], dtype="float32")
    nlp.to_disk(tmp_path)
    assert spacy.load(tmp_path).get_pipe("elmo").mix == [0.5, 0.25, 0.25]
    loaded = spacy.load(tmp_path, config={"components": {"elmo": {"mix": "top"}}})
    assert loaded.get_pipe("elmo").mix == "top"


def test_a_change_of_the_model_is_saved_through_a_sourced_pipe(make_nlp, tmp_path):
    """Variables in the config do not change."""
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", source=make_nlp(), name="other")
    pipe = nlp.get_pipe("other")
    pipe.precision = "bfloat16"
    nlp.config["paths"]["x"] = "y"
    nlp.to_disk(tmp_path)
    assert spacy.load(tmp_path).get_pipe("other").precision == "bfloat16"
    expected = nlp.config.copy()
    expected["components"]["other"]["model"].update(pipe.bilm.config.all_sizes())
    expected["components"]["other"]["precision"] = "bfloat16"
    assert (tmp_path / "config.cfg").read_text("utf8") == expected.to_str().strip("\n")
    (tmp_path / "alone").mkdir()
    pipe.to_disk(tmp_path / "alone" / "pipe")  # no config beside it
    assert [path.name for path in (tmp_path / "alone").iterdir()] == ["pipe"]


def test_a_change_is_saved_in_each_pipeline_that_has_the_pipe(make_nlp, tmp_path):
    """The pipe has another name in the other pipeline."""
    nlp, other = make_nlp(), spacy.blank("en")
    other.add_pipe("elmo", source=nlp, name="other").mix = "average"
    for one, name in ((nlp, "elmo"), (other, "other")):
        one.to_disk(tmp_path / name)
        assert spacy.load(tmp_path / name).get_pipe(name).mix == "average"


def test_weights_and_alignment_can_change_until_they_are_read(make_nlp, narrow_weights, tmp_path):
    np.savetxt(tmp_path / "turn.txt", 2 * np.eye(10))
    nlp = make_nlp(weights=None)
    pipe = nlp.get_pipe("elmo")
    pipe.weights, pipe.align = narrow_weights, tmp_path / "turn.txt"
    (expected,), _ = read_weights(narrow_weights).embed([["They", "sat"]], "warm")

    def check(nlp):
        (found,) = nlp.get_pipe("elmo").predict([nlp.make_doc("They sat")])
        np.testing.assert_allclose(found, 2 * expected, atol=1e-5)

    check(nlp)
    for name, value in (("weights", "elsewhere"), ("align", None)):
        with pytest.raises(ValueError, match=f"{name} cannot be changed"):
            setattr(pipe, name, value)
    pipe.weights = narrow_weights  # as it is
    nlp.to_disk(tmp_path / "pipeline")
    settings = load_config(tmp_path / "pipeline" / "config.cfg")["components"]["elmo"]
    assert settings["weights"] == str(narrow_weights)
    check(spacy.load(tmp_path / "pipeline"))
    other = make_nlp()
    other("a")
    check(other.from_bytes(nlp.to_bytes()))


# Of a setting of the pipe and in a config; of a setting alone, where a config converts it.
WRONG = [("initial_state", "cold"), ("max_batch_tokens", 0), ("cache", -1)]
WRONG += [("store_layers", "never"), ("precision", "float16"), ("learn_rate_factor", 0.0)]
WRONG_TYPE = [("frozen", "no"), ("set_vectors", 1), ("store_layers", 0), ("max_batch_tokens", 1.5)]
WRONG_TYPE += [("max_batch_tokens", True), ("cache", "many"), ("learn_rate_factor", float("nan"))]
WRONG_TYPE += [("mix", {"top": 1}), ("mix", None), ("mix", [0.1, float("nan")]), ("align", 1.5)]
WRONG_TYPE += [("segmenter", "spacy-elmo.doc.v1"), ("weights", 1.5)]


@pytest.mark.parametrize(("name", "value"), [*WRONG, *WRONG_TYPE])
def test_impossible_settings_are_refused(make_nlp, name, value):
    pipe = make_nlp().get_pipe("elmo")
    before = getattr(pipe, name)
    check_refused(lambda: setattr(pipe, name, value), name)
    assert getattr(pipe, name) is before
    if (name, value) in WRONG:
        said = check_refused(lambda: make_nlp(**{name: value}), name)
        assert name != "precision" or "must be one of float32, bfloat16" in said


def test_bytes_undo_a_later_change(make_nlp):
    pipe = make_nlp(mix="average").get_pipe("elmo")
    pipe.initial_state = "zeros"
    state = pipe.to_bytes()
    pipe.mix, pipe.precision, pipe.initial_state = "top", "bfloat16", "carry"
    pipe.from_bytes(state)
    assert (pipe.mix, pipe.precision, pipe.initial_state) == ("average", "float32", "zeros")


def test_a_config_that_is_not_of_a_saved_pipeline_stays(make_nlp, tmp_path):
    """The config is a user's, for training, in the folder where a pipe is saved."""
    config = tmp_path / "config.cfg"
    config.write_text("# my notes\n[components]\n\n[components.elmo]\nfactory = 'elmo'\n")
    before = config.read_text()
    pipe = make_nlp().get_pipe("elmo")
    pipe.mix = "average"
    pipe.to_disk(tmp_path / "elmo")
    assert config.read_text() == before


def test_a_pipe_with_listeners_must_store_layers(nlp):
    """Otherwise the saved pipeline could not be loaded."""
    nlp.add_pipe("tagger", config=tagger(listener()))
    with pytest.raises(ValueError, match="'tagger' listens to 'elmo'.*store_layers"):
        nlp.get_pipe("elmo").store_layers = False
    assert nlp.get_pipe("elmo").store_layers == "auto"


@pytest.mark.training
def test_the_tensor_of_a_tok2vec_stays(make_nlp):
    """A config with `set_vectors` has the same effect."""
    nlp = make_nlp(set_vectors=False)
    nlp.add_pipe("tok2vec", first=True)
    trained(nlp, tagger=tagger({"@architectures": "spacy.Tok2VecListener.v1", "width": 96}))
    expected = nlp(TEXT).tensor
    nlp.get_pipe("elmo").set_vectors = True
    np.testing.assert_array_equal(nlp(TEXT).tensor, expected)


@pytest.mark.training
@pytest.mark.parametrize("read", [lambda: torch.nn.Linear(2, 2), lambda: None])
def test_a_reader_that_returns_no_bilm_is_refused(make_nlp, read):
    nlp = make_nlp(weights=None)
    pipe = nlp.get_pipe("elmo")
    pipe.weights = read
    for use in (lambda: nlp("a b"), nlp.initialize, lambda: pipe.set_bilm(read())):
        check_refused(use, f"got {type(read()).__name__}")


def test_a_pipe_names_its_model(nlp):
    pipe = nlp.get_pipe("elmo")
    assert repr(pipe).startswith("Elmo('elmo', weights=")
    nlp(TEXT)
    assert f"width={pipe.width}, frozen=True, precision='float32', kernel=" in repr(pipe)
    pipe.frozen = False
    assert "frozen=False, precision='float32', device='cpu'" in repr(pipe)


@pytest.mark.parametrize("variable", ["lstm_dim", "model"])
def test_variables_for_sizes_stay_in_the_config(nlp, tmp_path, variable):
    nlp(TEXT)
    nlp.to_disk(tmp_path)
    config = load_config(tmp_path / "config.cfg")
    block = config["components"]["elmo"]
    place = block if variable == "model" else block["model"]
    config["vars"] = {"value": place[variable]}
    place[variable] = "${vars.value}"
    config.to_disk(tmp_path / "config.cfg", interpolate=False)
    pipe = nlp.get_pipe("elmo")
    pipe.mix = "average"
    pipe.to_disk(tmp_path / "elmo")
    assert f"{variable} = ${{vars.value}}" in (tmp_path / "config.cfg").read_text("utf8")
    assert spacy.load(tmp_path).get_pipe("elmo").mix == "average"


@pytest.mark.parametrize("name", ["initial_state", "precision", "segmenter"])
def test_layers_of_an_old_setting_are_not_served(make_nlp, all_precisions, name):
    """A user's Doc can have them since before the change."""
    nlp = make_nlp(store_layers=True)
    elmo, doc = nlp.get_pipe("elmo"), nlp(TEXT)
    old = elmo.annotate([doc])[0]
    changed = {name: CHANGES[name]}
    setattr(elmo, name, (registry.resolve(changed) if name == "segmenter" else changed)[name])
    (new,) = elmo.predict([nlp.make_doc(TEXT)])
    assert not np.array_equal(new, old)
    np.testing.assert_array_equal(elmo.annotate([doc])[0], new)
