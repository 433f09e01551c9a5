"""The private parts of other libraries still are what `spacy_elmo/compat.py` takes them for.

If one of these tests fails after an update of a library, change the function there.
"""

import io
import zipfile

import pytest
import spacy
import torch
from spacy.pipeline.textcat import TextCategorizer
from spacy.tokens import Doc
from thinc.api import Linear, residual
from torch.nn.utils.rnn import pack_sequence

from spacy_elmo import compat
from spacy_elmo.tasks.texts.textpair import TextPairCategorizer


def test_extension_key():
    Doc.set_extension("of_this_test", default=None, force=True)
    doc = spacy.blank("en")("a")
    doc._.of_this_test = 5
    assert doc.user_data == {compat.extension_key("of_this_test"): 5}
    Doc.remove_extension("of_this_test")


@pytest.mark.pipelines
def test_require_labels():
    tagger = spacy.blank("en").add_pipe("tagger")
    with pytest.raises(ValueError, match="E143"):
        compat.require_labels(tagger)
    tagger.add_label("A")
    compat.require_labels(tagger)


def test_truth_of_a_textcat_is_read_by_the_method_that_we_override():
    """See the top of the module."""
    assert TextPairCategorizer._examples_to_truth is not TextCategorizer._examples_to_truth
    assert "_examples_to_truth" in TextCategorizer.get_loss.__code__.co_names


def test_spacy_app():
    names = [
        command.name or command.callback.__name__
        for command in compat.spacy_app().registered_commands
    ]
    assert "train" in "".join(names)


def test_config_overrides():
    overrides = compat.config_overrides(["--training.seed", "1", "--paths.train=a.spacy"])
    assert overrides == {"training.seed": 1, "paths.train": "a.spacy"}


def test_import_code(tmp_path):
    (tmp_path / "code.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    compat.import_code(None)
    assert not (tmp_path / "ran").exists()
    compat.import_code(tmp_path / "code.py")
    assert (tmp_path / "ran").exists()


def test_setup_gpu(capsys):
    compat.setup_gpu(-1)
    assert capsys.readouterr().out == ""


def test_init_residual():
    """The width is the width of Y, and the layer's name is the one by which it is found."""
    layer = residual(Linear())
    x = layer.ops.alloc2f(2, 3)
    compat.init_residual(layer, x, x)
    assert layer.name.startswith("residual(")
    assert (layer.get_dim("nO"), layer.layers[0].get_dim("nI")) == (3, 3)


ACTIVATIONS = {
    compat.sigmoid_backward: torch.sigmoid,
    compat.tanh_backward: torch.tanh,
}


@pytest.mark.parametrize("backward", ACTIVATIONS)
def test_gradients_of_activations(backward):
    inputs = torch.linspace(-3, 3, 13, requires_grad=True)
    outputs = ACTIVATIONS[backward](inputs)
    gradient = torch.linspace(1, 2, 13)
    (expected,) = torch.autograd.grad(outputs, inputs, gradient)
    backward(gradient, outputs.detach(), gradient)
    torch.testing.assert_close(gradient, expected, rtol=1e-6, atol=0)


def test_gradient_of_a_clip():
    gradient = torch.ones(5)
    compat.clip_backward(gradient, torch.tensor([-3.0, -2.0, 0.0, 3.0, 2.9]), 3.0)
    assert gradient.tolist() == [0, 1, 1, 0, 1]


@pytest.mark.parametrize("proj_size", [0, 3])
def test_packed_lstm(proj_size):
    lstm = torch.nn.LSTM(4, 5, proj_size=proj_size)
    packed = pack_sequence([torch.randn(n, 4) for n in (3, 2)])
    expected, ended = lstm(packed)
    state = torch.zeros(1, 2, proj_size or 5), torch.zeros(1, 2, 5)
    weights = [*lstm.parameters()]
    sizes = packed.batch_sizes.tolist()
    found = compat.packed_lstm(packed.data, sizes, state, weights, train=True)
    for one, other in zip(found, (expected.data, *ended), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-7)


def test_cpu_has_bfloat16():
    assert compat.cpu_has_bfloat16() in (True, False)
    assert hasattr(torch.cpu, "_is_avx512_bf16_supported")


@pytest.mark.parametrize("comment", [b"", b"a comment after the list"])
def test_zip_directory_size(comment):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("a", b"12345")
        archive.writestr("folder/b", b"")
        archive.comment = comment
    # An entry of the list has 46 bytes and the name (APPNOTE.TXT 4.3.12).
    assert compat.zip_directory_size(stream) == 2 * 46 + len("a") + len("folder/b")
    assert compat.zip_directory_size(io.BytesIO(b"no zip archive")) is None
