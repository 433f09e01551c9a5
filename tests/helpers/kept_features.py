"""Pipelines that keep the layers of their Docs while they are trained."""

from spacy.tokens import Doc
from spacy.training import Example

from helpers.components import concat_both, concat_input, examples, listener, ner, tagger, textcat


def disk(path, **settings):
    return {"@feature_caches": "spacy-elmo.disk.v1", "path": str(path), **settings}


def fresh(batch):
    """New Docs of the same text, as a corpus reader gives them in every epoch."""
    return [Example(Doc(eg.x.vocab, words=[t.text for t in eg.x]), eg.y.copy()) for eg in batch]


def components(nlp):
    nlp.add_pipe("tagger", config=tagger(listener()))
    nlp.add_pipe("ner", config=ner(concat_both()))
    nlp.add_pipe("textcat", config=textcat(concat_input()))


def train(nlp, n_epochs=4):
    components(nlp)
    batch = examples(nlp)
    sgd = nlp.initialize(lambda: batch)
    for _ in range(n_epochs):
        nlp.update(fresh(batch), sgd=sgd)
    return batch
