"""Several language models in one pipeline, each with listeners of its own."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import spacy
import srsly
from spacy.tokens import Doc, DocBin

from spacy_elmo.frozen.model import FrozenBiLM
from spacy_elmo.layers.scalar_mix import mix_weights
from spacy_elmo.pipeline.mixes import learned_mixes
from spacy_elmo.vectors import get_layers, keep_vectors, restore_vectors
from spacy_elmo.weights import read_weights

from helpers import reference
from helpers.commands import run_elmo, run_python
from helpers.components import examples, listen_to_both, listener, tagger, textcat
from helpers.models import TINY_OPTIONS, weights_of
from helpers.trained import trained as trained_together

TEXT = "Maria sat on the bank of the river"
LISTENER = "spacy-elmo.ElmoListener.v1"


@pytest.fixture
def make_two(make_nlp, narrow_weights):
    """A pipeline with `elmo`, 12 wide, three layers, and `elmo_news`, 10 wide, two layers."""

    def make(other=None, **config):
        nlp = make_nlp(**config)
        settings = {"weights": str(narrow_weights), **config, **(other or {})}
        nlp.add_pipe("elmo", name="elmo_news", config=settings)
        return nlp

    return make


def trained(nlp, components, n_updates=3):
    trained_together(nlp, n_updates, **components)
    return nlp


def each_its_own():
    """Without width and n_layers, which follow the pipe that is named."""
    wide, narrow = ({"@architectures": LISTENER, "upstream": n} for n in ("elmo", "elmo_news"))
    return {"tagger": tagger(wide), "textcat": textcat(narrow)}


def answers(doc):
    return [token.tag_ for token in doc], {name: round(cat, 5) for name, cat in doc.cats.items()}


def layers_of(weights, text):
    layers, _ = read_weights(weights).embed([text.split()], "warm")
    return layers[0]


@pytest.mark.parametrize("frozen", [True, False])
def test_each_listener_reads_its_pipe(make_two, frozen, tiny_weights, narrow_weights):
    nlp = trained(make_two(frozen=frozen), each_its_own(), n_updates=0)
    doc = nlp(TEXT)
    for name, weights, component in (
        ("elmo", tiny_weights, "tagger"),
        ("elmo_news", narrow_weights, "textcat"),
    ):
        expected = layers_of(weights, TEXT)
        np.testing.assert_allclose(get_layers(doc, name), expected, atol=1e-6)
        (node,) = nlp.get_pipe(name).listeners
        assert node.get_dim("nO") == expected.shape[2]
        assert len(mix_weights(node.mix)) == len(expected)
        assert nlp.get_pipe(name).listening_components == [component]
        np.testing.assert_allclose(node.predict([doc])[0], expected.mean(0), atol=1e-6)
    np.testing.assert_array_equal(doc._.elmo, get_layers(doc, "elmo_news"))  # the last one's
    doc._.elmo = None
    assert get_layers(doc, "elmo") is get_layers(doc, "elmo_news") is None


def test_trained_together_as_alone(make_two, make_nlp, narrow_weights):
    """Components that share nothing learn the same in one pipeline as in two."""
    both = trained(make_two(frozen=False), each_its_own())
    alone = [make_nlp(frozen=False), make_nlp(frozen=False, weights=str(narrow_weights))]
    for nlp, (name, config) in zip(alone, each_its_own().items()):
        config["model"]["tok2vec"]["upstream"] = "elmo"
        trained(nlp, {name: config})
    for name, nlp in zip(("elmo", "elmo_news"), alone):
        one = weights_of(both.get_pipe(name).bilm)
        for key, weight in weights_of(nlp.get_pipe("elmo").bilm).items():
            np.testing.assert_allclose(one[key], weight, rtol=1.3e-6, atol=1e-5)
    doc = both(TEXT)
    tags, _ = answers(alone[0](TEXT))
    _, cats = answers(alone[1](TEXT))
    assert answers(doc)[0] == tags
    assert answers(doc)[1] == pytest.approx(cats, abs=1e-4)


@pytest.mark.parametrize("frozen", [(True, False), (False, True)])
def test_one_frozen_and_one_not(make_two, frozen):
    nlp = make_two(frozen=frozen[0], other={"frozen": frozen[1]})
    pipes = [nlp.get_pipe(name) for name in ("elmo", "elmo_news")]
    before = [weights_of(pipe.bilm) for pipe in pipes]
    trained(nlp, {"tagger": tagger(listen_to_both())})
    after = [weights_of(pipe.bilm) for pipe in pipes]
    stayed = [all(np.array_equal(a[name], b[name]) for name in a) for a, b in zip(before, after)]
    assert stayed == [isinstance(pipe.bilm, FrozenBiLM) for pipe in pipes] == list(frozen)


def test_kept_features_are_of_the_right_pipe(make_two, computed, tmp_path):
    """In memory each pipe has its own; in one file they are told apart by their weights."""
    for features in (
        {"@feature_caches": "spacy-elmo.memory.v1"},
        {"@feature_caches": "spacy-elmo.disk.v1", "path": str(tmp_path / "features.sqlite")},
    ):
        nlp = trained(make_two(features=features), {"tagger": tagger(listen_to_both())}, 0)
        batch, sgd = examples(nlp), nlp.create_optimizer()
        nlp.update(batch, sgd=sgd)
        computed.clear()
        again = examples(nlp)
        for name in ("elmo", "elmo_news"):
            nlp.get_pipe(name).update(again)
        assert not computed
        for eg in again:
            for name in ("elmo", "elmo_news"):
                pipe = nlp.get_pipe(name)
                expected = pipe.bilm.embed([[token.text for token in eg.x]], "warm")[0][0]
                np.testing.assert_allclose(get_layers(eg.x, name), expected, atol=1e-6)


def test_scored_docs_are_kept_by_each_pipe(make_two, computed):
    nlp = trained(make_two(), {"tagger": tagger(listen_to_both())})
    texts = ["A loan in Rome", "They swim", "Money today ."]
    for _ in range(2):
        computed.clear()
        nlp.evaluate([spacy.training.Example(nlp.make_doc(t), nlp.make_doc(t)) for t in texts])
    assert not computed


def test_saved_and_loaded_in_a_new_process(make_two, tmp_path):
    nlp = trained(make_two(frozen=False), each_its_own())
    nlp.to_disk(tmp_path / "pipeline")
    script = (
        "import sys, spacy, srsly; nlp = spacy.load(sys.argv[1]); doc = nlp(sys.argv[2]);"
        "print(srsly.json_dumps([[t.tag_ for t in doc], doc.cats, doc.vector.tolist()]))"
    )
    printed = run_python("-c", script, tmp_path / "pipeline", TEXT)
    tags, cats, vector = srsly.json_loads(printed)
    doc = nlp(TEXT)
    assert tags == [token.tag_ for token in doc]
    assert cats == pytest.approx(doc.cats, abs=1e-5)
    np.testing.assert_allclose(vector, doc.vector, atol=1e-5)


def test_replace_the_listener_of_one_pipe(make_two, tmp_path):
    """A component listens to both, with mixes of different settings."""
    both = listen_to_both()
    both["elmo"]["mix"]["layer_norm"] = True
    nlp = trained(make_two(), {"tagger": tagger(both), "textcat": textcat(listener("elmo"))})
    wanted = answers(nlp(TEXT))
    nlp.replace_listeners("elmo_news", "tagger", ["model.tok2vec.elmo"])
    assert nlp.get_pipe("elmo_news").listener_map == {}
    assert set(nlp.get_pipe("elmo").listener_map) == {"tagger", "textcat"}
    nlp.remove_pipe("elmo_news")
    assert answers(nlp(TEXT)) == wanted
    nlp.to_disk(tmp_path / "pipeline")
    loaded = spacy.load(tmp_path / "pipeline")
    assert answers(loaded(TEXT)) == wanted
    block = loaded.get_pipe_config("tagger")["model"]["tok2vec"]
    assert block["tok2vec"]["@architectures"] == LISTENER
    assert block["elmo"]["bilm"]["projection_dim"] == 5
    assert block["elmo"]["mix"]["layer_norm"] is True


@pytest.mark.parametrize("set_vectors", [(True, True), (True, False), (False, True)])
def test_vectors_are_those_of_the_last_pipe_that_sets_them(make_two, set_vectors):
    nlp = make_two(set_vectors=set_vectors[0], other={"set_vectors": set_vectors[1]})
    doc = nlp(TEXT)
    name = "elmo_news" if set_vectors[1] else "elmo"
    expected = nlp.get_pipe(name).predict([doc])[0][-1]
    np.testing.assert_allclose(doc.tensor, expected, atol=1e-6)
    np.testing.assert_allclose(doc[4].vector, expected[4], atol=1e-6)


def test_a_pipe_whose_listeners_found_a_nearer_one_stores_nothing(make_nlp, narrow_weights):
    nlp = make_nlp()
    nlp.add_pipe("textcat", config=textcat({"@architectures": LISTENER}))
    pipe = nlp.get_pipe("elmo")
    assert get_layers(pipe(nlp.make_doc("a b")), "elmo") is not None
    settings = {"weights": str(narrow_weights)}
    nlp.add_pipe("elmo", name="elmo_news", config=settings, before="textcat")
    assert get_layers(pipe(nlp.make_doc("a b")), "elmo") is None


def test_any_is_the_nearest_pipe_before(make_nlp, narrow_weights):
    nlp = make_nlp()
    nlp.add_pipe("tagger", config=tagger({"@architectures": LISTENER}))
    nlp.add_pipe("textcat", config=textcat({"@architectures": LISTENER}))
    assert nlp.get_pipe("elmo").listening_components == ["tagger", "textcat"]
    settings = {"weights": str(narrow_weights)}
    nlp.add_pipe("elmo", name="elmo_news", config=settings, before="textcat")
    assert nlp.get_pipe("elmo").listening_components == ["tagger"]
    assert nlp.get_pipe("elmo_news").listening_components == ["textcat"]
    batch = examples(nlp)
    nlp.update(batch, sgd=nlp.initialize(lambda: batch))
    assert [row["upstream"] for row in learned_mixes(nlp)] == ["elmo", "elmo_news"]
    nlp.remove_pipe("elmo_news")  # what a component was trained on stays its own
    assert nlp.get_pipe("elmo").listening_components == ["tagger"]


@pytest.fixture
def two_of_a_width(tiny_weights, tmp_path):
    """A folder of a pipeline with two pipes of equal sizes; the tagger was trained on the nearer
    one, `second`. Beside it are the outputs of its tok2vec."""
    other = reference.write_hdf5(
        tmp_path / "other", TINY_OPTIONS, reference.random_datasets(TINY_OPTIONS, seed=3)
    )
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", name="first", config={"weights": str(tiny_weights)})
    nlp.add_pipe("elmo", name="second", config={"weights": str(other)})
    trained(nlp, {"tagger": tagger({"@architectures": LISTENER})})
    nlp.to_disk(tmp_path / "pipeline")
    mean = layers_of(other, TEXT).mean(0)
    assert np.abs(vectors_of(nlp) - mean).max() < 0.1 * np.abs(mean).max()
    return tmp_path / "pipeline", mean


def vectors_of(nlp):
    return nlp.get_pipe("tagger").model.get_ref("tok2vec").predict([nlp(TEXT)])[0]


def disabled_and_enabled(nlp):
    nlp.disable_pipe("second")
    nlp.enable_pipe("second")


def renamed_and_saved(nlp):
    nlp.rename_pipe("second", "renamed")
    nlp.to_disk(nlp.path)
    return spacy.load(nlp.path)


def sourced(nlp):
    """Pipes from another pipeline, of which one gets another name."""
    new = spacy.blank("en")
    for name in ("second", "first", "tagger"):
        new.add_pipe(name, source=nlp, name="renamed" if name == "second" else name)
    return new


def one_more_before(nlp):
    other = spacy.load(nlp.path)
    nlp.add_pipe("first", name="third", source=other, before="tagger")
    nlp.to_disk(nlp.path)
    return spacy.load(nlp.path)


def trained_on(nlp):
    batch = examples(nlp)
    nlp.add_pipe("first", name="third", source=spacy.load(nlp.path), before="tagger")
    nlp.initialize(lambda: batch)
    nlp.update(batch, sgd=nlp.create_optimizer())


def initialized_while_it_is_disabled(nlp):
    """As `spacy train` does with frozen components."""
    with nlp.select_pipes(disable=["second"]):
        nlp.initialize(lambda: examples(nlp))


CHANGES = [disabled_and_enabled, one_more_before, renamed_and_saved, sourced, trained_on]


@pytest.mark.parametrize("change", [*CHANGES, initialized_while_it_is_disabled])
def test_any_stays_the_pipe_it_was_trained_on(two_of_a_width, change):
    folder, mean = two_of_a_width
    nlp = spacy.load(folder)
    nlp = change(nlp) or nlp
    assert np.abs(vectors_of(nlp) - mean).max() < 0.1 * np.abs(mean).max()


def test_a_copied_pipeline_listens_to_the_copies(two_of_a_width):
    folder, mean = two_of_a_width
    nlp = spacy.load(folder)
    copied = copy.deepcopy(nlp)
    assert np.abs(vectors_of(copied) - mean).max() < 0.1 * np.abs(mean).max()
    for one in (nlp, copied):
        pipe = one.get_pipe("second")
        assert [node.upstream for node in pipe.listeners] == [pipe]


@pytest.mark.parametrize("name", ["first", "second"])
def test_any_loaded_with_a_pipe_disabled(two_of_a_width, name):
    """The pipe that it was trained on is connected even if it was disabled when it was loaded."""
    folder, mean = two_of_a_width
    nlp = spacy.load(folder, disable=[name])
    if name == "second":
        nlp.get_pipe("first").settings = replace(nlp.get_pipe("first").settings, store_layers=True)
        with pytest.warns(UserWarning, match="zeros.*'second'"):
            assert not vectors_of(nlp).any()
        nlp.enable_pipe("second")
    assert np.abs(vectors_of(nlp) - mean).max() < 0.1 * np.abs(mean).max()


@pytest.mark.parametrize("upstream", ["*", "second"])
def test_a_pipe_that_is_excluded_is_not_replaced_by_another(two_of_a_width, upstream):
    folder, _ = two_of_a_width
    config = {"components": {"tagger": {"model": {"tok2vec": {"upstream": upstream}}}}}
    nlp = spacy.load(folder, exclude=["second"], config=config)
    nlp.get_pipe("first").settings = replace(nlp.get_pipe("first").settings, store_layers=True)
    with pytest.warns(UserWarning, match="zeros.*'second'"):
        assert not vectors_of(nlp).any()


def test_a_pipe_that_the_config_names_comes_before_what_it_was_trained_on(two_of_a_width):
    folder, mean = two_of_a_width
    config = {"components": {"tagger": {"model": {"tok2vec": {"upstream": "first"}}}}}
    nlp = spacy.load(folder, config=config)
    assert nlp.get_pipe("first").listening_components == ["tagger"]
    assert nlp.get_pipe("second").listening_components == []
    assert np.abs(vectors_of(nlp) - mean).max() > 0.1 * np.abs(mean).max()


@pytest.mark.parametrize("disabled", ["elmo", "elmo_news"])
def test_one_pipe_disabled(make_two, disabled):
    """Its listener predicts from zeros and says so; never from the other's layers."""
    nlp = trained(make_two(), each_its_own())
    (node,) = nlp.get_pipe(disabled).listeners
    with nlp.select_pipes(disable=[disabled]), pytest.warns(UserWarning, match=f"'{disabled}'"):
        doc = nlp(TEXT)
    assert not node.predict([doc])[0].any()


