"""`spacy elmo init-pretraining` writes a config that `pretrain` reads, for the text and time
given."""

import warnings
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from thinc.api import Config

from spacy_elmo.pretraining import config as settings
from spacy_elmo.pretraining import speed as module
from spacy_elmo.pretraining.trainer import Trainer

from helpers.commands import run_elmo
from helpers.models import pretraining_config
from helpers.prepared import prepare

LITTLE = "2 cores, 60 minutes"
MEASURE = module.measure_speed


@pytest.fixture(autouse=True)
def measured(monkeypatch):
    """Called with the config whose speed is asked for, which is measured in one test alone."""
    measure = Mock(return_value=700.0)
    monkeypatch.setattr(module, "measure_speed", measure)
    monkeypatch.setattr(module.os, "cpu_count", lambda: 2)
    return measure


@pytest.fixture
def folder(here):
    texts = {"train": "the cat sat on a mat .\n" * 100, "more": "dogs run far !\n" * 100}
    for name, text in {**texts, "dev": "a cat .\n", "empty": "\n"}.items():
        (here / f"{name}.txt").write_text(text, "utf8")
    return here


def run(*arguments, status=0):
    defaults = {"--corpus": "train.txt", "--dev": "dev.txt", "--budget": LITTLE}
    given = [part for option in defaults.items() if option[0] not in arguments for part in option]
    return run_elmo("init-pretraining", *arguments, *given, status=status)


@pytest.mark.training
@pytest.mark.commands
@pytest.mark.parametrize("budget", [LITTLE, "1 GPU, 1 day", "the paper"])
def test_the_config_shows_every_setting_and_pretrain_reads_it(folder, budget):
    run("a.cfg", "--budget", budget, "--lang", "de", "--format", "text")
    found = Config().from_disk("a.cfg")
    assert tuple(found) == settings.SECTIONS
    config = settings.read_config("a.cfg")
    for name in ("pretraining", "corpus", "vocabulary", "training"):
        assert set(found[name]) == set(getattr(config, name).model_dump())
    assert set(found["model"]) == {"@architectures", *config.bilm.to_dict()}
    comment = (folder / "a.cfg").read_text("utf8").split("[paths]")[0]
    assert comment.startswith("# ")
    assert budget in comment
    # 700 words, from which a tokenizer splits off punctuation: 1.2 tokens a word
    assert "about 840 tokens" in comment
    assert (config.corpus.train, config.corpus.dev) == ("train.txt", "dev.txt")
    assert (config.lang, config.corpus.format, config.seed) == ("de", "text", 0)
    assert config.training.max_minutes == {LITTLE: 60, "1 GPU, 1 day": 1440}.get(budget, 0)
    assert config.bilm.lstm_dim == (4096 if budget == "the paper" else 256)
    changes = {"paths.train": "other.txt", "training.max_minutes": 1}
    overridden = settings.read_config("a.cfg", changes)
    assert (overridden.corpus.train, overridden.training.max_minutes) == ("other.txt", 1)


@pytest.mark.training
@pytest.mark.commands
def test_several_files_can_be_given_and_dash_prints_the_config(folder):
    (folder / "$5 ü.txt").write_text("a b c\n", "utf8")
    run("a.cfg", "--corpus", "train.txt", "--corpus", "more.txt")
    assert settings.read_config("a.cfg").corpus.train == ["train.txt", "more.txt"]
    files = ("--corpus", "$5 ü.txt", "--dev", "dev.txt", "--dev", "more.txt")
    run("b.cfg", *files)
    config = settings.read_config("b.cfg")
    assert (config.corpus.train, config.corpus.dev) == ("$5 ü.txt", ["dev.txt", "more.txt"])
    assert run("-", *files).stdout == (folder / "b.cfg").read_text("utf8")
    assert not (folder / "-").exists()


@pytest.mark.commands
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--budget", "much"], '"1 GPU, 1 day"'),
        (["--corpus", "empty.txt"], "--corpus empty.txt contains no text"),
        (["--dev", "empty.txt"], "--dev empty.txt contains no text"),
        (["--format", "lines"], "'lines'"),
        (["--corpus", "${x.txt"], "${"),  # which no config can hold
    ],
)
def test_impossible_options_are_refused(folder, arguments, message):
    (folder / "${x.txt").write_text("a b\n")
    assert message in " ".join(run("a.cfg", *arguments, status=1).output.split())
    assert not (folder / "a.cfg").exists()


