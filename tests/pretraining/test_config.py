import pytest
from thinc.api import Config

from spacy_elmo.frozen.config import BiLMConfig
from spacy_elmo.pretraining.config import check_config, read_config

from helpers.models import pretraining_config
from helpers.project_scripts import PROJECT

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


def test_byte_order_mark(tmp_path):
    text = EXAMPLE.read_text("utf8")
    (tmp_path / "a.cfg").write_text(text, "utf-8-sig")
    texts = {"paths.train": "a", "paths.dev": "b"}
    assert read_config(tmp_path / "a.cfg", texts) == read_config(EXAMPLE, texts)


def test_running_text_needs_a_language():
    config = Config(pretraining_config())
    del config["nlp"]
    assert check_config(config).lang == "xx"
    config["corpus"]["format"] = "text"
    with pytest.raises(ValueError, match=r"my.cfg: \[nlp\] lang is not set"):
        check_config(config, "my.cfg")


@pytest.mark.parametrize("name", ["train", "dev"])
def test_missing_text(name):
    other = "dev" if name == "train" else "train"
    with pytest.raises(
        ValueError, match=rf"{EXAMPLE.name}: \[corpus\] {name} .*`paths.{name}=PATH`"
    ):
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
    with pytest.raises(ValueError, match=rf"^my.cfg: .*{key}") as error:
        check_config(Config(settings), "my.cfg")
    assert "pydantic" not in str(error.value)


@pytest.mark.parametrize(
    ("section", "name", "meant"),
    [
        ("training", "batchsize", "training.batch_size"),
        ("training", "min_count", "vocabulary.min_count"),
        ("model", "lstmdim", "model.lstm_dim"),
        ("corpus", "xyz", None),
    ],
)
def test_mistyped_setting(section, name, meant):
    settings = pretraining_config()
    settings[section][name] = 3
    said = rf"\[{section}\] has no setting '{name}'"
    said += rf"\. Did you mean {meant}\?$" if meant else "$"
    with pytest.raises(ValueError, match=said):
        check_config(Config(settings))


def test_value_of_another_type():
    with pytest.raises(ValueError, match=r"\[training\] dropout = 'high': it should be a .*number"):
        check_config(Config(pretraining_config(dropout="high")))


def test_unknown_section_is_named():
    with pytest.raises(ValueError, match=r"my.cfg: unknown sections: trainin[^g]"):
        check_config(Config({**pretraining_config(), "trainin": {}}), "my.cfg")


@pytest.mark.parametrize(
    "content",
    [
        "[corpus]\ntrain = ${paths.nothing}\n",
        "no section\n",
        "[nlp]\nlang = 1\nlang = 2\n",
        "[nlp]\nlang = \xf6\n",
    ],
)
def test_what_is_no_config(tmp_path, content):
    (tmp_path / "a.cfg").write_text(content, "latin-1")
    with pytest.raises(ValueError, match=r"^\S*a.cfg: .+$"):
        read_config(tmp_path / "a.cfg")


def test_override_in_a_section_that_was_left_out(tmp_path):
    (tmp_path / "a.cfg").write_text('[corpus]\ntrain = "a.txt"\ndev = "b.txt"\n')
    config = read_config(tmp_path / "a.cfg", {"training.max_steps": 3})
    assert config.training.max_steps == 3
    with pytest.raises(ValueError, match="unknown sections: trainin"):
        read_config(tmp_path / "a.cfg", {"trainin.max_steps": 3})


def test_a_run_has_an_end():
    settings = pretraining_config(max_steps=0)
    with pytest.raises(ValueError, match="max_minutes are all 0. Set one"):
        check_config(Config(settings))
