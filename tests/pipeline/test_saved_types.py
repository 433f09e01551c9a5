"""Number types of the weights in saved pipelines: float16 where this loses nothing."""

import copy
import pickle
import shutil

import numpy as np
import pytest
import spacy
from safetensors.numpy import load

from spacy_elmo.frozen.model import FrozenBiLM
from spacy_elmo.frozen.softmax import FrozenSoftmax
from spacy_elmo.model.memory import Weights
from spacy_elmo.weights import safetensors_file, tensor_file
from spacy_elmo.weights.convert import convert
from spacy_elmo.weights.formats import read_bundle
from spacy_elmo.weights.safetensors_file import SafetensorsFile

from helpers import conversions
from helpers.components import listener, textcat
from helpers.models import tiny_bilm, weights_of
from helpers.trained import trained

pytestmark = pytest.mark.pipelines

TEXT = "The bank lends money . He swims by the bank ."
MODEL_FILE = "elmo/model.safetensors"
EXACT = [0.0, -0.0, 1.0, -1 - 2**-10, 65504.0, 2**-14, 2**-24, -(2**-24)]
# Too precise, too large, and too small for float16.
INEXACT = [1 + 2**-11, 0.1, 65505.0, 65520.0, -1e9, 2**-15 + 2**-25, 2**-25, -1e-40]


def rounded(arrays):
    return {name: values.astype("float16").astype("float32") for name, values in arrays.items()}


@pytest.fixture(params=["float32", "float16"])
def exact(request, tmp_path):
    """A file whose weights are all float16 numbers, stored in either type."""
    bilm, file = tiny_bilm(projection_dim=6), tmp_path / "exact.safetensors"
    weights = Weights(rounded(bilm.arrays()))
    safetensors_file.write(FrozenBiLM(bilm.config, bilm.vocabularies, weights), file, request.param)
    return file


def types(data):
    """The types of the arrays in a file's content, by another reader."""
    return {str(values.dtype) for values in load(data).values()}


@pytest.mark.parametrize("inexact", [None, *INEXACT])
def test_each_tensor_has_its_own_type_and_all_its_bits(inexact):
    tensors = {"exact": np.array([EXACT], dtype="float32"), "empty": np.zeros((0, 3), "float32")}
    tensors["other"] = np.array(EXACT if inexact is None else [*EXACT, inexact], dtype="float32")
    tensors["bytes"] = np.arange(3, dtype="uint8")
    found = load(tensor_file.save(tensors))
    wanted = {"exact": "float16", "empty": "float16", "bytes": "uint8"}
    wanted["other"] = "float16" if inexact is None else "float32"
    assert {name: str(values.dtype) for name, values in found.items()} == wanted
    for name, values in tensors.items():
        assert found[name].astype(values.dtype).tobytes() == values.tobytes()
        assert found[name].shape == values.shape


@pytest.mark.parametrize("frozen", [True, False])
def test_float16_numbers_take_two_bytes(exact, frozen, make_nlp, tmp_path):
    """Vectors and checksum are those of before, and of a folder with float32."""
    nlp, folder = make_nlp(weights=str(exact), frozen=frozen), tmp_path / "saved"
    nlp.to_disk(folder)
    bilm, file = nlp.get_pipe("elmo").bilm, folder / MODEL_FILE
    assert types(file.read_bytes()) == {"float16"}
    n_weights = sum(values.size for values in weights_of(bilm).values())
    wide = safetensors_file.to_bytes(bilm if frozen else bilm.freeze(), "float32")
    assert len(wide) - file.stat().st_size == pytest.approx(2 * n_weights, abs=100)
    copies = [spacy.load(folder), make_nlp(frozen=frozen).from_bytes(nlp.to_bytes())]
    copies += [copy.deepcopy(nlp), pickle.loads(pickle.dumps(nlp))]
    before = shutil.copytree(folder, tmp_path / "before")
    (before / MODEL_FILE).write_bytes(wide)
    for loaded in (*copies, spacy.load(before)):
        np.testing.assert_array_equal(loaded(TEXT).tensor, nlp(TEXT).tensor)
        assert loaded.get_pipe("elmo").bilm.checksum() == bilm.checksum()
        assert types(loaded.get_pipe("elmo").model.shims[0].to_bytes()) == {"float16"}


@pytest.mark.training
def test_trained_weights_stay_in_float32(exact, make_nlp, tmp_path):
    nlp = make_nlp(weights=str(exact), frozen=False)
    before = weights_of(nlp.get_pipe("elmo").bilm)
    trained(nlp, 2)
    nlp.to_disk(tmp_path / "saved")
    found = load((tmp_path / "saved" / MODEL_FILE).read_bytes())
    after = weights_of(nlp.get_pipe("elmo").bilm)
    changed = {name for name, values in after.items() if (values != before[name]).any()}
    assert changed > {"stacks.0.1.state_weight", "encoder.projection.weight"}
    for name, values in after.items():
        assert found[name].dtype == ("float32" if name in changed else "float16")
        np.testing.assert_array_equal(found[name].astype("float32"), values)
    np.testing.assert_array_equal(spacy.load(tmp_path / "saved")(TEXT).tensor, nlp(TEXT).tensor)


@pytest.mark.training
def test_a_replaced_listener_has_float16(exact, make_nlp):
    """Its own language model is inside the component."""
    sizes = []
    for weights in (str(exact), str(exact.with_name("full.safetensors"))):
        safetensors_file.write(tiny_bilm(projection_dim=6), exact.with_name("full.safetensors"))
        nlp = make_nlp(weights=weights)
        trained(nlp, textcat=textcat(listener()))
        nlp.replace_listeners("elmo", "textcat", ["model.tok2vec"])
        sizes.append(len(nlp.get_pipe("textcat").to_bytes()))
    n_weights = sum(values.size for values in tiny_bilm(projection_dim=6).arrays().values())
    assert sizes[1] - sizes[0] == pytest.approx(2 * n_weights, abs=200)


@pytest.mark.conversions
@pytest.mark.parametrize("dtype", tensor_file.DTYPES)
def test_a_converted_pipeline_has_the_type_that_was_asked_for(exact, dtype, tmp_path):
    convert(exact, tmp_path / "out", lang="en", dtype=dtype, allow_loss=True)
    header = (tmp_path / "out" / MODEL_FILE).read_bytes()
    names = {"float32": "F32", "float16": "F16", "bfloat16": "BF16"}
    assert {name for name in names if f'"{names[name]}"'.encode() in header} == {dtype}


@pytest.mark.conversions
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_the_softmax_of_a_pipeline_loses_nothing(dtype, tmp_path):
    file = tmp_path / "a.safetensors"
    convert(conversions.write_source(tmp_path / "source"), file)
    bundle = read_bundle(file)
    if dtype == "float16":
        softmax, vocabulary = bundle.prediction
        bundle.prediction = FrozenSoftmax(rounded(softmax.arrays())), vocabulary
        SafetensorsFile.write(bundle, file)
    convert(file, tmp_path / "out")
    assert types((tmp_path / "out" / "softmax.safetensors").read_bytes()) == {dtype}
    found, wanted = (read_bundle(one).prediction[0].arrays() for one in (tmp_path / "out", file))
    for name, values in wanted.items():
        np.testing.assert_array_equal(found[name].astype("float32"), values)
