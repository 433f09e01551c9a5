import pytest
from thinc.api import Config

from spacy_elmo.bilm.config import BiLMConfig
from spacy_elmo.pretraining import config as settings
from spacy_elmo.pretraining.config import read_config

from commands import run_elmo

LITTLE = "2 cores, 60 minutes"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "train.txt").write_text("the cat sat on a mat .\n" * 100, "utf8")
    (tmp_path / "more.txt").write_text("dogs run far !\n" * 100, "utf8")
    (tmp_path / "dev.txt").write_text("a cat .\n", "utf8")
    (tmp_path / "empty.txt").write_text("\n", "utf8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments, fails=False):
    given = [str(argument) for argument in arguments]
    defaults = {"--corpus": "train.txt", "--dev": "dev.txt", "--budget": LITTLE}
    for name, value in defaults.items():
        if name not in given:
            given += [name, value]
    return run_elmo("init-config", *given, status=1 if fails else 0)


@pytest.mark.parametrize("budget", [LITTLE, "1 GPU, 1 day", "the paper"])
def test_every_setting_is_visible(folder, budget):
    run("a.cfg", "--budget", budget)
    found = Config().from_disk("a.cfg")
    assert tuple(found) == settings.SECTIONS
    for name, kind in (
        ("pretraining", settings.InitSettings),
        ("corpus", settings.CorpusSettings),
        ("vocabulary", settings.VocabularySettings),
        ("training", settings.TrainingSettings),
    ):
        assert list(found[name]) == list(kind.model_fields)
    assert set(found["model"]) == {"@architectures", *BiLMConfig().to_dict()}
    text = (folder / "a.cfg").read_text("utf8")
    assert text.startswith("# ")
    assert budget in text.split("[paths]")[0]
    assert "about 700 tokens" in text.split("[paths]")[0]


@pytest.mark.parametrize("budget", [LITTLE, "1 GPU, 1 day", "the paper"])
def test_config_is_one_that_pretrain_reads(folder, budget):
    run("a.cfg", "--budget", budget, "--lang", "de", "--format", "text")
    config = read_config("a.cfg")
    assert (config.corpus.train, config.corpus.dev) == ("train.txt", "dev.txt")
    assert (config.lang, config.corpus.format, config.seed) == ("de", "text", 0)
    assert config.training.max_minutes == {LITTLE: 60, "1 GPU, 1 day": 1440}.get(budget, 0)
    assert config.bilm.lstm_dim == (4096 if budget == "the paper" else 256)
    overridden = read_config("a.cfg", {"paths.train": "other.txt", "training.max_minutes": 1})
    assert (overridden.corpus.train, overridden.training.max_minutes) == ("other.txt", 1)


def test_several_files(folder):
    (folder / "$5 ü.txt").write_text("a b c\n", "utf8")
    run("a.cfg", "--corpus", "train.txt", "--corpus", "more.txt", "--dev", "dev.txt")
    assert read_config("a.cfg").corpus.train == ["train.txt", "more.txt"]
    run("b.cfg", "--corpus", "$5 ü.txt", "--dev", "dev.txt", "--dev", "more.txt")
    config = read_config("b.cfg")
    assert (config.corpus.train, config.corpus.dev) == ("$5 ü.txt", ["dev.txt", "more.txt"])


def test_stdout_holds_the_config_and_nothing_else(folder):
    printed = run("-").stdout
    run("a.cfg")
    assert printed == (folder / "a.cfg").read_text("utf8")
    assert not (folder / "-").exists()


def test_existing_file_stays_unless_forced(folder):
    (folder / "a.cfg").write_text("mine")
    assert "--force" in run("a.cfg", fails=True).output
    assert (folder / "a.cfg").read_text() == "mine"
    run("a.cfg", "--force")
    assert read_config("a.cfg").corpus.train == "train.txt"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--budget", "much"], '"1 GPU, 1 day"'),
        (["--corpus", "missing.txt"], "missing.txt"),
        (["--dev", "missing.txt"], "missing.txt"),
        (["--corpus", "empty.txt"], "--corpus empty.txt holds no text"),
        (["--dev", "empty.txt"], "--dev empty.txt holds no text"),
        (["--format", "lines"], "'lines'"),
    ],
)
def test_errors_have_no_traceback(folder, arguments, message):
    output = " ".join(run("a.cfg", *arguments, fails=True).output.split())
    assert message in output
    assert "Traceback" not in output
    assert not (folder / "a.cfg").exists()


def test_path_that_no_config_holds(folder):
    (folder / "${x.txt").write_text("a b\n")
    output = " ".join(run("a.cfg", "--corpus", "${x.txt", fails=True).output.split())
    assert "${" in output
