import pytest

from spacy_elmo.pretraining.budget import LADDER, Budget, choose, choose_sizes, parse_budget
from spacy_elmo.pretraining.config import InitSettings, TrainingSettings, VocabularySettings

MUCH = 2_000_000_000  # tokens: the text is no limit


def dims(budget, n_tokens=MUCH):
    model = choose(parse_budget(budget), n_tokens).model
    return model.lstm_dim, model.projection_dim


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2 cores, 60 minutes", Budget(n_cores=2, minutes=60)),
        ("1 GPU, 1 day", Budget(n_gpus=1, minutes=1440)),
        ("the paper", Budget()),
        ("The  Paper", Budget()),
        ("1 core 90min", Budget(n_cores=1, minutes=90)),
        (" 16 CPUs; 2.5 h ", Budget(n_cores=16, minutes=150)),
        ("8gpus,3days", Budget(n_gpus=8, minutes=4320)),
        ("4 CORES, 1 Hour", Budget(n_cores=4, minutes=60)),
    ],
)
def test_parse_budget(text, expected):
    assert parse_budget(text) == expected


@pytest.mark.parametrize(
    "text",
    ["", "60 minutes", "2 cores", "0 cores, 60 minutes", "2 cores, 0 minutes", "-2 cores, 1 hour"]
    + ["two cores, 1 hour", "2 TPUs, 1 day", "2 cores, 1 week", "2.5 cores, 1 day", "a paper"]
    + [
        "2 cores, 60 minutes please",
        "2 cores, 1 hour, 30 minutes",
        "1e3 cores, 1 day",
        "²cores 1h",
    ],
)
def test_what_is_no_budget(text):
    with pytest.raises(ValueError, match=r'2 cores, 60 minutes.*1 GPU, 1 day.*"the paper"') as info:
        parse_budget(text)
    assert f"'{text}'" in str(info.value)


def test_two_cores_for_an_hour_are_the_small_model():
    choice = choose(parse_budget("2 cores, 60 minutes"), 13_000_000)
    assert choice.model.to_dict() == {
        "lstm_dim": 512,
        "projection_dim": 128,
        "n_layers": 2,
        "cell_clip": 3.0,
        "proj_clip": 3.0,
        "use_skip_connections": True,
        "char_embed_dim": 16,
        "filters": [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256]],
        "n_highway": 1,
        "activation": "relu",
        "max_characters_per_token": 50,
    }
    assert choice.vocabulary.max_size == 30_000
    training = choice.training
    assert (training.batch_size, training.unroll_steps, training.n_negatives) == (128, 20, 4096)
    assert (training.optimizer, training.learn_rate, training.decay) == ("adam", 0.003, "cosine")
    assert (training.warmup_steps, training.state_reset, training.dropout) == (500, 0.1, 0.1)
    assert (training.precision, training.max_minutes, training.max_epochs) == ("auto", 60, 0)
    # 6,000 tokens/s for an hour, 2,560 tokens a step: 8,437 steps.
    assert 8437 / 20 < training.eval_frequency < 8437 / 8


def test_a_gpu_day_is_the_original_model():
    choice = choose(parse_budget("1 GPU, 1 day"), MUCH)
    assert (choice.model.lstm_dim, choice.model.projection_dim) == (4096, 512)
    assert choice.model.filters[-2:] == ((6, 512), (7, 1024))
    assert (choice.model.n_highway, choice.vocabulary.max_size) == (2, 800_000)
    assert (choice.vocabulary.min_count, choice.training.max_epochs) == (3, 0)


@pytest.mark.parametrize("n_tokens", [10, MUCH])
def test_the_paper_is_the_paper(n_tokens):
    choice = choose(parse_budget("the paper"), n_tokens)
    assert (choice.model.lstm_dim, choice.model.projection_dim) == (4096, 512)
    assert (choice.vocabulary.min_count, choice.vocabulary.max_size) == (3, 800_000)
    expected = TrainingSettings(
        batch_size=384,
        unroll_steps=20,
        directions="different",
        state_reset=0.0,
        n_negatives=8192,
        dropout=0.1,
        precision="float32",
        optimizer="adagrad",
        learn_rate=0.2,
        warmup_steps=0,
        decay="none",
        max_epochs=10,
        eval_frequency=10_000,
    )
    assert choice.training == expected


