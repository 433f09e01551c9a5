"""`spacy.EntityLinker.v2` reads the width of its tok2vec when it is built."""

import numpy as np
import pytest
import spacy
from spacy.kb import InMemoryLookupKB
from spacy.tokens import Span
from spacy.training import Example

from helpers.components import embed, listener
from helpers.rounding import check_close

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
    """The linker's model, and the losses of some updates."""
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
def test_entity_linker_without_width(make_nlp, kind, tmp_path):
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
