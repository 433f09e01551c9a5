"""Several language models in one pipeline: each listener reads its own pipe, after any change."""

import copy
import shutil
from functools import partial

import numpy as np
import pytest
import spacy
import srsly
from spacy.language import Language
from spacy.tokens import Doc, DocBin

from spacy_elmo.frozen.model import FrozenBiLM
from spacy_elmo.layers.scalar_mix import mix_weights
from spacy_elmo.pipeline.mixes import learned_mixes
from spacy_elmo.vectors import get_layers, keep_vectors, restore_vectors
from spacy_elmo.weights import read_weights

from helpers import reference
from helpers.commands import run_elmo
from helpers.components import examples, listen_to_both, listener, tagger, textcat
from helpers.models import TINY_OPTIONS, weights_of
from helpers.rounding import check_close
from helpers.trained import trained as trained_together

pytestmark = pytest.mark.pipelines

TEXT = "Maria sat on the bank of the river"
LISTENER = "spacy-elmo.ElmoListener.v1"
ANY = {"@architectures": LISTENER}
PIPES = ("elmo", "elmo_news")


@pytest.fixture
def make_two(make_nlp, narrow_weights):
    """Return a function that makes a pipeline with `elmo`, 12 wide with three layers, and
    `elmo_news`, 10 wide with two layers."""

    def make(other=None, **config):
        nlp = make_nlp(**config)
        settings = {"weights": str(narrow_weights), **config, **(other or {})}
        nlp.add_pipe("elmo", name="elmo_news", config=settings)
        return nlp

    return make


def trained(nlp, components, n_updates=3):
    trained_together(nlp, n_updates, **components)
    return nlp


def answers(doc):
    return [token.tag_ for token in doc], {name: round(cat, 5) for name, cat in doc.cats.items()}


def layers_of(weights):
    return read_weights(weights).embed([TEXT.split()], "warm")[0][0]


@pytest.mark.training
@pytest.mark.parametrize("frozen", [True, False])
def test_each_listener_reads_its_pipe(make_two, frozen, tiny_weights, narrow_weights):
    """The listeners have no width and n_layers, which follow the named pipe."""
    wide, narrow = ({**ANY, "upstream": name} for name in PIPES)
    each_its_own = {"tagger": tagger(wide), "textcat": textcat(narrow)}
    nlp = trained(make_two(frozen=frozen), each_its_own, n_updates=0)
    doc = nlp(TEXT)
    files, components = (tiny_weights, narrow_weights), ("tagger", "textcat")
    for name, weights, component in zip(PIPES, files, components):
        expected = layers_of(weights)
        check_close(get_layers(doc, name), expected)
        (node,) = nlp.get_pipe(name).listeners
        assert node.get_dim("nO") == expected.shape[2]
        assert len(mix_weights(node.mix)) == len(expected)
        assert nlp.get_pipe(name).listening_components == [component]
        check_close(node.predict([doc])[0], expected.mean(0))
    np.testing.assert_array_equal(doc._.elmo, get_layers(doc, "elmo_news"))  # the last one's
    doc._.elmo = None
    assert get_layers(doc, "elmo") is get_layers(doc, "elmo_news") is None


@pytest.mark.training
@pytest.mark.parametrize("frozen", [(True, False), (False, True)])
def test_only_the_pipe_that_is_not_frozen_learns(make_two, frozen):
    nlp = make_two(frozen=frozen[0], other={"frozen": frozen[1]})
    pipes = [nlp.get_pipe(name) for name in PIPES]
    before = [weights_of(pipe.bilm) for pipe in pipes]
    trained(nlp, {"tagger": tagger(listen_to_both())})
    after = [weights_of(pipe.bilm) for pipe in pipes]
    stayed = [all(np.array_equal(a[name], b[name]) for name in a) for a, b in zip(before, after)]
    assert stayed == [isinstance(pipe.bilm, FrozenBiLM) for pipe in pipes] == list(frozen)


