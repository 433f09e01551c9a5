"""`replace_listeners`: a component with its own language model answers as before, in any
pipeline."""

import copy
import logging
import pickle
from functools import partial

import numpy as np
import pytest
import spacy
from spacy.language import Language
from spacy.tokens import DocBin
from spacy.training.initialize import init_nlp
from spacy.util import dot_to_object, load_model_from_config, walk_dict
from thinc.api import SGD, Config

from spacy_elmo import pretrained
from spacy_elmo.pipeline.mixes import learned_mixes

from helpers.components import concat_both, concat_input, embed, listener, ner, tagger, textcat
from helpers.models import check_refused, weights_of
from helpers.trained import trained

pytestmark = pytest.mark.pipelines


def beside(first, second):
    block = {"@architectures": "spacy-elmo.OutputConcat.v1"}
    return {**block, "tok2vec": first, "elmo": second}


# Components, the paths of their listeners to `elmo`, and the places of their mixes.
BOTH = ["model.tok2vec.elmo", "model.tok2vec.tok2vec.embed.elmo"]
SETUPS = {
    "textcat": (textcat(listener(layer_norm=True)), ["model.tok2vec"], ["alone"]),
    "tagger": (tagger(concat_input()), ["model.tok2vec.embed.elmo"], ["input"]),
    "tagger2": (tagger(beside(embed(), listener())), ["model.tok2vec.elmo"], ["output"]),
    "ner": (ner(concat_both()), BOTH, ["output", "input"]),
}


def is_inside(path, other):
    return path.startswith(f"{other}.")


def answers(doc):
    scores = {label: round(score, 4) for label, score in doc.cats.items()}
    return [token.tag_ for token in doc], [(e.text, e.label_) for e in doc.ents], scores


@pytest.mark.training
@pytest.mark.parametrize("name", SETUPS)
def test_replaced_listeners_answer_the_same_when_loaded(make_nlp, name, tmp_path):
    """Paths without a listener are refused, and change nothing."""
    windows = {"@segmenters": "spacy-elmo.windows.v1", "size": 5, "overlap": 2}
    nlp = make_nlp(segmenter=windows, initial_state="zeros", precision="bfloat16")
    config, listeners, places = SETUPS[name]
    trained(nlp, 5, **{name: config})
    text = "Maria sat on the bank of the river in Paris ."
    wanted, mixes = answers(nlp(text)), learned_mixes(nlp)
    assert [mix["place"] for mix in mixes] == places

    before, weights = nlp.config.to_str(), nlp.get_pipe(name).model.to_bytes()
    ends = [parts for parts, _ in walk_dict(config)]
    paths = {".".join(parts[:i]) for parts in ends for i in range(1, len(parts) + 1)}
    others = sorted(paths - {*listeners})
    assert len(others) > 5
    wrong = [[path, *listeners[1:]] for path in others]
    wrong += [[listeners[0], path] for path in (*others, listeners[0]) if len(listeners) > 1]
    # If the first new block overwrites the place of the second one, spaCy itself refuses (E886).
    wrong = [paths for paths in wrong if not is_inside(paths[-1], paths[0])]
    replace = partial(nlp.replace_listeners, "elmo", name)
    for paths in wrong:
        check_refused(partial(replace, paths), "its listeners", *map(repr, listeners))
    check_refused(lambda: replace(iter(listeners)), "list")
    assert nlp.config.to_str() == before
    assert nlp.get_pipe(name).model.to_bytes() == weights

    replace(listeners)
    assert nlp.get_pipe("elmo").listener_map == {}
    nlp.remove_pipe("elmo")
    assert answers(nlp(text)) == wanted
    nlp.to_disk(tmp_path / "pipeline")
    loaded = spacy.load(tmp_path / "pipeline")
    assert loaded.pipe_names == [name]
    assert answers(loaded(text)) == wanted
    assert learned_mixes(loaded) == [{**mix, "upstream": None} for mix in mixes]
    block = dot_to_object(loaded.get_pipe_config(name), listeners[0])
    settings = (block[key] for key in ("segmenter", "initial_state", "precision"))
    assert (*settings, block["bilm"]["lstm_dim"]) == (windows, "zeros", "bfloat16", 12)


