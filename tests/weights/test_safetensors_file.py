import json

import numpy as np
import pytest
import torch
from safetensors.torch import load

from spacy_elmo.bilm.model import BiLM
from spacy_elmo.frozen.config import NO_CHARACTERS, BiLMConfig
from spacy_elmo.frozen.vocabulary import InputVocabulary, Vocabularies
from spacy_elmo.registry import registry
from spacy_elmo.weights import read_weights, safetensors_file
from spacy_elmo.weights.safetensors_file import softmax_of

from helpers.models import tiny_bilm
from helpers.runs import assert_same_arrays

NAME = "stacks.1.0.bias"


@pytest.fixture
def path(tmp_path):
    safetensors_file.write(tiny_bilm(), tmp_path / "a.safetensors")
    return tmp_path / "a.safetensors"


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"n_layers": 1, "cell_clip": None},
        {"filters": [[1, 2], [3, 3]], "n_highway": 0, "activation": "tanh"},
        {"dim": 6, "projection_dim": 6, "use_skip_connections": False},
    ],
)
def test_written_files_are_read_bit_by_bit(tmp_path, changes):
    provenance = {"corpus": "é", "steps": 3, "nested": {"a": [1.5, None]}}
    bilm = tiny_bilm(**changes).replace(provenance=provenance)
    safetensors_file.write(bilm, tmp_path / "a.safetensors")
    again = read_weights(tmp_path / "a.safetensors")
    assert (again.config, again.provenance) == (bilm.config, bilm.provenance)
    stored = load((tmp_path / "a.safetensors").read_bytes())
    assert_same_arrays(again.arrays(), bilm.arrays())
    assert_same_arrays({name: stored[name].numpy() for name in stored}, bilm.arrays())


def test_readers_of_weights_leave_the_softmax_alone(path):
    """A pipe does not need the softmax, so a broken one does not stop it."""
    softmax_of(path).write_bytes(b"broken")
    reader = registry.get("weights_readers", "spacy-elmo.safetensors.v1")
    assert reader(str(path))().checksum() == tiny_bilm().checksum()


def test_files_of_the_first_version_are_read(path):
    """Before there were other token encoders than bilm-tf's of characters."""
    names = {
        *("lstm_dim", "projection_dim", "n_layers", "cell_clip", "proj_clip", "filters"),
        *("use_skip_connections", "char_embed_dim", "n_highway", "activation"),
        "max_characters_per_token",
    }
    config = json.loads(safetensors_file._metadata(path.read_bytes())["config"])
    assert config.keys() == names  # which those versions read as well
    np.testing.assert_array_equal(read_weights(path).arrays()[NAME], tiny_bilm().arrays()[NAME])


def test_vocabulary_of_any_length(tmp_path):
    """Nothing of it is in the header, whose length the format bounds."""
    n_words = 150_000
    strings = ["<oov>", "<bos>", "<eos>", *(f"wörd{i}" for i in range(3, n_words))]
    sizes = {"lstm_dim": 4, "projection_dim": 2, "n_words": n_words, "word_embed_dim": 2}
    config = BiLMConfig(token_encoder="manylangs", **NO_CHARACTERS, **sizes)
    bilm = BiLM(config, Vocabularies(words=InputVocabulary(strings))).requires_grad_(False)
    safetensors_file.write(bilm.freeze(), tmp_path / "a.safetensors")
    header = int.from_bytes((tmp_path / "a.safetensors").read_bytes()[:8], "little")
    assert header < 4_000
    again = read_weights(tmp_path / "a.safetensors")
    assert again.vocabularies.words.strings == bilm.indexer.vocabularies.words.strings
    rows = torch.tensor([149_999, 77, 0])
    by_hand = bilm.encoder.project(bilm.encoder.words.weight[rows])
    got = again.token_vectors(["wörd149999", "wörd77", "nothing"])
    np.testing.assert_allclose(got, by_hand, atol=1e-6)
