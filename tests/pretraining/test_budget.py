"""Settings of a run for a budget of machines and time: sizes grow with the budget and the text."""

from itertools import product

import numpy as np
import pytest

from spacy_elmo.pretraining.budget import LADDER, Budget, choose, choose_sizes, parse_budget

MUCH = 2_000_000_000  # tokens: the text is no limit


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The  Paper", Budget()),
        ("1 Core 90min", Budget(n_cores=1, minutes=90)),
        (" 16 CPUs; 2.5 h ", Budget(n_cores=16, minutes=150)),
        ("8gpus,3days", Budget(n_gpus=8, minutes=4320)),
    ],
)
def test_budgets_are_parsed(text, expected):
    assert parse_budget(text) == expected


NO_BUDGETS = """
60 minutes; 2 cores; 0 cores, 60 minutes; 2 cores, 0 minutes; -2 cores, 1 hour; two cores, 1 hour;
2 TPUs, 1 day; 2 cores, 1 week; 2.5 cores, 1 day; a paper; 2 cores, 60 minutes please;
2 cores, 1 hour, 30 minutes; 1e3 cores, 1 day; ²cores 1h;"""


@pytest.mark.parametrize("text", list(map(str.strip, NO_BUDGETS.split(";"))))
def test_other_text_is_no_budget(text):
    with pytest.raises(ValueError, match=r'2 cores, 60 minutes.*1 GPU, 1 day.*"the paper"') as info:
        parse_budget(text)
    assert f"'{text}'" in str(info.value)


# 6,000 tokens/s for an hour, 2,560 tokens a step: 8,437 steps with ten evaluations.
SMALL = """lstm_dim=512 projection_dim=128 n_layers=2 cell_clip=3.0 proj_clip=3.0
use_skip_connections=True char_embed_dim=16 filters=[[1,32],[2,32],[3,64],[4,128],[5,256]]
n_highway=1 activation=relu max_characters_per_token=50 max_size=30000 batch_size=128
unroll_steps=20 n_negatives=4096 optimizer=adam learn_rate=0.003 decay=cosine warmup_steps=500
state_reset=0.1 dropout=0.1 precision=auto max_minutes=60.0 max_epochs=0
eval_frequency=800"""
LARGE = """lstm_dim=4096 projection_dim=512 n_highway=2 min_count=3 max_size=800000
filters=[[1,32],[2,32],[3,64],[4,128],[5,256],[6,512],[7,1024]]"""
PAPER = f"""{LARGE} batch_size=384 unroll_steps=20 n_negatives=8192 dropout=0.1 state_reset=0.0
directions=different precision=float32 optimizer=adagrad learn_rate=0.2 warmup_steps=0 decay=none
max_epochs=10 max_steps=0 max_tokens=0 max_minutes=0.0 eval_frequency=10000 softmax=sampled"""

FEW = "min_count=1 dropout=0.1 max_epochs=20 warmup_steps=48 eval_frequency=9 eval_tokens=23040"


@pytest.mark.parametrize(
    ("budget", "n_tokens", "expected"),
    [
        ("2 cores, 60 minutes", 13_000_000, SMALL),
        ("1 GPU, 1 day", MUCH, f"{LARGE} max_epochs=0"),
        ("the paper", 10, PAPER),
        # 21.6 million tokens, by the estimate: dropout where text is read again.
        ("2 cores, 60 minutes", 21_000_000, "dropout=0.1"),
        ("2 cores, 60 minutes", 22_000_000, "dropout=0.0"),
        # 20 epochs of 50,000 tokens, 10,240 a step: 97 steps.
        ("1 GPU, 9 days", 50_000, FEW),
    ],
)
def test_budgets_choose_the_expected_settings(budget, n_tokens, expected):
    sections = [*choose(parse_budget(budget), n_tokens).sections().values()]
    sections += [section["advanced"] for section in sections if "advanced" in section]
    found = {k: str(v).replace(" ", "") for section in sections for k, v in section.items()}
    wanted = dict(setting.split("=") for setting in expected.split())
    assert {name: found[name] for name in wanted} == wanted


@pytest.mark.parametrize("minutes", [1, 3, 10, 60, 6000])
@pytest.mark.parametrize("speed", [100.0, 3000.0, None])
def test_evaluations_are_a_small_part_of_a_run(minutes, speed):
    training = choose(Budget(n_cores=2, minutes=minutes), 5_000_000, speed).training
    read = training.eval_frequency * training.batch_size * training.unroll_steps
    assert 5_000 <= training.eval_tokens <= min(50_000, read / 4)


# By budget: lstm_dim, projection_dim, streams.
STEPS = {
    "1 core, 1 hour": (512, 128, 64),
    "2 cores, 9 minutes": (256, 64, 128),
    "2 cores, 10 minutes": (512, 128, 128),
    "8 cores, 119 minutes": (512, 128, 512),
    "8 cores, 2 hours": (1024, 256, 512),
    "8 cores, 30 days": (2048, 256, 512),
    "64 cores, 14 minutes": (512, 128, 512),
    "1 GPU, 59 minutes": (1024, 256, 512),
    "1 GPU, 60 minutes": (2048, 256, 512),
    "2 GPUs, 11 hours": (2048, 256, 512),
    "2 GPUs, 12 hours": (4096, 512, 512),
}


@pytest.mark.parametrize("budget", STEPS)
def test_larger_budgets_choose_larger_models(budget):
    choice = choose(parse_budget(budget), MUCH)
    found = choice.model.lstm_dim, choice.model.projection_dim, choice.training.batch_size
    assert found == STEPS[budget]


def test_little_text_keeps_the_model_small():
    budget = parse_budget("1 GPU, 9 days")
    choices = [choose(budget, n) for n in (999_999, 1_000_000, 2_000_000, 5_000_000)]
    assert [choice.model.lstm_dim for choice in choices] == [256, 512, 1024, 2048]


def test_more_never_makes_the_model_smaller():
    """More may be time, machines or text. A GPU is more than any number of cores."""

    def rank(kind, n, minutes, n_tokens):
        return LADDER.index(choose_sizes(Budget(**{kind: n, "minutes": minutes}), n_tokens))

    texts = [0, 10**5, 10**6, 3 * 10**6, 10**7, 10**8, 10**9]
    times = [1, 5, 10, 30, 60, 240, 1440, 10_000, 100_000]
    axes = ["n_cores", "n_gpus"], [1, 2, 4, 8, 64], times, texts
    ranks = np.reshape([rank(*one) for one in product(*axes)], [len(axis) for axis in axes])
    assert all((np.diff(ranks, axis=axis) >= 0).all() for axis in range(4))
    assert (ranks[1, 0] >= ranks[0]).all()
    weights = [sizes.lstm_weights for sizes in LADDER]
    assert weights == sorted(weights)