@pytest.mark.training
def test_paths_are_checked_behind_a_wrapper(nlp, monkeypatch):
    """An iterator of paths is refused."""
    original = Language.replace_listeners
    monkeypatch.setattr(Language, "replace_listeners", lambda *args: original(*args))
    trained(nlp, tagger=tagger(concat_input()))
    before = nlp.config.to_str()
    paths = ["model.tok2vec.embed.elmo"]
    replace = partial(nlp.replace_listeners, "elmo", "tagger")
    check_refused(lambda: replace(iter(paths)), "list")
    check_refused(lambda: replace(["model.tok2vec"]), "its listeners", *paths)
    assert nlp.config.to_str() == before
    replace(paths)
    assert nlp.get_pipe("elmo").listener_map == {}


@pytest.mark.training
def test_a_config_that_an_error_left_changed_is_repaired(nlp):
    """spaCy raises the error between its callbacks. The next call repairs the config."""
    trained(nlp, ner=ner(concat_both()))
    replace = partial(nlp.replace_listeners, "elmo", "ner")
    with pytest.raises(ValueError, match="E886"):
        replace([BOTH[0], "model.nothing"])
    replace(BOTH)
    mixes = [dot_to_object(nlp.get_pipe_config("ner"), path)["mix"] for path in BOTH]
    names = [mix["@architectures"] for mix in mixes]
    assert names == [listener()["mix"]["@architectures"]] * 2


def change_none(nlp):
    return nlp


def change_copied(nlp):
    return copy.deepcopy(nlp)


def change_pickled(nlp):
    return pickle.loads(pickle.dumps(nlp))


def change_sourced(nlp):
    new = spacy.blank("en")
    for name in ("elmo", "tagger"):
        new.add_pipe(name, source=nlp)
    return new


@pytest.mark.training
@pytest.mark.parametrize("change", [change_none, change_copied, change_pickled, change_sourced])
def test_listeners_can_be_replaced_in_copied_pipelines(nlp, change, tmp_path):
    trained(nlp, 1)
    wanted = answers(nlp("Maria swims"))
    nlp = change(nlp)
    check_refused(lambda: nlp.replace_listeners("elmo", "tagger", iter(["model.tok2vec"])), "list")
    nlp.replace_listeners("elmo", "tagger", ["model.tok2vec"])
    assert answers(nlp("Maria swims")) == wanted
    nlp.to_disk(tmp_path)
    assert answers(spacy.load(tmp_path)("Maria swims")) == wanted


@pytest.mark.training
def test_a_replaced_component_can_be_trained(make_nlp):
    nlp = make_nlp(frozen=False)
    batch, sgd = trained(nlp, 5)
    elmo = nlp.get_pipe("elmo")
    (replaced,) = elmo.listeners  # still held: the pipe must not go on for its sake
    assert nlp("They sat")._.elmo is not None
    nlp.replace_listeners("elmo", "tagger", ["model.tok2vec"])
    assert replaced.upstream is None
    with pytest.warns(UserWarning, match="store_layers"):
        assert nlp("They sat")._.elmo is None
    before = weights_of(elmo.bilm)["stacks.0.0.bias"]
    inner = nlp.get_pipe("tagger").model.get_ref("tok2vec")
    (shim,) = next(node for node in inner.walk() if node.name == "elmo_bilm").shims
    assert shim.id != elmo.model.shims[0].id  # the optimizer keeps their moments apart
    for node in inner.walk():
        assert not {"replace_listener", "replace_listener_cfg"} & set(node.attrs)  # the pipe's
    np.testing.assert_array_equal(weights_of(shim.bilm)["stacks.0.0.bias"], before)
    nlp.update(batch, sgd=sgd)
    np.testing.assert_array_equal(weights_of(elmo.bilm)["stacks.0.0.bias"], before)
    assert not np.array_equal(weights_of(shim.bilm)["stacks.0.0.bias"], before)


def test_a_component_that_was_disabled_can_get_its_own_model(make_nlp):
    """spaCy connects the other components while this one is disabled."""
    nlp = make_nlp()
    trained(nlp, ner=ner(concat_both()))
    nlp.disable_pipe("ner")
    nlp.add_pipe("sentencizer", first=True)
    assert nlp.get_pipe("elmo").listening_components == []
    nlp.enable_pipe("ner")
    nlp.replace_listeners("elmo", "ner", BOTH)
    assert nlp.get_pipe("elmo").connected_listeners() == []


