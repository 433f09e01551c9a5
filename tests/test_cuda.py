"""Vectors, gradients, pretraining and tasks on a GPU equal those on the CPU."""

import numpy as np
import pytest
import spacy
import srsly
import torch
from spacy.tokens import DocBin
from thinc.api import Config, get_current_ops, set_current_ops

from spacy_elmo.bilm.lstm import ProjectedLSTM
from spacy_elmo.bilm.precision import resolve_module_precision
from spacy_elmo.language_model.frozen import read_language_model
from spacy_elmo.language_model.processes import Processes
from spacy_elmo.model.config import BiLMConfig
from spacy_elmo.pretraining.config import check_config
from spacy_elmo.pretraining.profiling import profile_steps, profile_text
from spacy_elmo.pretraining.run import pretrain
from spacy_elmo.pretraining.trainer import Trainer

from helpers.commands import run_python
from helpers.components import concat_input, examples, listener, ner, textcat
from helpers.models import SENTENCES, pretraining_config, tiny_module
from helpers.runs import run_settings, write_texts
from helpers.tasks import TASKS
from helpers.trainers import CORPUS

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA GPU")

DEVICE = "cuda"
TEXTS = ["They sat on the bank of the river .", "", "A bank", "naïve 日本語 😀"]


@pytest.mark.parametrize("start", [None, "warm"])
def test_vectors_equal_those_of_the_cpu(start):
    """The second time, token vectors are known, and the state of the first is carried."""
    bilm, moved = tiny_module(), tiny_module().to(DEVICE)
    expected_state = state = start
    for _ in range(2):
        expected, expected_state = bilm.embed(SENTENCES, expected_state)
        layers, state = moved.embed(SENTENCES, state)
        assert all(values.device.type == DEVICE for values in layers)
        states = zip(vars(state).values(), vars(expected_state).values())
        for ours, theirs in (*zip(layers, expected), *states):
            torch.testing.assert_close(ours.cpu(), theirs, rtol=0, atol=1e-4)


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8", "auto"])
def test_every_precision_on_a_gpu(precision):
    resolved = resolve_module_precision(precision, torch.device(DEVICE))
    assert resolved in ("float32", "bfloat16", "float16")
    expected, _ = tiny_module().embed(SENTENCES)
    moved = tiny_module().to(DEVICE)
    moved.precision = precision
    for ours, theirs in zip(moved.embed(SENTENCES)[0], expected):
        assert ours.dtype == torch.float32
        cosines = torch.cosine_similarity(ours.cpu().double(), theirs.double(), dim=2)
        assert len(cosines.flatten()) == 0 or cosines.min() > 0.999


@pytest.mark.pipelines
def test_vectors_are_on_the_cpu(make_nlp):
    alone, nlp = make_nlp(store_layers=True), make_nlp(store_layers=True)
    nlp.get_pipe("elmo").move_to(DEVICE)
    for doc, expected in zip(nlp.pipe(TEXTS), alone.pipe(TEXTS)):
        for ours, theirs in ((doc.tensor, expected.tensor), (doc._.elmo, expected._.elmo)):
            assert isinstance(ours, np.ndarray)
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-4)
    assert isinstance(nlp("A bank")[1].similarity(nlp("bank")[0]), float)


@pytest.mark.training
def test_gradients_equal_those_of_the_cpu():
    bilms = [tiny_module().requires_grad_(True) for _ in range(2)]
    bilms[1].to(DEVICE)
    for bilm in bilms:
        sum(values.square().sum() for values in bilm.embed(SENTENCES)[0]).backward()
    for (name, one), two in zip(bilms[0].named_parameters(), bilms[1].parameters()):
        assert (one.grad - two.grad.cpu()).abs().max() <= 1e-3 * one.grad.abs().max(), name


def losses(device, **training):
    """Return the losses of twelve steps, and the perplexity after them."""
    config = check_config(Config(pretraining_config(**training)))
    trainer = Trainer(config, CORPUS, CORPUS, processes=Processes(device=torch.device(device)))
    if training.get("accumulate_gradient", 1) == 1 and not training.get("dropout"):
        assert (trainer.bilm_encoder.recorded is None) == (device == "cpu")
    return [*(trainer.step() for _ in range(12)), trainer.evaluate()[0].mean]


