import pytest
from thinc.api import Config

from spacy_elmo.bilm.config import BiLMConfig
from spacy_elmo.pretraining.config import check_config, read_config

from models import pretraining_config
from project_scripts import PROJECT

EXAMPLE = PROJECT / "configs" / "pretraining" / "litbank.cfg"


def test_what_is_set_and_what_is_not():
    config = check_config(Config(pretraining_config(batch_size=7)))
    assert config.bilm == BiLMConfig(
        lstm_dim=16,
        projection_dim=8,
        char_embed_dim=4,
        filters=((1, 4), (2, 8), (3, 8)),
        max_characters_per_token=12,
    )
    assert (config.lang, config.seed, config.corpus.format) == ("en", 0, "sentences")
    assert (config.training.batch_size, config.training.decay) == (7, "cosine")
    assert (config.vocabulary.min_count, config.vocabulary.max_size) == (1, 30_000)


def test_example_config_with_overrides():
    overrides = {
        "paths.train": "a.txt",
        "corpus.dev": ["b.txt", "c.txt"],
        "training.max_minutes": 0.5,
        "model.n_layers": 3,
        "system.seed": 4,
        "nlp.lang": "de",
    }
    config = read_config(EXAMPLE, overrides)
    assert (config.corpus.train, config.corpus.dev) == ("a.txt", ["b.txt", "c.txt"])
    assert (config.training.max_minutes, config.bilm.n_layers) == (0.5, 3)
    assert (config.seed, config.lang) == (4, "de")


@pytest.mark.parametrize("name", ["train", "dev"])
def test_missing_text(name):
    other = "dev" if name == "train" else "train"
    with pytest.raises(ValueError, match=rf"{EXAMPLE.name}: \[corpus\] {name} .*--paths.{name}"):
        read_config(EXAMPLE, {f"paths.{other}": "a.txt"})


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        ("training", "batchsize", 3),
        ("training", "batch_size", 0),
        ("training", "dropout", 1.0),
        ("training", "optimizer", "sgd"),
        ("training", "decay", "steps"),
        ("training", "softmax", "hierarchical"),
        ("training", "precision", "float16"),
        ("training", "directions", "both"),
        ("training", "accumulate_gradient", 3),
        ("training", "checkpoint_minutes", 0),
        ("training", "keep", 0),
        ("pretraining", "vocabulary", "old"),
        ("pretraining", "softmax_warmup", -1),
        ("training", "learn_rate", 0),
        ("training", "max_steps", -1),
        ("training", "unroll_steps", "many"),
        ("vocabulary", "max_size", 3),
        ("vocabulary", "size", 3),
        ("corpus", "format", "lines"),
        ("corpus", "test", "x"),
        ("corpus", "train", 3),
        ("model", "lstm_size", 3),
        ("model", "n_layers", 0),
        ("model", "projection_dim", 17),
        ("system", "seed", "abc"),
        ("nlp", "lang", 3),
    ],
)
def test_error_names_source_and_key(section, key, value):
    settings = pretraining_config()
    settings.setdefault(section, {})[key] = value
    with pytest.raises(ValueError, match=rf"(?s)^my.cfg: .*{key}"):
        check_config(Config(settings), "my.cfg")


def test_unknown_section_is_named():
    with pytest.raises(ValueError, match=r"my.cfg: unknown sections: trainin[^g]"):
        check_config(Config({**pretraining_config(), "trainin": {}}), "my.cfg")


@pytest.mark.parametrize("content", ["[corpus]\ntrain = ${paths.nothing}\n", "no section\n"])
def test_what_is_no_config(tmp_path, content):
    (tmp_path / "a.cfg").write_text(content)
    with pytest.raises(ValueError, match=r"\S"):
        read_config(tmp_path / "a.cfg")


def test_a_run_has_an_end():
    settings = pretraining_config(max_steps=0)
    with pytest.raises(ValueError, match="one of max_epochs, max_steps, max_tokens and max_min"):
        check_config(Config(settings))
