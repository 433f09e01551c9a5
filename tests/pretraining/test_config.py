"""Configs of `pretrain`: overrides, defaults, and errors that name file and key."""

import re

import pytest
from spacy.cli._util import _parse_override
from thinc.api import Config

from spacy_elmo.pretraining.config import check_config, read_config

from helpers.models import pretraining_config
from helpers.project_scripts import PROJECT

EXAMPLE = PROJECT / "configs" / "pretraining" / "litbank.cfg"


@pytest.mark.training
def test_overrides_change_the_example_config():
    overrides = {"paths.train": "a.txt", "corpus.dev": ["b.txt", "c.txt"], "system.seed": 4}
    overrides |= {"training.max_minutes": 0.5, "model.n_layers": 3, "nlp.lang": "de"}
    config = read_config(EXAMPLE, overrides)
    assert (config.corpus.train, config.corpus.dev) == ("a.txt", ["b.txt", "c.txt"])
    assert (config.training.max_minutes, config.bilm.n_layers) == (0.5, 3)
    assert (config.seed, config.lang) == (4, "de")


@pytest.mark.training
def test_a_path_can_be_a_number():
    """spaCy parses `--paths.train 1848` as a number."""
    overrides = {"paths.train": 1848, "corpus.dev": [1849, "b.txt"], "pretraining.init": 142}
    config = read_config(EXAMPLE, overrides)
    assert (config.corpus.train, config.corpus.dev) == ("1848", ["1849", "b.txt"])
    assert config.pretraining.init == "142"


def test_a_byte_order_mark_is_skipped(tmp_path):
    (tmp_path / "a.cfg").write_text(EXAMPLE.read_text("utf8"), "utf-8-sig")
    texts = {"paths.train": "a", "paths.dev": "b"}
    assert read_config(tmp_path / "a.cfg", texts) == read_config(EXAMPLE, texts)


def test_running_text_needs_a_language():
    config = Config(pretraining_config())
    del config["nlp"]
    assert check_config(config).lang == "xx"
    config["corpus"]["format"] = "text"
    with pytest.raises(ValueError, match=r"my.cfg: \[nlp\] lang is not set"):
        check_config(config, "my.cfg")


# Settings, each with one value that is wrong.
WRONG = """training.batchsize=3 training.batch_size=0 training.dropout=1.0 training.optimizer=sgd
training.decay=steps training.softmax=hierarchical training.precision=float16 training.keep=0
training.directions=both training.checkpoint_minutes=0
training.learn_rate=0 training.max_steps=-1 training.unroll_steps=many pretraining.vocabulary=old
pretraining.softmax_warmup=-1 vocabulary.max_size=3 vocabulary.size=3 corpus.format=lines
corpus.test=x corpus.train=0.5 corpus.noise=-0.1 corpus.noise=1.0 model.lstm_size=3 model.n_layers=0
model.projection_dim=17 system.seed=abc nlp.lang=3"""
# What the errors say besides.
SAID = {
    "training.batchsize=3": r"has no setting 'batchsize'\. Did you mean training.batch_size\?$",
    "training.min_count=3": r"has no setting 'min_count'\. Did you mean vocabulary.min_count\?$",
    "model.lstmdim=3": r"has no setting 'lstmdim'\. Did you mean model.lstm_dim\?$",
    "corpus.xyz=3": r"has no setting 'xyz'$",
    "training.dropout=high": r"dropout = 'high': it should be a .*number",
    "corpus.noise=1.0": "noise = 1.0: ",
    "corpus.train=null": r"train .*`paths.train=PATH`",
    "corpus.dev=": r"dev .*`paths.dev=PATH`",
}


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("accumulate_gradient", 3, "must be a multiple of accumulate_gradient"),
        ("state_reset", 2, r"\[training.advanced\] state_reset = 2: "),
        (
            "state_rest",
            0,
            r"has no setting 'state_rest'. Did you mean training.advanced.state_reset",
        ),
        ("batch_size", 4, r"\[training.advanced\] has no setting 'batch_size'"),
    ],
)
def test_errors_of_the_advanced_block_name_the_key(name, value, message):
    settings = pretraining_config()
    settings["training"]["advanced"][name] = value
    with pytest.raises(ValueError, match=f"^my.cfg: .*{message}"):
        check_config(Config(settings), "my.cfg")


@pytest.mark.parametrize("has_block", [True, False])
def test_the_advanced_block_can_be_overridden(tmp_path, has_block):
    settings = Config(pretraining_config())
    if not has_block:
        del settings["training"]["advanced"]
    settings.to_disk(tmp_path / "a.cfg")
    config = read_config(tmp_path / "a.cfg", {"training.advanced.decay_share": 0.25})
    assert config.training.advanced.decay_share == 0.25
    assert config.training.advanced.n_negatives == (16 if has_block else 4096)


@pytest.mark.parametrize("setting", [*WRONG.split(), *SAID])
def test_errors_name_source_and_key(setting):
    section, key, value = re.split("[.=]", setting, maxsplit=2)
    settings = pretraining_config()
    settings.setdefault(section, {})[key] = _parse_override(value)
    said = SAID.get(setting, key)
    with pytest.raises(ValueError, match=rf"^my.cfg: (\[{section}\] )?.*{said}") as error:
        check_config(Config(settings), "my.cfg")
    assert "pydantic" not in str(error.value)
    assert f"[{section}]" in str(error.value) or section in ("system", "nlp")


@pytest.mark.parametrize(
    "content",
    ["[corpus]\ntrain = ${paths.nothing}\n", "no section\n", "[nlp]\nlang = 1\nlang = 2\n"]
    + ["[nlp]\nlang = \xf6\n"],
)
def test_files_that_are_no_config_are_refused(tmp_path, content):
    (tmp_path / "a.cfg").write_text(content, "latin-1")
    with pytest.raises(ValueError, match=r"^\S*a.cfg: .+$"):
        read_config(tmp_path / "a.cfg")


def test_missing_sections_have_defaults_and_unknown_ones_are_refused(tmp_path):
    (tmp_path / "a.cfg").write_text('[corpus]\ntrain = "a.txt"\ndev = "b.txt"\n')
    assert read_config(tmp_path / "a.cfg", {"training.max_steps": 3}).training.max_steps == 3
    with pytest.raises(ValueError, match="my.cfg: unknown sections: trainin"):
        check_config(Config({**pretraining_config(), "trainin": {}}), "my.cfg")
    with pytest.raises(ValueError, match=r"a.cfg: unknown sections: trainin[^g]"):
        read_config(tmp_path / "a.cfg", {"trainin.max_steps": 3})
    with pytest.raises(ValueError, match="max_minutes are all 0. Set one"):
        read_config(tmp_path / "a.cfg", {"training.max_epochs": 0})
