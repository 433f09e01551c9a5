"""What the plans of the experiments hold, and which sentences a share is."""

import re
from collections import Counter

import pytest

from scripts.experiments import trials
from scripts.experiments.trial_config import choose

STATIC = ["tok2vec", "static", "input", "static_input"]
LANGUAGE_MODELS = ["both", "forward", "forward_half", "backward_half", "words", "highway", "none"]
MIXES = ["top", "average", "layer_0", "layer_1", "lambda_1", "lambda_0.001", "rate_10"]
# The tables, line by line: experiment, corpora, variants, shares.
TABLES = [
    ("ner", ["wnut17", "uner_ewt"], [*STATIC, "bilstm", "elmo", "input_output"], [1.0]),
    ("textcat", ["sst5", "trec"], STATIC, [1.0]),
    ("tagger", ["ud_ewt"], [*STATIC, "elmo"], [1.0]),
    ("srl", ["ewt_srl"], ["tok2vec", "input"], [1.0]),
    ("crf", ["wnut17", "uner_ewt"], ["tok2vec", "input", "taglm"], [1.0]),
    ("bcn", ["sst5"], ["tok2vec", "input", "input_output"], [1.0]),
    ("qa", ["new_wiki"], ["tok2vec", "input", "input_output"], [1.0]),
    ("textpair", ["snli"], ["tok2vec", "input", "output", "input_output"], [1.0]),
    ("coref", ["litbank_coref", "ontogum_coref"], ["tok2vec", "input"], [1.0]),
    ("sample_efficiency", ["uner_ewt"], ["tok2vec", "input"], [0.01, 0.03, 0.1, 0.3, 0.5, 1.0]),
    ("sample_efficiency", ["ud_ewt"], ["tok2vec", "input"], [0.01, 0.03, 0.1, 0.3, 1.0]),
    ("mix", ["wnut17", "sst5"], MIXES, [1.0]),
    ("tuning", ["wnut17"], ["input", "fine_tuned", "dropout_0.5"], [1.0]),
    ("two_hours", ["wnut17"], ["tok2vec", "pretrained", "two_hours"], [1.0]),
    ("domain", ["wnut17"], ["input", "domain"], [1.0]),
    (
        "historical",
        [f"europeana_{name}" for name in ("lft", "onb", "sbb")],
        ["tok2vec", "static", "de_historical", "newspapers", "en_small"],
        [1.0],
    ),
    (
        "robustness",
        ["wnut17", "uner_ewt"],
        ["tok2vec", "static", "input", "transformer"],
        [1.0],
    ),
    (
        "transformer",
        ["wnut17", "uner_ewt", "sst5", "trec", "ud_ewt"],
        ["input", "transformer"],
        [1.0],
    ),
    ("language_models", ["wnut17"], LANGUAGE_MODELS, [1.0]),
    ("place", ["wnut17"], ["input", "output", "input_output", "crf_input", "taglm"], [1.0]),
]


def expand(seeds):
    return Counter(
        (experiment, data, variant, share, seed)
        for experiment, corpora, variants, shares in TABLES
        for data in corpora
        for variant in variants
        for share in shares
        for seed in seeds
    )


def fields(trial):
    return trial.experiment, trial.data, trial.variant, trial.share, trial.seed


def test_full_plan_is_the_tables():
    assert Counter(map(fields, trials.full_plan())) == expand([0, 1, 2])


def test_names_differ():
    names = [trial.name for trial in trials.full_plan()]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[\w.-]+", name) for name in names)


def test_the_most_telling_come_first():
    """What ELMo gains, with every seed, before the rest; with a seed's tables in one piece."""
    plan = trials.full_plan()
    gains = [trial.experiment in trials.GAINS for trial in plan]
    assert gains == sorted(gains, reverse=True)
    seeds = [trial.seed for trial in plan]
    assert seeds == sorted(seeds[: sum(gains)]) + sorted(seeds[sum(gains) :])


def test_models_of_their_own():
    """By experiment or variant, on the data of another task."""
    tasks = {(t.experiment, t.data, t.variant): t.task for t in trials.full_plan()}
    assert tasks["crf", "wnut17", "input"] == tasks["place", "wnut17", "taglm"] == "crf"
    assert tasks["place", "wnut17", "crf_input"] == "crf"
    assert tasks["place", "wnut17", "input"] == tasks["ner", "wnut17", "input"] == "ner"
    assert tasks["bcn", "sst5", "input"] == "bcn"
    assert tasks["textcat", "sst5", "input"] == "textcat"


def test_quick_plan_has_every_experiment():
    """The same rows with one seed, and never all sentences."""
    rows = {(t.experiment, t.data, t.variant) for t in trials.quick_plan()}
    assert rows == {row[:3] for row in expand([0])}
    assert {t.seed for t in trials.quick_plan()} == {0}
    shares = {t.experiment: set() for t in trials.quick_plan()}
    for trial in trials.quick_plan():
        shares[trial.experiment].add(trial.share)
    assert shares.pop("sample_efficiency") == {0.01, 0.1}
    assert all(found == {0.1} for found in shares.values())


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"experiment": "parser"}, "parser"),
        ({"data": "conll"}, "conll"),
        ({"variant": "bert"}, "bert"),
        ({"share": 0.0}, "share"),
        ({"share": 1.5}, "share"),
    ],
)
def test_impossible_trials(change, named):
    settings = {"experiment": "ner", "data": "wnut17", "variant": "input", **change}
    with pytest.raises(ValueError, match=named):
        trials.check_trial(trials.Trial(**settings))


@pytest.mark.parametrize("n_examples", [1, 57, 3394])
def test_shares_are_nested(n_examples):
    """1 % are part of the 3 %, and so on; every share has its size."""
    previous: set[int] = set()
    for share in (0.01, 0.03, 0.1, 0.3, 0.5, 1.0):
        chosen = choose(n_examples, share, seed=3)
        assert chosen == sorted(set(chosen))
        assert previous <= set(chosen) <= set(range(n_examples))
        assert len(chosen) == max(1, round(share * n_examples))
        previous = set(chosen)
    assert len(previous) == n_examples


def test_shares_differ_by_seed():
    assert choose(1000, 0.1, seed=0) == choose(1000, 0.1, seed=0)
    both = set(choose(1000, 0.1, seed=0)) & set(choose(1000, 0.1, seed=1))
    assert len(both) < 40  # 10 would be chance
