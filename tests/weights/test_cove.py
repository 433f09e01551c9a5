"""CoVe's encoder: layers, states and gradients equal those of PyTorch's LSTM."""

import numpy as np
import pytest
import spacy
import torch
from torch.nn.utils.rnn import pack_sequence, pad_packed_sequence

from spacy_elmo.bilm.model import BiLM
from spacy_elmo.language_model.frozen import FrozenLanguageModel
from spacy_elmo.model.config import BiLMConfig
from spacy_elmo.weights.cove import WordVectors, read_cove
from spacy_elmo.weights.safetensors_file import from_bytes, to_bytes, write

WIDTH = 6
WORDS = ["the", "cat", "sat", "on", "a", "mat", "<UNK>"]
SENTENCES = [["the", "cat", "sat"], [], ["a", "dog", "on", "the", "mat"], ["mat"]]


@pytest.fixture
def vectors():
    rng = np.random.default_rng(0)
    return WordVectors(WORDS, rng.normal(size=(len(WORDS), WIDTH)).astype("float32"))


@pytest.fixture
def lstm():
    torch.manual_seed(0)
    return torch.nn.LSTM(WIDTH, WIDTH, num_layers=2, bidirectional=True)


@pytest.fixture
def file(lstm, tmp_path):
    path = tmp_path / "wmtlstm.pth"
    torch.save(lstm.state_dict(), path)
    return path


def by_pytorch(lstm, vectors, sentence):
    """Compute both layers with PyTorch's own LSTM, with zeros for unknown words."""
    table = dict(zip(vectors.words, vectors.table))
    del table["<UNK>"]
    x = torch.tensor(np.stack([table.get(word, np.zeros(WIDTH, "float32")) for word in sentence]))
    first = torch.nn.LSTM(WIDTH, WIDTH, bidirectional=True)
    weights = lstm.state_dict()
    first.load_state_dict({name: weights[name] for name in first.state_dict()})
    with torch.no_grad():
        return torch.stack([torch.cat([x, x], dim=1), first(x)[0], lstm(x)[0]])


def test_layers_and_states_are_those_of_pytorch(file, lstm, vectors, tmp_path):
    bilm = read_cove(file, vectors)
    for got, sentence in zip(bilm.embed(SENTENCES, "warm")[0], SENTENCES):
        wanted = by_pytorch(lstm, vectors, sentence) if sentence else np.zeros((3, 0, 2 * WIDTH))
        assert got.shape == wanted.shape
        np.testing.assert_allclose(got, wanted, atol=2e-6, rtol=0)
    prefixed = {f"rnn.{name}": value for name, value in lstm.state_dict().items()}
    torch.save(prefixed, tmp_path / "model.pt")
    assert read_cove(tmp_path / "model.pt", vectors).checksum() == bilm.checksum()
    x = torch.tensor(vectors.table[:3])
    with torch.no_grad():
        _, (hidden, cell) = lstm(x)
    _, after = bilm.embed([["the", "cat", "sat"]])
    # PyTorch's order is layer, then direction.
    for got, wanted in ((after.hidden, hidden), (after.cell, cell)):
        wanted = wanted.reshape(2, 2, WIDTH).transpose(0, 1)
        np.testing.assert_allclose(got[:, :, 0], wanted, atol=2e-6, rtol=0)
    assert not bilm.embed([[], []])[1].hidden.any()


@pytest.mark.training
def test_gradients_are_those_of_pytorch(lstm, file, vectors):
    bilm = BiLM.from_frozen(read_cove(file, vectors))
    rng = torch.Generator().manual_seed(1)
    chosen = [sentence for sentence in SENTENCES if sentence and "dog" not in sentence]
    layers, _ = bilm.embed(chosen)
    wanted = [torch.randn(values[2].shape, generator=rng) for values in layers]
    sum((values[2] * weight).sum() for values, weight in zip(layers, wanted)).backward()
    rows = [torch.tensor(vectors.table[[WORDS.index(w) for w in s]]) for s in chosen]
    packed = pack_sequence(rows, enforce_sorted=False)
    outputs, lengths = pad_packed_sequence(lstm(packed)[0], batch_first=True)
    pairs = zip(outputs, lengths, wanted)
    sum((row[:n] * weight).sum() for row, n, weight in pairs).backward()
    for name, ours in (("l0", "0.0"), ("l0_reverse", "1.0"), ("l1", "0.1"), ("l1_reverse", "1.1")):
        for kind, part in (("weight_ih", "input_weight"), ("bias_hh", "bias")):
            i, f, j, o = getattr(lstm, f"{kind}_{name}").grad.chunk(4)
            got = bilm.get_parameter(f"stacks.{ours}.{part}").grad
            torch.testing.assert_close(got, torch.cat([i, j, f, o]), atol=1e-5, rtol=0)


@pytest.mark.pipelines
def test_a_pipe_can_have_weights_of_cove(file, vectors, lstm, tmp_path):
    bilm = read_cove(file, vectors)
    assert from_bytes(to_bytes(bilm)).checksum() == bilm.checksum()
    write(bilm, tmp_path / "cove.safetensors")
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", config={"weights": str(tmp_path / "cove.safetensors"), "mix": "top"})
    doc = nlp("the cat sat")
    wanted = by_pytorch(lstm, vectors, ["the", "cat", "sat"])[2]
    np.testing.assert_allclose(doc.tensor, wanted, atol=2e-6)
    nlp.to_disk(tmp_path / "nlp")
    np.testing.assert_array_equal(spacy.load(tmp_path / "nlp")("the cat sat").tensor, doc.tensor)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda state: state.pop("bias_hh_l1_reverse"), "bias_hh_l1_reverse' is missing"),
        (lambda state: state.update(extra=torch.zeros(2)), "does not belong to the model"),
        (lambda state: state.pop("weight_ih_l0"), "not an encoder of CoVe"),
        (lambda state: state["weight_hh_l1"].fill_(np.nan), "not finite"),
    ],
)
def test_broken_files_are_named(lstm, vectors, tmp_path, change, message):
    state = lstm.state_dict()
    change(state)
    torch.save(state, tmp_path / "wmtlstm.pth")
    with pytest.raises(ValueError, match=message) as caught:
        read_cove(tmp_path / "wmtlstm.pth", vectors)
    assert "\n" not in str(caught.value) and "wmtlstm.pth" in str(caught.value)


def test_vectors_of_another_width_are_refused(file):
    with pytest.raises(ValueError, match=r"for vectors of width 5: .* \(24, 6\)"):
        read_cove(file, WordVectors(["a"], np.zeros((1, 5))))


def test_joined_directions_refuse_other_sizes(file, vectors):
    wanted = {"lstm_dim": 6, "projection_dim": 6, "use_skip_connections": False}
    for sizes, lacking in (
        ({"bidirectional": False}, "bidirectional"),
        ({"projection_dim": 3}, "projection_dim = lstm_dim"),
        ({"use_skip_connections": True}, "connections = 'none'"),
    ):
        with pytest.raises(ValueError, match=lacking):
            BiLMConfig(joined_directions=True, **{**wanted, **sizes})
    with pytest.raises(ValueError, match="joined_directions = false"):  # no language model
        FrozenLanguageModel(read_cove(file, vectors), None, None)