def test_docs_keep_both_from_process_to_process(make_two):
    nlp = trained(make_two(), each_its_own())
    doc = nlp(TEXT)
    stored = DocBin(docs=[keep_vectors(doc)], store_user_data=True).to_bytes()
    (binned,) = DocBin().from_bytes(stored).get_docs(nlp.vocab)
    for copied in (binned, Doc(nlp.vocab).from_bytes(doc.to_bytes())):
        restore_vectors(copied)
        for name in ("elmo", "elmo_news"):
            np.testing.assert_array_equal(get_layers(copied, name), get_layers(doc, name))
            identity = nlp.get_pipe(name)._shim.identity
            assert get_layers(copied, name, identity) is not None


def test_mix_command(make_two, tmp_path):
    nlp = trained(make_two(), {"tagger": tagger(listen_to_both())})
    nlp.to_disk(tmp_path / "pipeline")
    rows = srsly.json_loads(run_elmo("mix", tmp_path / "pipeline", "--json").stdout)
    assert [(row["upstream"], len(row["weights"])) for row in rows] == [
        ("elmo", 3),
        ("elmo_news", 2),
    ]
    table = run_elmo("mix", tmp_path / "pipeline").stdout.splitlines()
    header, *lines = [line for line in table if "layer 0" in line or "tagger" in line]
    assert " ".join(header.split()) == ("component place upstream layer 0 layer 1 layer 2 gamma")
    assert [line.split()[:3] for line in lines] == [
        ["tagger", "alone", "elmo"],
        ["tagger", "output", "elmo_news"],
    ]
    gamma = header.index("gamma") + len("gamma")
    assert [line[gamma - 5 : gamma] for line in lines] == [f"{row['gamma']:.3f}" for row in rows]
