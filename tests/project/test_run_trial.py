"""Trials of the experiments, from the data to the line of the run, with a tiny language model."""

import json
import os
import shutil
import signal
import time
from unittest.mock import Mock

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc, DocBin, Span
from spacy.util import load_model_from_config

from spacy_elmo.layers.scalar_mix import mix_weights
from spacy_elmo.tasks.coref.clusters import write_clusters
from spacy_elmo.tasks.srl.frames import write_frames
from spacy_elmo.weights import read_weights

from helpers import forked
from helpers.project_scripts import VOCAB, app, call, environment
from scripts.experiments import run_plan, run_trial, trials
from scripts.experiments.runs import read_runs
from scripts.experiments.trial_config import COMPONENTS, PLACES, Inputs, build_config

pytestmark = pytest.mark.training  # the scripts do, which are called by their names

SHORT = ("--max-steps", 4, "--eval-frequency", 2, "--patience", 0)


def make_doc(number):
    """Return a sentence with every annotation. No two are the same."""
    words = ["Ann", "saw", "Rome", "bank" if number % 3 else "loan", "Ann", str(number)]
    pos = ["PROPN", "VERB", "PROPN", "NOUN", "PROPN", "NUM"]
    doc = Doc(VOCAB, words=words, tags=["NNP", "VBD", "NNP", "NN", "NNP", "CD"], pos=pos)
    doc.ents = [Span(doc, 0, 1, "PER"), Span(doc, 2, 3, "LOC"), Span(doc, 4, 5, "PER")]
    write_frames(doc, {1: [(0, 1, "ARG0"), (1, 2, "V")]})
    halves = {"premise": doc[:1], "question": doc[:1], "hypothesis": doc[1:], "context": doc[1:]}
    for group, span in {**halves, "answer": doc[-1:]}.items():
        doc.spans[group] = [span]
    write_clusters(doc, [[(0, 1), (4, 5)], [(2, 3)]])
    doc.cats = {"MONEY": float("loan" in words), "OTHER": float("loan" not in words)}
    return doc


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    """Return a folder with all corpora, tiny, each with all annotation."""
    folder = tmp_path_factory.mktemp("corpus")
    for start, data in enumerate(trials.TASKS):
        for split, size in (("train", 40), ("dev", 10), ("test", 12)):
            docs = [make_doc(1000 * start + number) for number in range(size)]
            DocBin(docs=docs).to_disk(folder / f"{data}-{split}.spacy")
    return folder


@pytest.fixture
def try_it(corpus, tiny_weights, tmp_path):
    """Does a trial: experiment, data, variant, options. The run's line."""

    def try_it(name, data, variant, *options, corpus=corpus):
        """Make a function that runs a trial and returns the line of the run as a dict."""
        where = ("--corpus", corpus, "--model", tiny_weights, "--runs", tmp_path / "runs")
        call("experiments.run_trial", name, data, variant, *where, *(options or SHORT))
        runs = read_runs(tmp_path / "runs")
        found = next(one for one in runs if (one.experiment, one.variant) == (name, variant))
        return json.loads(found.line)

    return try_it


@pytest.mark.parametrize(
    ("name", "data", "variant", "score"),
    [
        ("ner", "wnut17", "input_output", "ents_f"),
        ("textcat", "sst5", "input", "accuracy"),
        ("tagger", "ud_ewt", "input", "pos_acc"),
        ("tagger", "ud_ewt", "elmo", "tag_acc"),
        ("srl", "ewt_srl", "input", "srl_f"),
        ("crf", "wnut17", "taglm", "ents_f"),
        ("bcn", "sst5", "input_output", "accuracy"),
        ("textpair", "snli", "tok2vec", "cats_acc"),
        ("textpair", "snli", "input_output", "cats_acc"),
        ("qa", "new_wiki", "input", "qa_f1"),
        ("coref", "litbank_coref", "input", "coref_f"),
    ],
)
def test_a_trial_gives_scores_history_and_mixes(try_it, name, data, variant, score):
    result = try_it(name, data, variant, *SHORT, "--seed", 3, "--share", 0.5)
    row = {"experiment": name, "data": data, "variant": variant, "seed": 3, "share": 0.5}
    assert row.items() <= result.items()
    for scores in (result["scores"], result["dev_scores"]):
        assert 0.0 <= scores[score] <= 1.0
        assert all(isinstance(value, float) for value in scores.values())
    assert result["seconds"] > 0.0 <= result["epochs"]
    assert [step for step, _ in result["history"]] == [0, 2, 4]
    assert max(score for _, score in result["history"]) <= 1.0
    if variant == "tok2vec":
        assert result["mixes"] == result["model"] == {}
        return
    assert len(result["model"]["checksum"]) == 64
    expected = ["tagger", "morphologizer"] if variant == "elmo" else [COMPONENTS[name]]
    assert sorted(result["mixes"]) == sorted(expected)
    for mixes in result["mixes"].values():
        assert len(mixes) == (2 if variant == "input_output" else 1)
        assert all(sum(mix["weights"]) == pytest.approx(1.0, abs=1e-4) for mix in mixes)


