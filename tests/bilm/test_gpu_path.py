"""The path of a GPU, as far as a machine without one can test it: PyTorch's "meta" device follows
devices and types through the real operations."""

from contextlib import nullcontext
from functools import partial
from unittest.mock import Mock

import pytest
import spacy
import torch

from spacy_elmo.bilm import precision
from spacy_elmo.bilm.graph import RecordedStacks
from spacy_elmo.bilm.lstm import BiLMState, ProjectedLSTM, fused_lstm
from spacy_elmo.bilm.model import BiLM
from spacy_elmo.bilm.softmax import SampledSoftmaxLoss
from spacy_elmo.layers import bilm_shim
from spacy_elmo.model.config import BiLMConfig
from spacy_elmo.model.packing import pack

from helpers.models import SENTENCES, tiny_bilm, tiny_module

CUDA, CPU = torch.device("cuda"), torch.device("cpu")


@pytest.mark.training
@pytest.mark.parametrize(
    ("is_train", "dtype"),
    [(False, None), (True, None), (True, torch.bfloat16), (True, torch.float16)],
)
def test_everything_stays_on_the_device(is_train, dtype):
    config = BiLMConfig(lstm_dim=8, projection_dim=4, filters=((1, 4), (2, 4)))
    packed = pack([5, 3, 2])
    with torch.device("meta"):
        bilm = BiLM(config).requires_grad_(is_train)
        ids = torch.zeros(7, 6, dtype=torch.int64)
        vectors = bilm.encoder.project(bilm.encoder.encode_characters(ids, dtype), dtype)
        rows = torch.zeros(2, sum(packed.batch_sizes), dtype=torch.int64)
        state = BiLMState(torch.zeros(2, 2, 3, 4), torch.zeros(2, 2, 3, 8))
        outputs, after = bilm(vectors, rows, packed.batch_sizes, state, product_dtype=dtype)
        everything = [output for direction in outputs for output in direction]
        everything += [after.hidden, after.cell]
        if is_train:
            sum(values.sum() for values in everything).backward()
            everything += [weight.grad for weight in bilm.stacks.parameters()]
    for values in everything:
        assert values.device.type == "meta" and values.dtype == torch.float32


def of_linear(dtype):
    layer, inputs = torch.nn.Linear(32, 16), torch.randn(20, 32, requires_grad=True)
    return [inputs, *layer.parameters()], [precision.linear(inputs, layer, dtype)]


def of_lstm(dim, width, clip, run, dtype):
    sizes = {"lstm_dim": dim, "projection_dim": width, "cell_clip": clip, "proj_clip": clip}
    lstm, batch_sizes = ProjectedLSTM(BiLMConfig(**sizes)), [30, 20, 10, 10]
    shapes = (70, width), (30, width), (30, dim)
    leaves = [torch.randn(shape, requires_grad=True) for shape in shapes]
    results = run(lstm, leaves[0], batch_sizes, *leaves[1:], dtype)
    return [*leaves, *lstm.parameters()], results


def of_loss(dtype):
    leaves = [torch.randn(shape, requires_grad=True) for shape in ((3, 4), (9, 4), (9,))]
    others = torch.tensor([3, 0, 8]), torch.arange(9), torch.randn(3), torch.randn(9)
    return leaves, [SampledSoftmaxLoss.apply(*leaves, *others, dtype)]


@pytest.mark.parametrize(
    "operation",
    [
        of_linear,
        of_loss,
        partial(of_lstm, 32, 12, 3.0, ProjectedLSTM.__call__),
        partial(of_lstm, 16, 16, 3.0, ProjectedLSTM.__call__),
        partial(of_lstm, 32, 16, None, fused_lstm),
    ],
)
def test_products_in_bfloat16_are_within_its_rounding(operation):
    """The bound is a few roundings. State, gradients and results stay float32."""
    exact, low = found = [], []
    for dtype, values in zip((None, torch.bfloat16), found):
        torch.manual_seed(0)
        asked, results = operation(dtype)
        total = sum((result * torch.randn_like(result)).sum() for result in results)
        values += [*(result.detach() for result in results), *torch.autograd.grad(total, asked)]
    errors = [float((ours - theirs).norm() / theirs.norm()) for ours, theirs in zip(low, exact)]
    assert {values.dtype for values in low} == {torch.float32}
    assert 0 < max(errors) < 4 * 2.0**-8
    if operation in (of_loss, of_linear):  # the loss, and the bias's gradient, are no products
        assert errors[0 if operation is of_loss else 3] == 0
    elif operation.args[3] is not fused_lstm:
        # The cell state is no rounded one: float32 numbers that bfloat16 has not.
        assert (low[2] != low[2].bfloat16().float()).float().mean() > 0.5


