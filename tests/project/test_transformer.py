"""A frozen transformer in place of the biLM: its layers, and a trial on it.

The package with the weights is not installed. A tiny stand-in has the same interface: a wordpiece
is one letter, and its state at layer j is (j + 1) times a vector of the letter, plus its position.
"""

import sys
from collections import UserDict
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import spacy
import torch

from scripts.experiments import run_trial, transformer

WIDTH, N_LAYERS, MAX_PIECES = 4, 3, 12


class StandIn:
    """Tokenizer and model in one."""

    config = SimpleNamespace(hidden_size=WIDTH, num_hidden_layers=N_LAYERS)

    def eval(self):
        return self

    def __call__(self, sentences=None, *, input_ids=None, **options):
        if input_ids is not None:
            assert input_ids.shape[1] <= MAX_PIECES
            layers = [states(input_ids, j) for j in range(N_LAYERS + 1)]
            return SimpleNamespace(hidden_states=layers)
        is_batch = not isinstance(sentences[0], str)
        rows = []
        for texts in sentences if is_batch else [sentences]:
            letters = [(ord(c), i) for i, text in enumerate(texts) for c in text.strip()]
            rows.append([(0, None), *letters, (1, None)])
        length = max(map(len, rows))
        rows = [row + [(2, None)] * (length - len(row)) for row in rows]
        ids = [[number for number, _ in row] for row in rows]
        pieces = UserDict(input_ids=torch.tensor(ids) if is_batch else ids[0])
        pieces.word_ids = lambda row: [word for _, word in rows[row]]
        return pieces


def states(ids, layer):
    """Return the states of a layer. *Shape:* `(n_rows, n_pieces, WIDTH)`."""
    places = torch.arange(ids.shape[1])[None, :, None]
    return ((layer + 1) * ids[..., None] + places + torch.arange(WIDTH)).float()


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Install the stand-in."""
    module = ModuleType("transformers")
    kinds = SimpleNamespace(from_pretrained=lambda folder: StandIn())
    module.AutoModel = module.AutoTokenizer = kinds
    monkeypatch.setitem(sys.modules, "transformers", module)
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    (tmp_path / "model.onnx").write_bytes(b"other weights")
    files = {"transformer": "model.safetensors", "transformer_int8": "model.onnx"}
    for where in (transformer, run_trial):
        monkeypatch.setattr(where, "find_weights", lambda variant: tmp_path / files[variant])
    monkeypatch.setattr(transformer, "MAX_PIECES", MAX_PIECES)
    yield
    for cached in (transformer.read_transformer, run_trial.describe_model):
        cached.cache_clear()


def expected(word, start):
    """Return the layers of a word whose first letter is at a position: the mean over letters."""
    rows = [
        [[(j + 1) * ord(c) + start + i + k for k in range(WIDTH)] for i, c in enumerate(word)]
        for j in range(N_LAYERS + 1)
    ]
    return np.mean(rows, axis=1)


def test_tokens_are_means_of_their_wordpieces(package):
    """Long sentences are cut: a half that fits is read like a sentence of its own; a long word
    is shortened."""
    embed = transformer.read_transformer("transformer").embed
    layers, _ = embed([["ab", " ", "c"], [], ["abcd"]])
    assert [one.shape for one in layers] == [(4, 3, 4), (4, 0, 4), (4, 1, 4)]
    words = [expected("ab", 1), np.zeros((4, 4)), expected("c", 3)]
    np.testing.assert_allclose(layers[0], np.stack(words, axis=1))
    np.testing.assert_allclose(layers[2][:, 0], expected("abcd", 1))
    long = ["abcdef", "ghij", "klm", "n"]
    (layers, word), _ = embed([long, ["x" * 30]])
    starts = [1, 7, 1, 4]
    np.testing.assert_allclose(layers, np.stack(list(map(expected, long, starts)), axis=1))
    np.testing.assert_allclose(word[:, 0], expected("x" * (MAX_PIECES // 2), 1))


@pytest.mark.pipelines
def test_a_pipe_passes_on_the_layers_of_the_transformer(package, tmp_path):
    """Their average becomes the vectors."""
    nlp = spacy.blank("en")
    sizes = transformer.read_transformer("transformer").config.to_dict()
    weights = {"@weights_readers": transformer.READER, "variant": "transformer"}
    model = {"@architectures": "spacy-elmo.BiLM.v1", **sizes}
    settings = {"weights": weights, "model": model, "mix": "average", "store_layers": True}
    nlp.add_pipe("elmo", config=settings)
    doc = nlp("ab c")
    layers = np.stack([expected("ab", 1), expected("c", 3)], axis=1)
    np.testing.assert_allclose(doc._.elmo, layers)
    np.testing.assert_allclose(doc.tensor, layers.mean(axis=0), rtol=1e-6)
    model = run_trial.describe_model(str(tmp_path / "model.safetensors"))
    assert (model.width, model.n_layers) == (WIDTH, N_LAYERS + 1)
    assert model.weights == weights


def test_onnxruntime_gives_the_same_layers(package, monkeypatch):
    """The states after every second layer norm are the layers. Only the last are an output."""
    norms = ["embedded", "a", "1", "b", "2", "c", "last"]
    nodes = [SimpleNamespace(op_type="Add", output=["sum"])]
    nodes += [SimpleNamespace(op_type="LayerNormalization", output=[name]) for name in norms]
    outputs = ["last"]
    graph = SimpleNamespace(node=nodes, output=outputs)
    onnx, onnxruntime = ModuleType("onnx"), ModuleType("onnxruntime")
    onnx.load = lambda path: SimpleNamespace(graph=graph, SerializeToString=lambda: b"")
    onnx.helper = SimpleNamespace(make_empty_tensor_value_info=lambda name: name)
    onnxruntime.SessionOptions = SimpleNamespace

    class Session:
        def __init__(self, model, options):
            pass

        def get_outputs(self):
            return [SimpleNamespace(shape=["batch", "sequence", WIDTH])]

        def run(self, names, inputs):
            found = dict(zip(norms[::2], range(N_LAYERS + 1)))
            assert set(names) == set(outputs)
            return [
                states(torch.tensor(inputs["input_ids"]), found[name]).numpy() for name in names
            ]

    onnxruntime.InferenceSession = Session
    for module in (onnx, onnxruntime):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    sentences = [["ab", " ", "c"], [], ["abcd"]]
    found, expected = (
        transformer.read_transformer(variant).embed(sentences)[0]
        for variant in transformer.TRANSFORMERS
    )
    for one, other in zip(found, expected):
        np.testing.assert_array_equal(one, other)
    assert outputs == ["last", "embedded", "1", "2"]