def test_scores_are_those_of_the_best_model(try_it, monkeypatch):
    """The last model, and its language model, may be worse than those of the best evaluation."""
    scores = iter([0.1, 0.9, 0.2, 0.3])
    kept, found = [], []

    def weights_of(nlp):
        ner = nlp.get_pipe("ner").model.to_bytes()
        return {"elmo": nlp.get_pipe("elmo").bilm.checksum(), "ner": ner}

    def evaluation(nlp, corpus, weights):
        def evaluate():
            score = next(scores)
            kept.append((score, weights_of(nlp)))
            return score, {"ents_f": score}

        return evaluate

    def remember(nlp, path):
        found.append(weights_of(nlp))
        return {"ents_f": 0.5}

    monkeypatch.setattr("spacy.training.loop.create_evaluation_callback", evaluation)
    monkeypatch.setattr(run_trial, "evaluate", remember)
    try_it("tuning", "wnut17", "fine_tuned", *SHORT, "--max-steps", 6)
    assert [score for score, _ in kept] == [0.1, 0.9, 0.2, 0.3]
    best, last = dict(kept)[0.9], dict(kept)[0.3]
    assert found == [best] * 2
    assert all(best[name] != last[name] for name in best)


def test_a_trial_is_not_repeated(try_it, monkeypatch, corpus, tmp_path):
    """One of two equal trials for two experiments is trained.

    Other settings, data or another language model make another trial.
    """
    first = try_it("ner", "wnut17", "input")
    try_it("ner", "wnut17", "tok2vec")
    monkeypatch.setattr(run_trial, "do", Mock(side_effect=AssertionError("is trained")))
    assert try_it("ner", "wnut17", "input") == first
    twin = try_it("place", "wnut17", "input")
    assert {**twin, "experiment": "ner"} == first
    assert try_it("mix", "wnut17", "lambda_0.001")["scores"] == first["scores"]
    try_it("ner", "wnut17", "tok2vec", "--model", tmp_path / "none", *SHORT)
    other = shutil.copytree(corpus, tmp_path / "corpus")
    try_it("ner", "wnut17", "tok2vec", corpus=other)  # elsewhere, but the same
    DocBin(docs=[make_doc(7)]).to_disk(other / "wnut17-test.spacy")
    with pytest.raises(AssertionError, match="is trained"):
        try_it("ner", "wnut17", "tok2vec", corpus=other)
    changes = ("--force", "--max-steps 2", "--max-minutes 9", "--seed 1", "--share 0.5")
    for change in ("output", *(f"input {change}" for change in changes)):
        variant, *options = change.split()
        with pytest.raises(AssertionError, match="is trained"):
            try_it("ner", "wnut17", variant, *SHORT, *options)


