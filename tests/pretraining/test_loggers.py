"""Loggers of spaCy: they get the keys of spaCy's own training loop, and errors name their
settings."""

import io

import pytest
import spacy
from thinc.api import Config

from spacy_elmo.pretraining.config import check_config
from spacy_elmo.pretraining.loggers import make_logger, step_info

from helpers.models import pretraining_config

REPORT = {"step": 400, "epoch": 1.7, "tokens": 12_800, "seconds": 9.87, "tokens_per_second": 1296.9}
REPORT |= {"learn_rate": 0.002, "sampled_loss": 4.5}
FIGURES = {"forward": 200.0, "backward": 225.0, "mean": 212.5, "n_tokens": 99, "unknown": 0.02}
REPORT["perplexity"] = FIGURES
BETTER = {**REPORT, "step": 800, "perplexity": {**FIGURES, "mean": 150.0}}
CONSOLE = "spacy.ConsoleLogger.v3"
SEEN = []


@spacy.registry.loggers("test.Recorder.v1")
def recorder(name: str):
    def set_up(nlp, stdout, stderr):
        uploaded = spacy.util.dict_to_dot(nlp.config.interpolate())
        SEEN.append((name, nlp.pipe_names, uploaded))
        return SEEN.append, lambda: SEEN.append("end")

    return set_up


CONFIG = check_config(Config(pretraining_config(eval_frequency=7)))


def log(settings, *reports):
    """Return what a logger prints about some reports with two steps before each."""
    stdout, stderr = io.StringIO(), io.StringIO()
    log_step, finalize = make_logger(settings, CONFIG, stdout, stderr)
    checkpoints = ()
    for report in reports:
        log_step(None)
        log_step(None)
        info = step_info(report, checkpoints)
        checkpoints = info["checkpoints"]
        log_step(info)
    finalize()
    return stdout.getvalue()


@pytest.mark.training
@pytest.mark.pipelines
def test_step_info_has_the_keys_of_spacys_loop():
    """The values are of the same kinds."""
    from spacy.training.loop import train_while_improving

    other = spacy.blank("en")
    other.add_pipe("textcat_multilabel").add_label("A")
    example = spacy.training.Example.from_dict(other.make_doc("a b"), {"cats": {"A": 1.0}})
    optimizer = other.initialize(lambda: [example])
    more = dict.fromkeys(["accumulate_gradient", "eval_frequency", "max_steps"], 1)
    more |= {"dropout": 0.1, "patience": 0, "exclude": [], "annotating_components": []}
    batches, evaluate = iter([(0, [example])]), lambda: (0.5, {"cats_score": 0.5})
    steps = train_while_improving(other, optimizer, batches, evaluate, before_update=None, **more)
    _, theirs, _ = next(iter(steps))
    ours = step_info(REPORT)
    assert set(ours) == set(theirs)
    for name in ("epoch", "step", "score", "seconds", "words"):
        assert type(ours[name]) is type(theirs[name]), name
    assert [type(value) for value in ours["checkpoints"][0]] == [float, int]


def test_a_better_model_has_a_higher_score():
    first = step_info(REPORT)
    second = step_info(BETTER, first["checkpoints"], "out/model-last")
    assert first["score"] == -212.5
    assert second["checkpoints"] == [(-212.5, 400), (-150.0, 800)]
    assert second["score"] == max(second["checkpoints"])[0]
    assert second["output_path"] == "out/model-last"
    wanted = {"perplexity": 212.5, "perplexity_forward": 200.0, "perplexity_backward": 225.0}
    assert {**wanted, "tokens_per_second": 1296.9}.items() <= first["other_scores"].items()
    assert first["losses"] == {"elmo": 4.5}


def test_each_logger_of_a_chain_is_called():
    """Each gets the pipeline, every step, and the end."""
    SEEN.clear()
    first, second = ({"@loggers": "test.Recorder.v1", "name": name} for name in "ab")
    chain = {"@loggers": "spacy.ChainLogger.v1", "logger1": first, "logger2": second}
    assert log(chain, REPORT) == ""
    (name, pipes, uploaded), (other, *_), *steps = SEEN
    assert (name, other, pipes) == ("a", "b", ["elmo"])
    assert steps == [*[None] * 4, *[step_info(REPORT)] * 2, "end", "end"]
    wanted = {"training.eval_frequency": 7, "training.max_steps": 3, "training.learn_rate": 0.01}
    wanted |= {"components.elmo.model.lstm_dim": 16, "elmo.corpus.train": "train.txt"}
    wanted |= {"elmo.vocabulary.min_count": 1, "training.score_weights.speed": 0.0}
    assert wanted.items() <= uploaded.items()


@pytest.mark.parametrize(
    ("version", "more"),
    [("v1", {"progress_bar": True}), ("v2", {}), ("v3", {"progress_bar": "train"})],
)
def test_console_loggers_print_a_row_per_report(version, more):
    block = {"@loggers": f"spacy.ConsoleLogger.{version}"}
    header, _, row = (line.split() for line in log(block, REPORT).splitlines())
    assert header == ["E", "#", "LOSS", "ELMO", "SPEED", "SCORE"]
    # Nothing times 100 that is no share.
    assert row == ["1", "400", "4.50", "1296.90", "-212.50"]
    assert len(log({**block, **more}, REPORT, BETTER).splitlines()) == 4


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"@loggers": "spacy.NoLogger.v1"}, r"spacy\.NoLogger\.v1"),
        ({"@loggers": CONSOLE, "bar": 1}, "bar"),
        ({"@loggers": CONSOLE, "progress_bar": "x"}, "x"),
        ({}, "@loggers"),
    ],
)
def test_wrong_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=rf"(?s)\[training\.logger\].*{message}"):
        log(settings, REPORT)
