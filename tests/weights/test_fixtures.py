"""Against numbers that TensorFlow computed: golden files of two models, all layers; and those
that AllenNLP's own tests hold, where they are beside the checkout."""

import json

import h5py
import numpy as np
import pytest

from spacy_elmo.weights import read_weights

from helpers import reference
from helpers.golden import BILM_TF, BILM_TF_MODELS, read_batches, read_bilm_tf
from helpers.models import ALLENNLP, check_layers, write_allennlp

needs_allennlp = pytest.mark.skipif(
    not ALLENNLP.is_dir(), reason="AllenNLP's fixtures are not beside this repository"
)


@pytest.mark.parametrize("name", BILM_TF_MODELS)
@pytest.mark.parametrize("rows", [[0], [1], [2], [0, 1, 2]])
@pytest.mark.parametrize("trains", [False, True])
def test_all_layers_of_three_streams_with_carried_state(name, rows, trains):
    """Side by side or alone, frozen and as a module that trains."""
    bilm, state = read_weights(BILM_TF / name), None
    bilm = bilm.thaw() if trains else bilm
    batches, expected = read_batches(), read_bilm_tf(name)
    assert len(batches) == len(expected) == 8
    for number, (batch, wanted) in enumerate(zip(batches, expected)):
        sentences, wanted = [batch[row] for row in rows], [wanted[row] for row in rows]
        layers, state = bilm.embed(sentences, state)
        fresh = bilm.embed(sentences)[0][0][-1]
        if trains:
            assert layers[0].requires_grad
            state, fresh = state.detach(), fresh.detach().numpy()
            layers = [values.detach() for values in layers]
        check_layers(layers, wanted, atol=2e-6)
        assert number == 0 or np.abs(fresh - wanted[0][-1]).max() > 0.01  # the state matters


@pytest.mark.parametrize("setting", ["cell_clip", "proj_clip", "use_skip_connections"])
def test_the_setting_acts_in_that_comparison(tmp_path, setting):
    (tmp_path / "weights.hdf5").write_bytes((BILM_TF / "skip" / "weights.hdf5").read_bytes())
    options = json.loads((BILM_TF / "skip" / "options.json").read_text("utf8"))
    options["lstm"][setting] = False if setting == "use_skip_connections" else None
    (tmp_path / "options.json").write_text(json.dumps(options))
    found = read_weights(tmp_path).embed(read_batches()[0])[0][0]
    assert np.abs(found - read_bilm_tf("skip")[0][0]).max() > 0.01


@pytest.mark.parametrize(
    "source",
    [
        *(BILM_TF / name for name in BILM_TF_MODELS),
        pytest.param(ALLENNLP / "lm_weights.hdf5", marks=needs_allennlp),
    ],
)
def test_written_again_it_is_the_same_file(source, tmp_path):
    file = source if source.is_file() else source / "weights.hdf5"
    theirs = reference.read_hdf5(file)
    ours = reference.read_hdf5(write_allennlp(read_weights(file), tmp_path))
    assert theirs
    for name, values in theirs.items():
        np.testing.assert_array_equal(ours[name], values)


# AllenNLP's


@needs_allennlp
@pytest.mark.parametrize("rows", [[0], [0, 1, 2]])
def test_ten_batches_of_allennlp_with_carried_state(rows):
    """A trained model's top layer."""
    bilm, state = read_weights(ALLENNLP / "lm_weights.hdf5"), None
    streams = json.loads((ALLENNLP / "sentences.json").read_text("utf8"))
    with h5py.File(ALLENNLP / "lm_embeddings_0.hdf5") as file:
        for number in range(10):
            layers, state = bilm.embed([streams[row][number].split() for row in rows], state)
            expected = np.concatenate(file[str(number)][:], axis=1)
            np.testing.assert_allclose(layers[0][-1], expected, rtol=0, atol=1e-6)


@needs_allennlp
def test_token_vectors_of_allennlp():
    bilm = read_weights(ALLENNLP / "lm_weights.hdf5")
    words = (ALLENNLP / "vocab_test.txt").read_text("utf8").split("\n")
    words = [word.strip() for word in words if word.strip()]
    with h5py.File(ALLENNLP / "elmo_token_embeddings.hdf5") as file:
        expected = file["embedding"][:]
    assert expected.shape == (458, 16) == (len(words), 16)
    np.testing.assert_allclose(bilm.token_vectors(words), expected, rtol=0, atol=2e-6)
    layers, _ = bilm.embed([words])
    both = np.concatenate([expected, expected], axis=1)
    np.testing.assert_allclose(layers[0][0], both, rtol=0, atol=2e-6)
