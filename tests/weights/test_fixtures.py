"""Against numbers that TensorFlow computed, published in AllenNLP's own test fixtures."""

import json

import h5py
import numpy as np
import pytest
import torch

from spacy_elmo.weights import read_weights

from models import ALLENNLP

pytestmark = pytest.mark.skipif(
    not ALLENNLP.is_dir(), reason="AllenNLP's fixtures are not beside this repository"
)


@pytest.fixture(scope="module")
def bilm():
    return read_weights(ALLENNLP / "lm_weights.hdf5")


def streams():
    return json.loads((ALLENNLP / "sentences.json").read_text("utf8"))


@pytest.mark.parametrize("rows", [[0], [0, 1, 2]])
def test_ten_batches_with_carried_state(bilm, rows):
    texts = [[sentence.split() for sentence in streams()[row]] for row in rows]
    assert len(texts[0]) == 10
    state, zero_state_differs = None, False
    with h5py.File(ALLENNLP / "lm_embeddings_0.hdf5") as file:
        for number in range(10):
            sentences = [text[number] for text in texts]
            layers, state = bilm.embed(sentences, state)
            forward, backward = file[str(number)][:]
            expected = np.concatenate([forward, backward], axis=1)
            np.testing.assert_allclose(layers[0][-1], expected, rtol=0, atol=1e-6)
            fresh = bilm.embed(sentences)[0][0][-1].numpy()
            zero_state_differs |= bool(np.abs(fresh - expected).max() > 1e-3)
    assert zero_state_differs


def test_token_vectors(bilm):
    words = (ALLENNLP / "vocab_test.txt").read_text("utf8").split("\n")
    words = [word.strip() for word in words if word.strip()]
    with h5py.File(ALLENNLP / "elmo_token_embeddings.hdf5") as file:
        expected = file["embedding"][:]
    assert expected.shape == (458, 16) == (len(words), 16)
    np.testing.assert_allclose(bilm.token_vectors(words), expected, rtol=0, atol=2e-6)
    layers, _ = bilm.embed([words])
    both = np.concatenate([expected, expected], axis=1)
    np.testing.assert_allclose(layers[0][0], both, rtol=0, atol=2e-6)


def test_written_again_it_is_the_same_file(bilm, tmp_path):
    from spacy_elmo.weights import allennlp

    allennlp.write(bilm, tmp_path)
    with (
        h5py.File(ALLENNLP / "lm_weights.hdf5") as theirs,
        h5py.File(tmp_path / "weights.hdf5") as ours,
    ):
        names: list[str] = []
        theirs.visititems(lambda name, item: names.append(name) if hasattr(item, "shape") else None)
        assert names
        for name in names:
            np.testing.assert_array_equal(ours[name][:], theirs[name][:])
    assert not any(weight.requires_grad for weight in bilm.parameters())
    assert all(weight.dtype == torch.float32 for weight in bilm.parameters())
