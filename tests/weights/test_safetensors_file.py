import json
import re

import pytest
import torch
from safetensors.torch import load, save

from spacy_elmo.bilm.config import BiLMConfig
from spacy_elmo.bilm.model import BiLM
from spacy_elmo.bilm.vocabulary import InputVocabulary, Vocabularies
from spacy_elmo.weights import read_weights, safetensors_file

from models import tiny_bilm

NAME = "stacks.1.0.bias"


@pytest.fixture
def path(tmp_path):
    safetensors_file.write(tiny_bilm(), tmp_path / "a.safetensors")
    return tmp_path / "a.safetensors"


def rewrite(path, metadata=(), **changes):
    """The same file with tensors and metadata replaced; None takes one away."""
    content = path.read_bytes()
    tensors = {**load(content), **changes}
    merged = {**safetensors_file._metadata(content), **dict(metadata)}
    tensors, merged = ({k: v for k, v in d.items() if v is not None} for d in (tensors, merged))
    path.write_bytes(save(tensors, metadata=merged or None))


def fails(path, *parts):
    pattern = ".*".join(re.escape(str(part)) for part in (path, *parts))
    with pytest.raises(ValueError, match=pattern):
        read_weights(path)


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
    bilm = tiny_bilm(**changes)
    bilm.provenance = {"corpus": "é", "steps": 3, "nested": {"a": [1.5, None]}}
    safetensors_file.write(bilm, tmp_path / "a.safetensors")
    again = read_weights(tmp_path / "a.safetensors")
    assert (again.config, again.provenance) == (bilm.config, bilm.provenance)
    stored = load((tmp_path / "a.safetensors").read_bytes())
    for name, values in bilm.state_dict().items():
        assert torch.equal(values, stored[name]), name
        assert torch.equal(values, again.state_dict()[name]), name
    assert not again.training
    assert not any(weight.requires_grad for weight in again.parameters())


def test_files_of_the_first_version_are_read(path):
    """Before there were other token encoders than bilm-tf's of characters."""
    names = {
        *("lstm_dim", "projection_dim", "n_layers", "cell_clip", "proj_clip", "filters"),
        *("use_skip_connections", "char_embed_dim", "n_highway", "activation"),
        "max_characters_per_token",
    }
    config = json.loads(safetensors_file._metadata(path.read_bytes())["config"])
    assert config.keys() == names  # which those versions read as well
    assert torch.equal(read_weights(path).get_parameter(NAME), tiny_bilm().get_parameter(NAME))


def words_only(n_words):
    strings = ["<oov>", "<bos>", "<eos>", *(f"wörd{i}" for i in range(3, n_words))]
    config = BiLMConfig(
        lstm_dim=4,
        projection_dim=2,
        char_embed_dim=0,
        filters=(),
        n_highway=0,
        n_characters=0,
        token_encoder="manylangs",
        n_words=n_words,
        word_embed_dim=2,
    )
    return BiLM(config, Vocabularies(words=InputVocabulary(strings)))


def test_vocabulary_of_any_length(tmp_path):
    """Nothing of it is in the header, whose length the format bounds."""
    bilm = words_only(150_000).requires_grad_(False)
    safetensors_file.write(bilm, tmp_path / "a.safetensors")
    header = int.from_bytes((tmp_path / "a.safetensors").read_bytes()[:8], "little")
    assert header < 4_000
    again = read_weights(tmp_path / "a.safetensors")
    words = bilm.encoder.indexer.vocabularies.words
    assert again.encoder.indexer.vocabularies.words.strings == words.strings
    tokens = ["wörd149999", "wörd77", "nothing"]
    assert torch.equal(again.token_vectors(tokens), bilm.token_vectors(tokens))
    rows = torch.tensor([149_999, 77, 0])
    by_hand = bilm.encoder.project(bilm.encoder.words.weight[rows])
    torch.testing.assert_close(bilm.token_vectors(tokens), by_hand)


@pytest.mark.parametrize(
    ("vocabulary", "named"),
    [
        (None, "embeddings of 5 words, but the vocabulary given for them holds 0"),
        (torch.tensor(list(b'["<oov>"]'), dtype=torch.uint8), "holds 1"),
        (torch.tensor(list(b"[1, 2]"), dtype=torch.uint8), "vocabulary.words': no list of strings"),
        (torch.tensor(list(b'{"a": 1}'), dtype=torch.uint8), "no list of strings"),
        (torch.tensor(list(b'["a", "a"]'), dtype=torch.uint8), "'a' stands twice"),
        (torch.tensor(list(b'["a"'), dtype=torch.uint8), "vocabulary.words'"),
        (torch.tensor([255, 254], dtype=torch.uint8), "vocabulary.words'"),
        (torch.tensor(list(b"[" * 10**5), dtype=torch.uint8), "vocabulary.words'"),
        (torch.zeros(5), "holds torch.float32, not bytes"),
        (torch.tensor(list(b'["a", "b", "c", "d", null]'), dtype=torch.uint8), "lacks <oov>"),
    ],
)
def test_vocabulary_that_does_not_fit(tmp_path, vocabulary, named):
    path = tmp_path / "a.safetensors"
    safetensors_file.write(words_only(5), path)
    rewrite(path, **{"vocabulary.words": vocabulary})
    fails(path, named)


def test_vocabulary_that_nothing_asks_for(path):
    rewrite(path, **{"vocabulary.words": torch.tensor(list(b'["a"]'), dtype=torch.uint8)})
    fails(path, "embeddings of 0 words, but the vocabulary given for them holds 1")


def test_values_that_are_not_finite(path):
    rewrite(path, **{NAME: torch.full((48,), torch.inf)})
    fails(path, NAME, "not finite")


def test_half_precision_is_read_as_float32(path):
    bias = torch.linspace(-1, 1, 48).half()
    rewrite(path, **{NAME: bias})
    got = read_weights(path).get_parameter(NAME)
    assert got.dtype == torch.float32
    assert torch.equal(got, bias.float())


def test_truncated(path):
    content = path.read_bytes()
    for size in (0, 4, 8, 200, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:size])
        fails(path, "not a readable .safetensors")


def test_noise(path):
    path.write_bytes(b"no tensors here" * 20)
    fails(path, "not a readable .safetensors")


@pytest.mark.parametrize("metadata", [None, {"format": "pt"}])
def test_file_of_another_program(path, metadata):
    path.write_bytes(save({"weight": torch.zeros(3)}, metadata=metadata))
    fails(path, "not written by spacy-elmo")


@pytest.mark.parametrize(
    ("config", "named"),
    [("{", ""), ('{"lstm": 3}', "lstm"), ('{"lstm_dim": 0}', "lstm_dim"), ("[1]", ""), ("3", "")],
)
def test_bad_config(path, config, named):
    rewrite(path, metadata={"config": config})
    fails(path, named)


def test_tensors_that_do_not_fit(path):
    rewrite(path, **{NAME: None})
    fails(path, f"'{NAME}' is missing", "(48,)")
    rewrite(path, **{NAME: torch.zeros(47)})
    fails(path, f"'{NAME}'", "(47,)", "(48,)")
    rewrite(path, **{NAME: torch.zeros(48, dtype=torch.int32)})
    fails(path, f"'{NAME}'", "int32")
    rewrite(path, **{NAME: torch.zeros(48), "more": torch.zeros(2, 3)})
    fails(path, "'more'", "(2, 3)")


def test_writing_that_fails_leaves_the_old_file(path, monkeypatch):
    before = path.read_bytes()
    monkeypatch.setattr("os.replace", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        safetensors_file.write(tiny_bilm(seed=1), path)
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == [path.name]