def test_a_trial_depends_on_its_vectors_tok2vec_and_language_model(
    try_it, monkeypatch, corpus, tiny_weights, tmp_path
):
    """The error of one line names a missing one."""
    nlp = spacy.blank("en")
    nlp.vocab.set_vector("bank", np.ones(4, "f"))
    nlp.to_disk(tmp_path / "vectors")
    shutil.copytree(tiny_weights.parent, tmp_path / "models" / "domain" / "model-best")
    text = tmp_path / "text.txt"
    text.write_text("The bank lent money .\n" * 20)
    call("experiments.pretrain_tok2vec", text, tmp_path / "tok2vec", "--minutes", 0.001)
    made = {
        ("ner", "static"): ("--vectors", tmp_path / "vectors"),
        ("two_hours", "pretrained"): ("--tok2vec", tmp_path / "tok2vec" / "model0.bin"),
        ("domain", "domain"): ("--models", tmp_path / "models"),
    }
    for (name, variant), given in made.items():
        assert try_it(name, "wnut17", variant, *SHORT, *given)["scores"]
        options = ("--corpus", corpus, "--runs", tmp_path / "none", given[0], tmp_path / "nowhere")
        output = call("experiments.run_trial", name, "wnut17", variant, *options, fails=True)
        assert "nowhere" in output
    monkeypatch.setattr(run_trial, "do", Mock(side_effect=AssertionError("is trained")))
    nlp.vocab.set_vector("bank", np.zeros(4, "f"))
    nlp.to_disk(tmp_path / "vectors")
    with pytest.raises(AssertionError, match="is trained"):
        try_it("ner", "wnut17", "static", *SHORT, "--vectors", tmp_path / "vectors")


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_half_a_model_has_one_direction(tiny_weights, tmp_path, direction):
    """The LSTMs of the other direction give zeros.

    The remaining direction gives the same as before.
    """
    path = tmp_path / "half.safetensors"
    call("experiments.half_model", tiny_weights, direction, path)
    whole, half = (read_weights(one) for one in (str(tiny_weights), str(path)))
    width = whole.config.projection_dim
    at, silent = slice(0, width), slice(width, None)
    if direction == "backward":
        at, silent = silent, at
    sentences = [["The", "bank", "lent", "money"]]
    before, after = (model.embed(sentences)[0][0] for model in (whole, half))
    np.testing.assert_array_equal(after[..., at], before[..., at])
    assert not after[1:, :, silent].any()
    assert before[1:, :, silent].any()


@pytest.mark.pipelines
@pytest.mark.parametrize("variant", trials.VARIANTS)
def test_a_variant_has_its_listeners_and_mixes(corpus, tiny_weights, variant):
    trial = trials.Trial("ner", "wnut17", variant)
    has_elmo = variant not in ("tok2vec", "bilstm", "static", "pretrained")
    assert bool(PLACES[variant]) == has_elmo
    inputs = Inputs(run_trial.describe_model(str(tiny_weights)) if has_elmo else None)
    paths = [corpus / f"wnut17-{split}.spacy" for split in ("train", "dev")]
    nlp = load_model_from_config(build_config(trial, *paths, inputs, {}), auto_fill=True)
    component = "elmo_crf" if variant in ("crf_input", "taglm") else "ner"
    before = {"pretrained": ["tok2vec"]}.get(variant, ["elmo"] if has_elmo else [])
    assert nlp.pipe_names == [*before, component]
    tok2vec = nlp.get_pipe(component).model.get_ref("tok2vec")
    has_static = any(node.name == "static_vectors" for node in tok2vec.walk())
    assert has_static == (variant in ("static", "static_input"))
    mixes = [node for node in tok2vec.walk() if node.name == "elmo_scalar_mix"]
    assert len(mixes) == (2 if variant == "input_output" else has_elmo)
    alone = {"top": 2, "taglm": 2, "layer_1": 1, "layer_0": 0}
    for mix in mixes:
        usual = 0.001 if mix.attrs["trainable"] else 0.0
        assert mix.attrs["l2"] == (1.0 if variant == "lambda_1" else usual)
        assert mix.attrs["trainable"] == (variant not in ("average", *alone))
        assert mix.attrs["dropout"] == (0.5 if variant == "dropout_0.5" else 0.0)
        assert mix.attrs["learn_rate_factor"] == (10.0 if variant == "rate_10" else 1.0)
        expected = np.eye(3)[alone[variant]] if variant in alone else [1 / 3] * 3
        np.testing.assert_allclose(mix_weights(mix), expected, atol=1e-6)
        mix.set_param("gamma", np.array([7.0 if mix.attrs["place"] == "output" else 5.0], "f"))
    if variant == "input_output":
        assert [mix["gamma"] for mix in run_trial.mixes_of(nlp)["ner"]] == [5.0, 7.0]
    if has_elmo:
        assert nlp.config["components"]["elmo"]["frozen"] == (variant != "fine_tuned")


def test_a_share_has_sentences_in_the_order_of_the_corpus(corpus):
    path = corpus / "uner_ewt-train.spacy"
    texts = [doc.text for doc in DocBin().from_disk(path).get_docs(VOCAB)]
    read_share = spacy.registry.readers.get("spacy-elmo-project.share.v1")
    nlp = spacy.blank("en")
    examples = list(read_share(path=path, share=0.3, seed=5, gold_preproc=False)(nlp))
    assert len(examples) == 12
    places = [texts.index(example.reference.text) for example in examples]
    assert places == sorted(places)


