"""Pipelines whose components are made and trained in one call, and configs of all kinds of them."""

from typing import Any

from spacy.language import Language
from spacy.training import Example
from thinc.api import Optimizer

from helpers.components import examples, listener, ner, tagger, textcat

SPANCAT = {"@architectures": "spacy.SpanCategorizer.v1"}
SPANCAT |= {"reducer": {"@layers": "spacy.mean_max_reducer.v1", "hidden_size": 8}}
SPANCAT |= {"scorer": {"@layers": "spacy.LinearLogistic.v1"}}


def parser(tok2vec: dict[str, Any]) -> dict[str, Any]:
    return {"model": {**ner(tok2vec)["model"], "state_type": "parser"}, "min_action_freq": 1}


def bcn(tok2vec: dict[str, Any]) -> dict[str, Any]:
    sizes = {"hidden_width": 8, "maxout_widths": [12, 6]}
    return {"model": {"@architectures": "spacy-elmo.BCN.v1", "tok2vec": tok2vec, **sizes}}


# By factory of spaCy's: the config of a component with a tok2vec.
OWN = {
    "tagger": tagger,
    "morphologizer": tagger,
    "trainable_lemmatizer": lambda tok2vec: {**tagger(tok2vec), "min_tree_freq": 1},
    "ner": ner,
    "parser": parser,
    "textcat": textcat,
    "textcat_multilabel": bcn,
    "spancat": lambda tok2vec: {"model": {**SPANCAT, "tok2vec": tok2vec}},
}


def trained(
    nlp: Language, n_updates: int = 0, **components: dict[str, Any]
) -> tuple[list[Example], Optimizer]:
    """Add components, by name, initialize the pipeline, and update it on `examples`.

    components (Dict[str, Any]): Their configs; a tagger that listens if there are none. A second
        one of a factory has a name like "tagger2".
    RETURNS (Tuple[List[Example], Optimizer]): The examples, and the optimizer.
    """
    for name, config in (components or {"tagger": tagger(listener())}).items():
        nlp.add_pipe(name.rstrip("2"), name=name, config=config)
    batch = examples(nlp)
    sgd = nlp.initialize(lambda: batch)
    for _ in range(n_updates):
        nlp.update(batch, sgd=sgd)
    return batch, sgd