@pytest.mark.training
@pytest.mark.parametrize("softmax", ["sampled", "full", "adaptive"])
@pytest.mark.parametrize("optimizer", ["adagrad", "adam", "adamw", "muon"])
def test_pretraining_equals_that_of_the_cpu(softmax, optimizer):
    """Steps are replayed from a graph that was recorded before the first one."""
    settings = {"softmax": softmax, "optimizer": optimizer}
    np.testing.assert_allclose(losses(DEVICE, **settings), losses("cpu", **settings), rtol=1e-3)


@pytest.mark.training
def test_pretraining_without_a_graph():
    settings = {"accumulate_gradient": 2, "state_reset": 0.3}
    np.testing.assert_allclose(losses(DEVICE, **settings), losses("cpu", **settings), rtol=1e-3)
    assert losses(DEVICE, dropout=0.3)[-1] > 1


@pytest.mark.training
def test_pretraining_in_bfloat16():
    np.testing.assert_allclose(losses(DEVICE, precision="bf16"), losses(DEVICE), rtol=0.02)


def on(device, **training):
    config = check_config(Config(pretraining_config(**training)))
    return Trainer(config, CORPUS, CORPUS, processes=Processes(device=torch.device(device)))


@pytest.mark.training
def test_steps_that_wait_for_nothing_are_the_cpu_s():
    """The next window is read ahead, and a loss is read a step later."""
    trainers = [on(device, max_steps=12, eval_frequency=5) for device in (DEVICE, "cpu")]
    for trainer in trainers:
        trainer.run(on_evaluation=lambda *_: None)
    found, expected = (trainer.progress.sampled_loss for trainer in trainers)
    assert found == pytest.approx(expected, rel=1e-3)


@pytest.mark.training
def test_loss_that_is_not_finite_ends_the_run_a_step_later():
    trainer = on(DEVICE)
    trainer.start_step()
    original = trainer.model.softmax.loss
    trainer.model.softmax.loss = lambda *args: original(*args) * torch.nan
    trainer.start_step()
    with pytest.raises(FloatingPointError, match="at step 1: lower"):
        trainer.start_step()


@pytest.mark.training
def test_profile_has_the_time_of_the_gpu():
    result = profile_steps(on(DEVICE), 6)
    for name, times in result["sections"].items():
        assert times["cpu"] > 0 and (times["gpu"] > 0 or name == "reader"), name
    assert result["operators"]
    assert "ms (gpu)" in profile_text(result)


@pytest.mark.training
def test_a_run_is_resumed_on_a_gpu(tmp_path):
    write_texts(tmp_path)
    outputs = [tmp_path / "whole", tmp_path / "parts"]
    for output, n_steps in zip((*outputs, outputs[1]), (9, 4, 9)):
        settings = run_settings(tmp_path, max_steps=n_steps, optimizer="muon")
        assert pretrain(settings, output, resume=True)
    one, two = (read_language_model(output / "model-last").bilm for output in outputs)
    for name, values in one.arrays().items():
        np.testing.assert_allclose(two.arrays()[name], values, atol=0.02, err_msg=name)


@pytest.mark.pipelines
@pytest.mark.processes
@pytest.mark.parametrize("frozen", [True, False])
def test_a_pipeline_trains_on_a_gpu_and_predicts_on_the_cpu(tmp_path, make_nlp, frozen):
    pytest.importorskip("cupy")
    corpus, scores = tmp_path / "corpus.spacy", tmp_path / "scores.json"
    DocBin(docs=[eg.reference for eg in examples(spacy.blank("en"))]).to_disk(corpus)
    nlp = make_nlp(frozen=frozen)
    nlp.add_pipe("ner", config=ner(concat_input()))
    nlp.add_pipe("textcat", config=textcat(listener()))
    nlp.config.to_disk(tmp_path / "config.cfg")
    options = ["--gpu-id", 0, "--output", tmp_path, "--training.max_steps", 80]
    options += ["--training.eval_frequency", 40, "--training.optimizer.learn_rate", 0.01]
    options += ["--paths.train", corpus, "--paths.dev", corpus]
    run_python("-m", "spacy", "train", tmp_path / "config.cfg", *options)
    # on the CPU
    run_python("-m", "spacy", "evaluate", tmp_path / "model-best", corpus, "--output", scores)
    best = srsly.read_json(tmp_path / "model-best" / "meta.json")["performance"]
    for name in ("ents_f", "cats_score"):
        assert srsly.read_json(scores)[name] == pytest.approx(best[name], abs=0.02)
    assert best["ents_f"] > 0.9