@pytest.mark.training
@pytest.mark.parametrize("kind", ["memory", "disk"])
def test_kept_features_belong_to_their_pipe(make_two, computed, tmp_path, kind):
    """Each pipe has its own in memory. In one file the keys contain a checksum of the weights.
    Features of scored Docs are kept, too."""
    path = {"path": str(tmp_path / "features.sqlite")} if kind == "disk" else {}
    features = {"@feature_caches": f"spacy-elmo.{kind}.v1", **path}
    nlp = trained(make_two(features=features), {"tagger": tagger(listen_to_both())}, 0)
    nlp.update(examples(nlp), sgd=nlp.create_optimizer())
    scored = [spacy.training.Example(nlp.make_doc(t), nlp.make_doc(t)) for t in ("Rome", "They")]
    nlp.evaluate(scored)
    computed.clear()
    again = [*examples(nlp), *scored]
    for name in PIPES:
        nlp.get_pipe(name).update(again)
    assert not computed
    for eg in again:
        for name in PIPES:
            expected, _ = nlp.get_pipe(name).bilm.embed([[token.text for token in eg.x]], "warm")
            check_close(get_layers(eg.x, name), expected[0])


@pytest.mark.training
@pytest.mark.commands
def test_saved_pipelines_and_docs_keep_both_pipes(make_two, tmp_path):
    """Pipelines are on disk, Docs go from process to process, and mixes are shown."""
    nlp = trained(make_two(frozen=False), {"tagger": tagger(listen_to_both())})
    nlp.to_disk(tmp_path / "pipeline")
    doc, again = nlp(TEXT), spacy.load(tmp_path / "pipeline")(TEXT)
    assert answers(again) == answers(doc)
    np.testing.assert_allclose(again.vector, doc.vector, atol=1e-5)

    stored = DocBin(docs=[keep_vectors(doc)], store_user_data=True).to_bytes()
    (binned,) = DocBin().from_bytes(stored).get_docs(nlp.vocab)
    for found in (binned, Doc(nlp.vocab).from_bytes(doc.to_bytes())):
        restore_vectors(found)
        for name in PIPES:
            layers = get_layers(found, name, nlp.get_pipe(name)._shim.identity)
            np.testing.assert_array_equal(layers, get_layers(doc, name))

    rows = srsly.json_loads(run_elmo("mix", tmp_path / "pipeline", "--json").stdout)
    for row, mix in zip(rows, learned_mixes(nlp), strict=True):
        near = {name: pytest.approx(mix[name]) for name in ("weights", "gamma")}
        assert row == {**mix, **near}
    table = run_elmo("mix", tmp_path / "pipeline").stdout.splitlines()
    header, *lines = [line for line in table if "layer 0" in line or "tagger" in line]
    assert " ".join(header.split()) == "component place upstream layer 0 layer 1 layer 2 gamma"
    places = ["tagger alone elmo", "tagger output elmo_news"]
    assert [" ".join(line.split()[:3]) for line in lines] == places
    gamma = header.index("gamma") + len("gamma")
    assert [line[gamma - 5 : gamma] for line in lines] == [f"{row['gamma']:.3f}" for row in rows]


@pytest.mark.training
def test_the_listener_of_one_pipe_can_be_replaced(make_two, tmp_path):
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


@pytest.mark.training
def test_a_listener_can_be_replaced_beside_one_of_any_pipe(make_two):
    """The other listener has the upstream "*", and is connected to the nearer pipe."""
    both = listen_to_both()
    both["elmo"] = ANY
    nlp = trained(make_two(), {"tagger": tagger(both)}, n_updates=0)
    nlp.replace_listeners("elmo", "tagger", ["model.tok2vec.tok2vec"])
    assert nlp.get_pipe("elmo").listener_map == {}
    assert set(nlp.get_pipe("elmo_news").listener_map) == {"tagger"}


@pytest.mark.parametrize("set_vectors", [(True, True), (True, False), (False, True)])
def test_vectors_are_those_of_the_last_pipe_that_sets_them(make_two, set_vectors):
    nlp = make_two(set_vectors=set_vectors[0], other={"set_vectors": set_vectors[1]})
    doc = nlp(TEXT)
    name = "elmo_news" if set_vectors[1] else "elmo"
    expected = nlp.get_pipe(name).predict([doc])[0][-1]
    check_close(doc.tensor, expected)
    check_close(doc[4].vector, expected[4])