@pytest.mark.parametrize("has_bfloat16", [True, False])
def test_a_gpu_computes_in_half_precision_unless_float32_is_set(monkeypatch, has_bfloat16):
    monkeypatch.setattr(precision, "has_bfloat16", lambda device: has_bfloat16)
    half = "bfloat16" if has_bfloat16 else "float16"
    for name in ("auto", "int8", "bfloat16"):
        assert precision.resolve_module_precision(name, CUDA) == half
        assert precision.resolve_module_precision(name, CPU) == "float32"
    assert precision.resolve_module_precision("float32", CUDA) == "float32"


@pytest.mark.parametrize("name", ["float32", "bfloat16"])
def test_embed_on_the_path_of_a_gpu_equals_the_frozen_model(monkeypatch, name):
    """The processor is made to take this path. The bound for bfloat16 is wider than for float32."""
    expected, _ = tiny_bilm().embed(SENTENCES)
    dtype = None if name == "float32" else torch.bfloat16
    monkeypatch.setattr(BiLM, "_product_dtype", lambda self: dtype)
    other = tiny_module()
    for _ in range(2):
        found, _ = other.embed(SENTENCES, None)
        for ours, theirs in zip(found, map(torch.from_numpy, expected)):
            assert ours.dtype == torch.float32
            error = (ours - theirs).norm() / theirs.norm().clamp(min=1e-9)
            assert error < (1e-5 if dtype is None else 0.02)
            assert dtype is None or not ours.numel() or error > 0


@pytest.mark.pipelines
@pytest.mark.parametrize(
    ("name", "device"), [("cpu", "cpu"), ("mps", "mps"), ("cuda", "cuda:0"), ("cuda:1", "cuda:1")]
)
def test_names_of_devices_are_those_of_pytorch(monkeypatch, name, device):
    pipe = spacy.blank("en").add_pipe("elmo")
    pipe.set_bilm(tiny_bilm())
    monkeypatch.setattr(bilm_shim, "fit_to_settings", fit := Mock())
    pipe.move_to(name)
    assert fit.call_args.args[2] == device


def test_recorded_stacks_compute_the_same_as_the_module(monkeypatch):
    """They are compared before they are recorded, without streams."""
    for name, value in {"Stream": Mock(), "current_stream": Mock(), "stream": nullcontext}.items():
        monkeypatch.setattr(torch.cuda, name, value)
    bilm = tiny_module()
    stacks = RecordedStacks(bilm, 3, 4)
    state = bilm.zero_state(3)
    state = BiLMState(torch.randn_like(state.hidden), torch.randn_like(state.cell))
    inputs = torch.randn(24, state.hidden.shape[-1])
    rows = torch.arange(24).view(2, 12)
    outputs, expected = bilm(inputs, rows, [3] * 4, state)
    top, hidden, cell = stacks(inputs, state.hidden, state.cell)
    torch.testing.assert_close(top, torch.cat([layers[-1] for layers in outputs]), rtol=0, atol=0)
    torch.testing.assert_close((hidden, cell), (expected.hidden, expected.cell), rtol=0, atol=0)


def test_an_lstm_of_cudnn_is_fine_tuned_in_evaluation_mode(monkeypatch):
    """cuDNN has a backward pass only in training mode. Its float32 is not TF32, and the user's
    setting is restored."""
    seen = []

    def note(*given, **_):
        seen.append((given[7], torch.backends.cudnn.rnn.fp32_precision))
        return run(*given)

    run, before = torch.lstm, torch.backends.cudnn.allow_tf32
    monkeypatch.setattr(torch, "lstm", note)
    lstm = ProjectedLSTM(BiLMConfig(lstm_dim=8, projection_dim=4, cell_clip=None, proj_clip=None))
    given = torch.randn(3, 4), [2, 1], torch.zeros(2, 4), torch.zeros(2, 8)
    fused_lstm(lstm.eval(), *given)
    with torch.no_grad():
        fused_lstm(lstm, *given)
    assert seen == [(True, "ieee"), (False, "ieee")]
    assert torch.backends.cudnn.allow_tf32 == before


@pytest.mark.parametrize(
    ("fits", "sizes"),
    [
        (True, {"projection_dim": 4}),
        (True, {"projection_dim": 8}),
        (False, {"projection_dim": 8, "square_projection": True}),
        (False, {"projection_dim": 4, "cell_clip": 3.0}),
    ],
)
def test_cudnn_fits_lstms_without_clips_and_square_projections(fits, sizes):
    clips = {"cell_clip": None, "proj_clip": None}
    assert ProjectedLSTM(BiLMConfig(lstm_dim=8, **{**clips, **sizes})).fits_cudnn == fits