@pytest.mark.parametrize(
    ("budget", "expected"),
    [
        ("2 cores, 9 minutes", (256, 64)),
        ("2 cores, 10 minutes", (512, 128)),
        ("8 cores, 119 minutes", (512, 128)),
        ("8 cores, 2 hours", (1024, 256)),
        ("8 cores, 30 days", (2048, 256)),
        ("1 GPU, 59 minutes", (1024, 256)),
        ("1 GPU, 60 minutes", (2048, 256)),
        ("2 GPUs, 11 hours", (2048, 256)),
        ("2 GPUs, 12 hours", (4096, 512)),
        ("1 GPU, 24 hours", (4096, 512)),
    ],
)
def test_steps_of_the_ladder(budget, expected):
    assert dims(budget) == expected


def test_little_text_keeps_the_model_small():
    assert [dims("1 GPU, 9 days", n) for n in (999_999, 1_000_000, 2_000_000, 5_000_000)] == [
        (256, 64),
        (512, 128),
        (1024, 256),
        (2048, 256),
    ]
    choice = choose(parse_budget("1 GPU, 9 days"), 50_000)
    assert (choice.vocabulary.min_count, choice.training.max_epochs) == (1, 20)
    assert choice.training.dropout == 0.1
    # 20 epochs of 50,000 tokens, 10,240 a step: 97 steps.
    assert 1 <= choice.training.eval_frequency <= 10
    assert choice.training.warmup_steps == 9


def test_more_never_makes_the_model_smaller():
    def order(budget, n_tokens):
        return LADDER.index(choose_sizes(budget, n_tokens))

    minutes = [1, 5, 10, 30, 60, 240, 1440, 10_000, 100_000]
    texts = [0, 10**5, 10**6, 3 * 10**6, 10**7, 10**8, 10**9]
    for kind in ("n_cores", "n_gpus"):
        for n_tokens in texts:
            for machines in ([1, n] for n in (2, 4, 8, 64)):
                for a, b in zip(minutes, minutes[1:]):
                    few, many = (Budget(**{kind: n, "minutes": a}) for n in machines)
                    longer = Budget(**{kind: machines[0], "minutes": b})
                    least = order(few, n_tokens)
                    assert order(many, n_tokens) >= least
                    assert order(longer, n_tokens) >= least
                    assert order(Budget(n_gpus=1, minutes=a), n_tokens) >= least or kind == "n_gpus"
    for a, b in zip(texts, texts[1:]):
        for budget in (Budget(n_cores=2, minutes=60), Budget(n_gpus=1, minutes=2000)):
            assert order(budget, b) >= order(budget, a)
    weights = [sizes.lstm_weights for sizes in LADDER]
    assert weights == sorted(weights)


@pytest.mark.parametrize(
    ("budget", "expected"),
    [
        ("1 core, 1 hour", 64),
        ("3 cores, 1 hour", 192),
        ("8 cores, 1 hour", 512),
        ("64 cores, 1 hour", 512),
        ("1 GPU, 1 hour", 512),
    ],
)
def test_streams(budget, expected):
    assert choose(parse_budget(budget), MUCH).training.batch_size == expected


def test_dropout_where_text_is_read_again():
    budget = parse_budget("2 cores, 60 minutes")  # 21.6 million tokens, by the estimate
    assert choose(budget, 21_000_000).training.dropout == 0.1
    assert choose(budget, 22_000_000).training.dropout == 0.0


def test_sections_hold_every_setting():
    sections = choose(parse_budget("2 cores, 60 minutes"), 10**7).sections()
    for name, kind in (
        ("pretraining", InitSettings),
        ("vocabulary", VocabularySettings),
        ("training", TrainingSettings),
    ):
        assert set(sections[name]) == set(kind.model_fields)