@pytest.mark.training
@pytest.mark.parametrize("sizes", [{}, {"projection_dim": 12}, {"cell_clip": 3.0}])
def test_fine_tuning_in_evaluation_mode(sizes):
    """Models without clips are cuDNN's, which has a backward pass only in training mode."""
    sizes = {"cell_clip": None, "proj_clip": None, **sizes}
    bilms = [tiny_module(**sizes).eval().requires_grad_(True) for _ in range(2)]
    bilms[1].to(DEVICE)
    for bilm in bilms:
        sum(values.square().sum() for values in bilm.embed(SENTENCES)[0]).backward()
    for (name, one), two in zip(bilms[0].named_parameters(), bilms[1].parameters()):
        assert (one.grad - two.grad.cpu()).abs().max() <= 1e-3 * one.grad.abs().max(), name


@pytest.mark.parametrize("is_square", [False, True])
def test_float32_is_not_rounded_to_tf32(is_square):
    """TF32 rounds to 10 bits: 1e-3. A square projection is not computed by cuDNN."""
    clips = {"cell_clip": None, "proj_clip": None}
    sizes = {"lstm_dim": 256, "projection_dim": 256, "square_projection": is_square}
    lstm = ProjectedLSTM(BiLMConfig(**sizes, **clips))
    results = []
    for kind, device in ((torch.float64, "cpu"), (torch.float32, DEVICE)):
        torch.manual_seed(0)
        inputs, state = torch.randn(40, 256, dtype=torch.float64), torch.zeros(8, 256)
        given = inputs.to(device, kind), [8] * 5, *(state.to(device, kind) for _ in range(2))
        with torch.no_grad():
            results.append(lstm.to(device, kind)(*given)[0].double().cpu())
    assert (results[0] - results[1]).abs().max() < 2e-5


@pytest.mark.pipelines
def test_the_checksum_follows_the_weights(make_nlp):
    elmo = make_nlp().get_pipe("elmo")
    elmo.move_to(DEVICE)
    before = elmo.model.shims[0].identity
    elmo.frozen = False
    elmo.bilm.stacks[0][0].bias.data += 1.0
    elmo.frozen = True
    assert elmo.model.shims[0].identity == elmo.bilm.freeze().checksum() != before


@pytest.mark.training
@pytest.mark.parametrize("optimizer", ["adagrad", "adam", "muon"])
@pytest.mark.parametrize("devices", [("cpu", DEVICE), (DEVICE, "cpu")])
def test_the_state_of_an_optimizer_moves_to_another_device(optimizer, devices):
    config = check_config(Config(pretraining_config(optimizer=optimizer)))
    stays, moves = (
        Trainer(config, CORPUS, CORPUS, processes=Processes(device=torch.device(device)))
        for device in devices
    )
    for _ in range(3):
        stays.step()
    moves.model.load_state_dict(stays.model.state_dict())
    moves.optimizers.load_state_dict(stays.optimizers.state_dict())
    assert np.isfinite([moves.step() for _ in range(2)]).all()


@pytest.fixture
def on_gpu():
    pytest.importorskip("cupy")
    before = get_current_ops()
    spacy.require_gpu()
    yield
    set_current_ops(before)


@pytest.mark.training
@pytest.mark.pipelines
@pytest.mark.parametrize("frozen", [True, False])
@pytest.mark.parametrize("replaced", [True, False])
@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.factory)
def test_tasks_learn_on_a_gpu(on_gpu, make_nlp, task, frozen, replaced, tmp_path):
    nlp = task.add(make_nlp(frozen=frozen), listener())
    data = task.examples(nlp)
    optimizer = nlp.initialize(lambda: data)
    if replaced:
        nlp.replace_listeners("elmo", task.factory, ["model.tok2vec"])
    losses = [nlp.update(data, sgd=optimizer, drop=0.0)[task.factory] for _ in range(5)]
    assert losses[-1] < losses[0]
    found = task.found_by(nlp)
    nlp.to_disk(tmp_path)
    assert len(task.found_by(spacy.load(tmp_path))) == len(found)