@pytest.mark.processes
@forked.forks
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_trial_leaves_no_run(corpus, tmp_path, how):
    options = ("--corpus", corpus, "--runs", tmp_path / "runs", "--max-steps", 0, "--patience", 0)
    script = ["-m", "scripts.experiments.run_trial", "ner", "wnut17", "tok2vec"]
    process, printed = forked.start(forked.run_program, [*script, *map(str, options)], tmp_path)
    try:
        found = b""
        while b"best=" not in found:  # an evaluation is over
            part = printed.read1(1000)
            assert part, found
            found += part
        # An interrupt is lost if it arrives in a function of spaCy that can raise nothing.
        while process.is_alive():
            os.kill(process.pid, how)
            process.join(timeout=1.0)
        assert process.exitcode != 0
    finally:
        process.kill()
        printed.close()
    assert not (tmp_path / "runs").exists()


# Every Python imports this. All trials but the first wait for ever.
WAITING = """
import sys, threading

if "scripts.experiments.run_trial" in sys.orig_argv and "input" not in sys.orig_argv:
    threading.Event().wait()
"""


@pytest.mark.processes
@forked.forks
def test_an_interrupted_plan_is_resumed(corpus, tiny_weights, tmp_path, monkeypatch):
    """A signal ends its trials, too. Then the rest is done, and nothing twice."""
    short = {"max_steps": 2, "max_minutes": 1.0, "patience": 0, "eval_frequency": 2}
    monkeypatch.setitem(run_plan.LIMITS, "quick", short)
    options = ("--plan", "quick", "--experiment", "srl", "--jobs", 2, "--model", tiny_weights)
    folders = ("--corpus", corpus, "--runs", tmp_path / "runs", "--logs", tmp_path / "logs")
    (tmp_path / "sitecustomize.py").write_text(WAITING)
    path = os.pathsep.join((str(tmp_path), environment()["PYTHONPATH"]))

    def run():
        os.environ["PYTHONPATH"] = path
        app("experiments.run_plan")([str(one) for one in (*options, *folders)])

    process, printed = forked.start(run)
    try:
        while not read_runs(tmp_path / "runs"):
            time.sleep(0.1)
            assert process.exitcode is None
        process.terminate()
        process.join()
        assert process.exitcode == 130
        with pytest.raises(ProcessLookupError):  # nothing is left of its group
            os.killpg(process.pid, 0)
    finally:
        process.kill()
        printed.close()
    names = {trial.name for trial in trials.quick_plan() if trial.experiment == "srl"}
    done = {run.name: run for run in read_runs(tmp_path / "runs")}
    assert [run.variant for run in done.values()] == ["input"]
    printed = call("experiments.run_plan", *options, *folders)
    assert "2 trials done" in printed
    found = {run.name: run for run in read_runs(tmp_path / "runs")}
    assert set(found) == names and len(names) == 2
    assert done.items() <= found.items()


def test_trials_without_their_inputs_are_left_out(corpus, tiny_weights, tmp_path, capsys):
    """The printed message names the missing inputs."""
    places = run_trial.Places(corpus, str(tiny_weights), *(tmp_path / name for name in "mvt"))
    plan = [trial for trial in trials.quick_plan() if trial.experiment in ("ner", "two_hours")]
    without = {"static", "static_input", "pretrained", "two_hours"}
    ready = run_plan.leave_out(plan, places)
    assert ready == [trial for trial in plan if trial.variant not in without]
    shown = " ".join(capsys.readouterr().out.split())
    assert f"{tmp_path / 'v'} is missing: 4 of {len(plan)} trials are left out" in shown
    assert f"{tmp_path / 'm' / 'two_hours' / 'model-best'} is missing: 1 of" in shown
    with pytest.raises(ValueError, match="Create it first"):
        run_plan.leave_out([trial for trial in plan if trial.variant == "static"], places)


def test_a_trial_of_robustness_has_scores_on_damaged_words(try_it, tmp_path):
    """An equal trial without these scores does not replace it."""
    plain = try_it("ner", "wnut17", "tok2vec")
    found = try_it("robustness", "wnut17", "tok2vec")
    assert found["settings"] == plain["settings"] and "robustness" not in plain
    points = [(one["damage"], one["rate"]) for one in found["robustness"]]
    kinds, rates = ("keyboard", "ocr", "misspellings"), (0.0, 0.05, 0.1, 0.2, 0.3)
    assert points == [(kind, rate) for kind in kinds for rate in rates]
    for one in found["robustness"][::5]:
        assert one["score"] == found["scores"]["ents_f"] == plain["scores"]["ents_f"]
    german = try_it("historical", "europeana_sbb", "tok2vec")
    assert {one["damage"] for one in german["robustness"]} == {"keyboard", "ocr"}