@pytest.mark.training
def test_a_replaced_component_can_be_rehearsed(make_nlp):
    nlp = make_nlp(frozen=False)
    batch, sgd = trained(nlp, 1)
    nlp.replace_listeners("elmo", "tagger", ["model.tok2vec"])
    nlp.resume_training()
    nlp.update(batch, sgd=sgd)
    output = nlp.get_pipe("tagger").model.get_ref("output_layer")
    before = output.get_param("W").copy()
    nlp.rehearse(batch, sgd=SGD(0.1))
    assert not np.array_equal(output.get_param("W"), before)


@pytest.mark.training
def test_rehearsing_does_not_ignore_the_learn_rate_factor(make_nlp):
    """spaCy steps later, with an optimizer that the language model does not get."""
    nlp = make_nlp(frozen=False, learn_rate_factor=0.1)
    batch, sgd = trained(nlp, 1)
    nlp.replace_listeners("elmo", "tagger", ["model.tok2vec"])
    nlp.resume_training()
    nlp.update(batch, sgd=sgd)
    with pytest.raises(ValueError, match="learn_rate_factor = 0.1. Set it to 1"):
        nlp.rehearse(batch, sgd=sgd)
    nlp.update(batch, sgd=sgd)


@pytest.mark.training
def test_tok2vec_elmo_can_come_from_a_config(tiny_weights, tmp_path):
    """The pipeline has no elmo pipe from the start; initialize reads the weights."""
    block = {"@architectures": "spacy-elmo.Tok2VecElmo.v1", "weights": str(tiny_weights)}
    block |= {"bilm": pretrained(tiny_weights)["model"], "mix": listener()["mix"]}
    nlp = spacy.blank("en")
    trained(nlp, 1, tagger=tagger(block))
    wanted = answers(nlp("Maria swims"))
    nlp.to_disk(tmp_path / "pipeline")
    assert answers(spacy.load(tmp_path / "pipeline")("Maria swims")) == wanted


@pytest.mark.training
def test_a_wrong_path_in_a_config_is_refused_before_the_training(nlp, tmp_path):
    trained(nlp, 1, tagger=tagger(concat_input()))
    expected = answers(nlp("Maria swims"))
    nlp.to_disk(tmp_path / "source")

    def sourced(path):
        given = {"tagger": {"source": str(tmp_path / "source"), "replace_listeners": [path]}}
        config = {"nlp": {"lang": "en", "pipeline": ["tagger"]}, "components": given}
        return load_model_from_config(Config(config), auto_fill=True)

    check_refused(lambda: sourced("model.tok2vec"), "model.tok2vec.embed.elmo")
    sourced("model.tok2vec.embed.elmo").to_disk(tmp_path / "replaced")
    assert answers(spacy.load(tmp_path / "replaced")("Maria swims")) == expected


@pytest.mark.parametrize("paths", [BOTH, BOTH[::-1]])
def test_each_path_keeps_the_settings_of_its_mix(nlp, paths):
    """A training that starts from a saved config needs them."""
    first, second = concat_input(), listener(layer_norm=True)
    first["embed"]["elmo"]["mix"]["l2"] = 0.5
    nlp.add_pipe("tagger", config=tagger(beside(first, second)))
    nlp.replace_listeners("elmo", "tagger", paths)
    mixes = [dot_to_object(nlp.get_pipe_config("tagger"), path)["mix"] for path in BOTH]
    assert [(mix["layer_norm"], mix["l2"]) for mix in mixes] == [(True, 0.0), (False, 0.5)]


@pytest.mark.training
@pytest.mark.parametrize("frozen", [True, False])
@pytest.mark.parametrize("name", ["tagger", "elmo"])
def test_train_warns_only_of_layers_that_change(
    make_nlp, frozen, name, tmp_path, caplog, monkeypatch
):
    """The layers of a pipe that is fine-tuned change under a frozen tagger."""
    nlp = make_nlp(frozen=frozen)
    batch, _ = trained(nlp)
    nlp.to_disk(tmp_path / "source")
    DocBin(docs=[example.reference for example in batch]).to_disk(tmp_path / "data.spacy")
    config = Config(nlp.config)
    for pipe in ("elmo", "tagger"):
        config["components"][pipe] = {"source": str(tmp_path / "source")}
    config["paths"].update(dict.fromkeys(["train", "dev"], str(tmp_path / "data.spacy")))
    config["training"]["frozen_components"] = [name]
    monkeypatch.setattr(logging.getLogger("spacy"), "propagate", True)
    init_nlp(config)
    codes = [] if frozen or name == "elmo" else ["W087"]
    assert [word for word in ("W086", "W087") if word in caplog.text] == codes