@pytest.mark.training
def test_any_is_the_nearest_pipe_before(nlp, narrow_weights):
    """A pipe does not store layers if its listeners find a nearer one."""
    nlp.add_pipe("textcat", config=textcat(ANY))
    pipe = nlp.get_pipe("elmo")
    assert pipe.listening_components == ["textcat"]
    assert get_layers(pipe(nlp.make_doc("a b")), "elmo") is not None
    settings = {"weights": str(narrow_weights)}
    nlp.add_pipe("elmo", name="elmo_news", config=settings, before="textcat")
    assert pipe.listening_components == []
    assert get_layers(pipe(nlp.make_doc("a b")), "elmo") is None
    nlp.add_pipe("tagger", config=tagger(ANY), before="elmo_news")
    assert pipe.listening_components == ["tagger"]
    assert nlp.get_pipe("elmo_news").listening_components == ["textcat"]
    batch = examples(nlp)
    nlp.update(batch, sgd=nlp.initialize(lambda: batch))
    assert [row["upstream"] for row in learned_mixes(nlp)] == [*PIPES]
    nlp.remove_pipe("elmo_news")  # what a component was trained on stays its own
    assert pipe.listening_components == ["tagger"]


@pytest.fixture(scope="module")
def trained_once(tiny_weights, tmp_path_factory):
    """Return a folder of a pipeline with two pipes of equal sizes, and the outputs of its tok2vec.
    The tagger was trained on the nearer pipe, `second`."""
    folder = tmp_path_factory.mktemp("two")
    other = reference.write_random(folder / "other", TINY_OPTIONS, seed=3)
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", name="first", config={"weights": str(tiny_weights)})
    nlp.add_pipe("elmo", name="second", config={"weights": str(other)})
    trained(nlp, {"tagger": tagger(ANY)})
    nlp.to_disk(folder / "pipeline")
    return folder / "pipeline", layers_of(other).mean(0)


@pytest.fixture
def load_two(trained_once, tmp_path):
    """Return a function that loads the pipeline from the test's own copy."""
    return partial(spacy.load, shutil.copytree(trained_once[0], tmp_path / "pipeline"))


@pytest.fixture
def reads_second(trained_once):
    """Return a function that checks whether the tagger of a pipeline still reads `second`."""
    mean = trained_once[1]
    return lambda nlp: np.abs(vectors_of(nlp) - mean).max() < 0.1 * np.abs(mean).max()


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
    """Source the pipes from another pipeline; one gets another name."""
    new = spacy.blank("en")
    for name in ("second", "first", "tagger"):
        new.add_pipe(name, source=nlp, name="renamed" if name == "second" else name)
    return new


def saved_after_it_was_sourced(nlp):
    """The pipe has another name in another pipeline. Both pipelines are saved and loaded."""
    new, loaded = sourced(nlp), []
    for one in (new, nlp):
        one.to_disk(nlp.path)
        loaded.append(spacy.load(nlp.path))
    np.testing.assert_array_equal(*map(vectors_of, loaded))
    return loaded[1]


def one_more_before(nlp):
    nlp.add_pipe("first", name="third", source=spacy.load(nlp.path), before="tagger")
    nlp.to_disk(nlp.path)
    return spacy.load(nlp.path)


def trained_on(nlp):
    batch = examples(nlp)
    nlp.add_pipe("first", name="third", source=spacy.load(nlp.path), before="tagger")
    nlp.initialize(lambda: batch)
    nlp.update(batch, sgd=nlp.create_optimizer())


def initialized_while_it_is_disabled(nlp):
    """Initialize as `spacy train` does with frozen components."""
    with nlp.select_pipes(disable=["second"]):
        nlp.initialize(lambda: examples(nlp))


def copied(nlp):
    new = copy.deepcopy(nlp)
    for one in (nlp, new):
        pipe = one.get_pipe("second")
        assert [node.upstream for node in pipe.listeners] == [pipe]
    return new


CHANGES = [disabled_and_enabled, one_more_before, renamed_and_saved, sourced, trained_on]
CHANGES += [initialized_while_it_is_disabled, copied, saved_after_it_was_sourced]


