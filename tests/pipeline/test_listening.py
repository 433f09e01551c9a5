"""A listener knows the width of its pipe, and the weights that it was trained with.

`spacy.EntityLinker.v2` reads the width of its tok2vec when it is built."""

import warnings
from contextlib import contextmanager

import numpy as np
import pytest
import spacy
from spacy.kb import InMemoryLookupKB
from spacy.tokens import Span
from spacy.training import Example

from helpers.components import embed, examples, listener, tagger
from helpers.models import TINY_OPTIONS, tiny_bilm
from helpers.reference import write_random
from helpers.rounding import check_close

pytestmark = [pytest.mark.training, pytest.mark.pipelines]

INPUT = {"@architectures": "spacy-elmo.ConcatEmbed.v1", "embed": embed(), "width": None}
OUTPUT = {"@architectures": "spacy-elmo.OutputConcat.v1", "tok2vec": embed()}
# Blocks without a width, and where the same can be had with one.
BLOCKS = {
    "listener": (listener(width=None), listener()),
    "output": ({**OUTPUT, "elmo": listener(width=None)}, {**OUTPUT, "elmo": listener()}),
    "input": ({**INPUT, "elmo": listener(width=None)}, None),
}


def make_kb(vocab):
    kb = InMemoryLookupKB(vocab, entity_vector_length=5)
    for i, name in enumerate(("Q1", "Q2")):
        kb.add_entity(name, 1.0, np.eye(5)[i].tolist())
    kb.add_alias("Maria", ["Q1", "Q2"], [0.5, 0.5])
    return kb


def trained(nlp, tok2vec):
    """Return the linker's model, and the losses of some updates."""
    model = {"@architectures": "spacy.EntityLinker.v2", "tok2vec": tok2vec}
    linker = nlp.add_pipe("entity_linker", config={"model": model})
    linker.set_kb(make_kb)
    batch = []
    for text, entity in (("Maria swims .", "Q1"), ("Maria lends money .", "Q2")):
        docs = [nlp.make_doc(text) for _ in range(2)]
        for doc, kb_id in zip(docs, ("", entity)):
            doc[0].is_sent_start = True
            doc.ents = [Span(doc, 0, 1, "PER", kb_id=kb_id)]
        batch.append(Example(*docs))
    spacy.util.fix_random_seed(0)
    sgd = nlp.initialize(lambda: batch)
    losses = [nlp.update(batch, sgd=sgd)["entity_linker"] for _ in range(3)]
    return linker.model, losses, [nlp.get_pipe("elmo")(example.predicted) for example in batch]


@pytest.mark.parametrize("kind", BLOCKS)
def test_an_entity_linker_needs_no_width(make_nlp, kind, tmp_path):
    without, given = BLOCKS[kind]
    nlp = make_nlp()
    model, losses, docs = trained(nlp, without)
    assert losses[2] < losses[0]
    if given is not None:
        assert trained(make_nlp(), given)[1] == losses
    nlp.to_disk(tmp_path)
    loaded = spacy.load(tmp_path).get_pipe("entity_linker").model
    outputs = model.predict(docs)
    assert np.abs(outputs[0] - outputs[1]).max() > 1e-3
    check_close(loaded.predict(docs), outputs)


@contextmanager
def check_warned(times):
    """Check the number of warnings about weights that a component was not trained with."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    found = [one for one in caught if "trained with other weights" in str(one.message)]
    assert len(found) == times, [str(one.message) for one in caught]
    assert all("'tagger'" in str(one.message) for one in found)


@pytest.fixture
def trained_tagger(nlp):
    nlp.add_pipe("tagger", config=tagger(listener()))
    batch = examples(nlp)
    nlp.update(batch, sgd=nlp.initialize(lambda: batch))
    return nlp


def replaced_pipe(nlp, folder):
    weights = write_random(folder / "other", TINY_OPTIONS, seed=3)
    nlp.replace_pipe("elmo", "elmo", config={"weights": str(weights)})


def replaced_weights(nlp, folder):
    nlp.get_pipe("elmo").set_bilm(tiny_bilm(3, projection_dim=6, max_characters_per_token=20))


def read_weights_of_another(nlp, folder):
    weights = write_random(folder / "other", TINY_OPTIONS, seed=3)
    nlp.get_pipe("elmo").initialize(lambda: examples(nlp), weights=weights)


@pytest.mark.parametrize("change", [replaced_pipe, replaced_weights, read_weights_of_another])
def test_other_weights_of_equal_sizes_give_a_warning(trained_tagger, change, tmp_path):
    nlp, text = trained_tagger, "Maria swims"
    with check_warned(0):
        nlp(text)
    change(nlp, tmp_path)
    with check_warned(1):
        nlp(text)
        nlp(text)
    nlp.to_disk(tmp_path / "pipeline")
    with check_warned(1):
        spacy.load(tmp_path / "pipeline")(text)
    nlp.update(examples(nlp), sgd=nlp.create_optimizer())
    with check_warned(0):
        nlp(text)


def test_a_component_that_was_initialized_again_does_not_warn(trained_tagger, tmp_path):
    replaced_weights(trained_tagger, tmp_path)
    with check_warned(0):
        trained_tagger.initialize(lambda: examples(trained_tagger))
        trained_tagger("Maria swims")


def test_the_same_weights_do_not_warn(trained_tagger, tmp_path):
    """Weights are the same from another file or in another precision, or if they were fine-tuned
    together."""
    nlp, text = trained_tagger, "Maria swims"
    nlp.to_disk(tmp_path)
    with check_warned(0):
        loaded = spacy.load(tmp_path)
        loaded.get_pipe("elmo").precision = "int8"
        loaded(text)
        nlp.get_pipe("elmo").frozen = False
        nlp.update(examples(nlp), sgd=nlp.create_optimizer())
        nlp(text)
        nlp.get_pipe("elmo").frozen = True
        nlp(text)
