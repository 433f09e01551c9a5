"""Components that listen train on awkward batches: Docs without tokens, of one token, of blanks,
and without gold annotation. If their weights are NaN, the training stops before the language model
learns from them."""

from itertools import product

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc, Span
from spacy.training import Example

from helpers.components import concat_both, listener
from helpers.gradients import parameters
from helpers.models import weights_of
from helpers.tasks import COREF, QA, TASKS, TEXTPAIR, without_elmo
from helpers.trained import OWN

pytestmark = pytest.mark.training

PAIRS = {QA: ("question", "context"), TEXTPAIR: ("premise", "hypothesis")}
CONFIGS = {**OWN, **{task.factory: task.config for task in TASKS}}


def example(nlp, text, groups, *, is_annotated=True, labels=("X", "Y")):
    """Make an example with annotation for all components, if the Doc has tokens."""
    words = text.split("_") if text else []
    n = len(words)
    deps = ["ROOT", *["dep"] * (n - 1)][:n]
    known = {"heads": [0] * n, "deps": deps} if is_annotated else {}
    docs = Doc(nlp.vocab, words), Doc(nlp.vocab, words, **known)
    for doc in docs:
        for group, half in zip(groups, (doc[: n // 2], doc[n // 2 :])):
            doc.spans[group] = [half]
    if not n or not is_annotated:
        return Example(*docs)
    first = Span(doc, 0, 1, label=labels[0])
    doc.set_ents([first, *[Span(doc, i, i + 1, label=labels[-1]) for i in range(1, len(doc))]])
    doc.cats = {label: float(i == len(doc) % len(labels)) for i, label in enumerate(labels)}
    doc.spans["sc"], doc.spans["answer"] = list(doc.ents), [doc[-1:]]
    doc.spans["srl"] = [Span(doc, i, i + 1, label="XV"[i == 0]) for i in range(min(2, len(doc)))]
    doc.spans["coref_clusters_1"] = [doc[:1]]
    for i, token in enumerate(doc):
        token.tag_ = token.pos_ = "NOUN" if i % 2 else "VERB"
        token.lemma_ = token.text.lower()
        token.set_morph("A=B")
    return Example(*docs)


USUAL = ["Maria_sat_on_it", "A_bank_in_Rome_.", "Tom_ran"]
BATCHES = {
    "usual": (USUAL, {}),
    "without tokens": (["", ""], {}),
    "with and without": (["", *USUAL, ""], {}),
    "one token": (["x"], {}),
    "blanks": ([" ", "\n_  "], {}),
    "no gold": (USUAL, {"is_annotated": False}),
    "one label": (USUAL, {"labels": ("X",)}),
}
# BCN and ESIM are models of spaCy's component, which does not look at its loss; a tagger's model
# looks at its scores.
NAN = {"textcat_multilabel": r"\[E910\].*'elmo_bcn'"}
NAN |= {"tagger": "E940", "morphologizer": "E940"}
UPDATES = [{}, {"exclude": ["elmo"], "annotates": ["elmo"]}]


def batches(nlp, groups):
    """Yield names and batches. Each text of a pair has a token, because spaCy cannot copy other
    Docs with pairs."""
    for name, (texts, how) in BATCHES.items():
        usable = [text for text in texts if "_" in text or not groups]
        yield name, [example(nlp, text, groups, **how) for text in usable]


def check_stops(nlp, factory, data, optimizer):
    """Check that an update raises an error, such as spaCy's E910, if all weights except those of
    mixes are NaN."""
    for name, values, _ in parameters(nlp.get_pipe(factory).model):
        assert values.isfinite().all()
        if not name.startswith("elmo_scalar_mix"):
            values.fill_(np.nan)
    with pytest.raises(ValueError, match=NAN.get(factory, rf"\[E910\].*'{factory}'")):
        nlp.update(data, sgd=optimizer)


FROZEN = [(factory, True) for factory in ("ner", "textcat", QA.factory, COREF.factory)]


@pytest.mark.pipelines
@pytest.mark.parametrize(("factory", "frozen"), [*product(CONFIGS, [False]), *FROZEN])
def test_components_train_on_awkward_batches_and_stop_at_nan(make_nlp, factory, frozen):
    nlp = make_nlp(frozen=frozen)
    tok2vec = listener() if frozen else concat_both()
    nlp.add_pipe(factory, config=CONFIGS[factory](tok2vec))
    groups = next((names for task, names in PAIRS.items() if task.factory == factory), ())
    found = dict(batches(nlp, groups))
    optimizer = nlp.initialize(lambda: found["usual"])
    for data in found.values():
        for how in UPDATES[: 1 if frozen else None]:
            losses = nlp.update(data, sgd=optimizer, **how)
            assert np.isfinite(list(losses.values())).all()
        nlp.evaluate(data)
    check_stops(nlp, factory, found["usual"], optimizer)
    for values in weights_of(nlp.get_pipe("elmo").bilm).values():
        assert np.isfinite(values).all()


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.factory)
def test_a_batch_without_tokens_changes_no_weight(task):
    """The components have no ELMo here. Some of spaCy's own encoders fail on such a batch. NaN
    stops this training, too."""
    nlp = spacy.blank("en")
    task.add(nlp, without_elmo(QA.tok2vec["encode"]))
    data = task.examples(nlp)
    optimizer = nlp.initialize(lambda: data)
    nlp.update(data, sgd=optimizer)
    pipe = nlp.get_pipe(task.factory)
    if task not in PAIRS:
        before = [values.clone() for _, values, _ in parameters(pipe.model)]
        annotated = Doc(nlp.vocab)
        annotated.spans["srl"] = []
        nothing = [Example(Doc(nlp.vocab), annotated)] * 2
        assert pipe.update(nothing, sgd=optimizer) == {task.factory: 0.0}
        for (name, values, _), kept in zip(parameters(pipe.model), before):
            assert bool((values == kept).all()), name
    check_stops(nlp, task.factory, data, optimizer)