@pytest.mark.training
@pytest.mark.parametrize("change", CHANGES)
def test_any_stays_the_pipe_it_was_trained_on(load_two, reads_second, change):
    nlp = load_two()
    assert reads_second(nlp)
    assert reads_second(change(nlp) or nlp)


def check_zeros(nlp):
    """Check that the tagger reads zeros, and not another pipe's layers."""
    nlp.get_pipe("first").store_layers = True
    with pytest.warns(UserWarning, match="'tagger' predicts from zeros.*'second'"):
        assert not vectors_of(nlp).any()


def with_wrapped_linking(monkeypatch):
    link = Language._link_components
    monkeypatch.setattr(Language, "_link_components", lambda *args: link(*args))


@pytest.mark.training
@pytest.mark.parametrize("prepare", [lambda monkeypatch: None, with_wrapped_linking])
def test_a_component_sourced_without_its_pipe_reads_zeros(
    load_two, reads_second, prepare, monkeypatch
):
    """The component does not read the pipe in its first pipeline."""
    prepare(monkeypatch)
    nlp, new = load_two(), spacy.blank("en")
    for name in ("first", "tagger"):
        new.add_pipe(name, source=nlp)
    check_zeros(new)
    with pytest.raises(ValueError, match="listens to 'second', but there is no pipe"):
        new.update(examples(new), sgd=new.create_optimizer())
    assert reads_second(nlp)


@pytest.mark.training
def test_a_component_sourced_without_any_pipe_warns(load_two, reads_second):
    """spaCy does not call the pipe, which stays connected to the component: both pipelines contain
    the same component."""
    nlp, new = load_two(), spacy.blank("en")
    new.add_pipe("tagger", source=nlp)
    with pytest.warns(UserWarning, match="'tagger' predicts from zeros.*'second'"):
        assert not vectors_of(new).any()
    assert reads_second(nlp)


def removed(nlp):
    nlp.remove_pipe("second")


def removed_by_another_pipeline(nlp):
    new = spacy.blank("en")
    for name in ("first", "second", "tagger"):
        new.add_pipe(name, source=nlp)
    new.remove_pipe("second")
    return new


@pytest.mark.training
@pytest.mark.parametrize("change", [removed, removed_by_another_pipeline])
def test_a_pipe_that_is_removed_is_not_trained(load_two, change):
    nlp = load_two()
    new = change(nlp) or nlp
    with pytest.raises(ValueError, match="listens to 'second', but there is no pipe"):
        new.update(examples(new), sgd=new.create_optimizer())


@pytest.mark.training
def test_a_disabled_pipe_initializes_a_new_component_that_names_it(load_two):
    """`spacy train` disables a sourced pipe that is frozen only by its name."""
    nlp, new = load_two(), spacy.blank("en")
    for name in ("first", "second"):
        new.add_pipe(name, source=nlp)
    new.add_pipe("tagger", config=tagger({**listener(), "upstream": "second"}))
    with new.select_pipes(disable=["second"]):
        new.initialize(lambda: examples(new))
    (node,) = new.get_pipe("second").listeners
    assert node.upstream is new.get_pipe("second")


@pytest.mark.training
@pytest.mark.parametrize("name", ["first", "second"])
def test_any_is_connected_to_a_pipe_that_was_disabled_on_loading(load_two, reads_second, name):
    """The component was trained on this pipe."""
    nlp = load_two(disable=[name])
    if name == "second":
        check_zeros(nlp)
        nlp.enable_pipe("second")
    assert reads_second(nlp)


def upstream(name):
    return {"components": {"tagger": {"model": {"tok2vec": {"upstream": name}}}}}


@pytest.mark.training
@pytest.mark.parametrize("name", ["*", "second"])
def test_a_pipe_that_is_excluded_is_not_replaced_by_another(load_two, name):
    check_zeros(load_two(exclude=["second"], config=upstream(name)))


@pytest.mark.training
def test_a_pipe_that_the_config_names_comes_before_what_it_was_trained_on(load_two, reads_second):
    nlp = load_two(config=upstream("first"))
    listening = [nlp.get_pipe(name).listening_components for name in ("first", "second")]
    assert listening == [["tagger"], []]
    assert not reads_second(nlp)