@pytest.mark.corpora
@pytest.mark.commands
@pytest.mark.parametrize("other", ["a", "more.txt"])
@pytest.mark.parametrize(("name", "option"), [("train", "--corpus"), ("dev", "--dev")])
def test_a_prepared_corpus_beside_other_text_is_refused(folder, name, option, other):
    for corpus in ("a", "b"):
        prepare(folder / "train.txt", folder / corpus, min_count=1, n_process=1)
    run("a.cfg")
    shown = run("b.cfg", option, other, option, "b", status=1).output
    texts = (f"--paths.{name}", f'["{other}", "b"]')
    shown += run_elmo("pretrain", "a.cfg", "-o", "out", *texts, status=1).output
    refusal = "is a prepared corpus, a pipeline or output of `embed`, not text"
    assert " ".join(shown.split()).count(refusal) == 2
    assert not (folder / "b.cfg").exists()


@pytest.mark.commands
def test_speed_is_measured_with_the_sizes_of_the_config(folder, measured):
    """For another machine, the speed is estimated."""
    (folder / "train.txt").write_text("the cat sat on a mat .\n" * 200_000, "utf8")
    output = run("a.cfg", "--budget", "2 cores, 60 minutes").output
    assert "at 700 tokens/s (measured in ten steps)" in " ".join(output.split())
    assert "1,000,000" not in output  # there is enough text
    config = settings.read_config("a.cfg")
    assert [call.args[0].bilm for call in measured.call_args_list] == [config.bilm]
    n_steps = 700 * 60 * 60 / (128 * 20)
    assert config.training.eval_frequency == pytest.approx(n_steps / 10, rel=0.2)
    for budget in ("8 cores, 60 minutes", "1 GPU, 1 day", "the paper"):
        output = run("a.cfg", "--force", "--budget", budget).output
        assert "measured in ten steps" not in " ".join(output.split())
    assert measured.call_count == 1


@pytest.mark.commands
def test_a_budget_too_short_for_the_text_says_so(folder, measured):
    (folder / "train.txt").write_text("the cat sat on a mat .\n" * 200_000, "utf8")
    measured.return_value = 100.0
    output = " ".join(run("a.cfg", "--budget", "2 cores, 5 minutes").output.split())
    assert "In 2 cores, 5 minutes, a run reads only 2.14% of the text. Allow more time" in output
    training = settings.read_config("a.cfg").training
    step_tokens = training.batch_size * training.unroll_steps
    assert 4 * training.eval_tokens <= training.eval_frequency * step_tokens
    assert training.warmup_steps == 5  # Half of the 11 steps.


@pytest.mark.commands
@pytest.mark.parametrize(
    ("lang", "advice"),
    [
        ("en", "pretrain --pretraining.init en_small"),
        ("fr", "pretrain --pretraining.init manylangs-fr"),
        ("xx", "download --list"),
    ],
)
def test_little_text_gets_advice(folder, lang, advice):
    output = " ".join(run("a.cfg", "--lang", lang).output.split())
    assert "Below 1,000,000 tokens expect a model that knows few words" in output
    assert advice in output
    assert advice in (folder / "a.cfg").read_text("utf8").split("[paths]")[0]


@pytest.mark.training
@pytest.mark.commands
def test_speed_is_estimated_if_it_cannot_be_measured(folder, monkeypatch):
    monkeypatch.setattr(module, "measure_speed", MEASURE)
    (folder / "latin.txt").write_bytes("schön\n".encode("latin-1") * 100)
    output = " ".join(run("a.cfg", "--corpus", "latin.txt").output.split())
    assert "latin.txt, line 1: not UTF-8; if it is Latin-1, iconv" in output
    assert "at an estimated" in output
    assert settings.read_config("a.cfg").corpus.train == "latin.txt"


@pytest.mark.training
@pytest.mark.parametrize("slowness", [1, 8])
def test_speed_is_the_median_of_ten_steps(folder, monkeypatch, slowness):
    """Each step takes twice as long as the one before, so the median is not the mean."""
    clock, steps = [0.0], []
    original = Trainer.step

    def step(trainer):
        steps.append(trainer.progress.step)
        clock[0] += 2.0 ** len(steps)
        return original(trainer)

    monkeypatch.setattr(Trainer, "step", step)
    monkeypatch.setattr(
        module,
        "time",
        SimpleNamespace(perf_counter=lambda: slowness * clock[0], thread_time=lambda: clock[0]),
    )
    config = settings.check_config(Config(pretraining_config(batch_size=4, unroll_steps=8)))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert MEASURE(config) == pytest.approx(32 * (2**-6 + 2**-7) / 2)
    shown = [str(one.message) for one in caught if "other processes" in str(one.message)]
    assert len(shown) == (slowness > 1) and all("takes 8.0 times" in text for text in shown)
    assert steps == list(range(11))
