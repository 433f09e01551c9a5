"""The figures of the project's runs put together."""

import math

import pytest

from scripts.experiments.runs import Run, write_runs
from scripts.figures.results import distinct, group, load, summarize

NER = {"experiment": "ner", "data": "wnut17", "variant": "elmo"}


def test_order(tmp_path):
    """By corpus and variant as the results name them; what they do not name as in the files."""
    names = [("new", "b"), ("new", "a"), ("ud_ewt", "input"), ("wnut17", "input")]
    names += [("ud_ewt", "tok2vec")]
    scores = {"tag_acc": 0.5}
    runs = [
        Run(experiment="tagger", data=data, variant=variant, seed=0, scores=scores)
        for data, variant in names
    ]
    write_runs(runs, tmp_path)
    expected = [("wnut17", "input"), ("ud_ewt", "tok2vec"), ("ud_ewt", "input")]
    expected += [("new", "b"), ("new", "a")]
    assert [(run.data, run.variant) for run in load(tmp_path)] == expected


def test_mean_and_spread():
    values = [0.2, 0.5, 0.3]
    runs = [Run(**NER, seed=i, scores={"ents_f": value}) for i, value in enumerate(values)]
    other = Run(**{**NER, "variant": "tok2vec"}, seed=0, scores={"ents_f": 0.1})
    assert group([other, *runs], "variant") == {("tok2vec",): [other], ("elmo",): runs}
    mean = (0.2 + 0.5 + 0.3) / 3
    deviation = math.sqrt(sum((value - mean) ** 2 for value in values) / 2)
    assert summarize(runs, "ents_f") == pytest.approx((mean, deviation, 3))
    assert summarize([other], "ents_f") == (0.1, None, 1)
    assert summarize(runs, "accuracy") is None


def test_distinct():
    """Equal runs of two experiments count once; those that do not say are all different."""
    scores = {"ents_f": 0.1}
    first = Run(**NER, seed=0, scores=scores, settings="a")
    again = Run(**{**NER, "experiment": "place"}, seed=0, scores=scores, settings="a")
    others = [Run(**NER, seed=seed, scores=scores, settings="b" * (seed > 2)) for seed in (1, 2, 3)]
    assert distinct([first, *others, again]) == [first, *others]
