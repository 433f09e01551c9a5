"""Widening of a language model: larger LSTMs, and word vectors beside the characters.

A model of 128 values a token learns how words look and stand, but it cannot store what they are. To
train a larger one from random weights takes longer than the smaller one took. So this script starts
from the smaller one, as Net2Net does (Chen et al. 2016): every new unit computes something, but no
other unit reads it yet, because the weights that read it are zero. The larger model computes the
same as the smaller one, and training finds out what the new units are good for.

What words are comes from vectors of words, which `train_word_vectors` learns from the same text in
much less time:

* Each token vector gets the vector of its word as new values. The token encoder then reads words
  and code points, as in ELMoForManyLangs.
* The softmax gets more words. The row of a new word is predicted from its vector and its count, by
  a ridge regression over the words that the softmax has already.
"""

from pathlib import Path
from typing import Any

import numpy as np
import typer
from wasabi import msg

from spacy_elmo.cli.errors import no_traceback
from spacy_elmo.frozen.model import FrozenBiLM
from spacy_elmo.frozen.softmax import FrozenSoftmax
from spacy_elmo.model.config import BiLMConfig, parameter_shapes
from spacy_elmo.model.indexers import BOS as SENTENCE_START_ID
from spacy_elmo.model.indexers import BOW, CODE_POINT_SPECIAL, EOW, PAD
from spacy_elmo.model.indexers import EOS as SENTENCE_END_ID
from spacy_elmo.model.memory import Weights
from spacy_elmo.model.vocabulary import InputVocabulary, Vocabularies, Vocabulary
from spacy_elmo.text.prepare import open_corpus
from spacy_elmo.weights.bundle import ModelBundle
from spacy_elmo.weights.formats import read_bundle
from spacy_elmo.weights.safetensors_file import SafetensorsFile

# Ids in the embedding of UTF-8 bytes. The marks of words have swapped names in ELMoForManyLangs.
ROWS_OF_MARKS = {
    "<pad>": PAD,
    "<eow>": BOW,
    "<bow>": EOW,
    "<bos>": SENTENCE_START_ID,
    "<eos>": SENTENCE_END_ID,
}
SPECIAL_WORDS = ("<oov>", "<bos>", "<eos>")
MIN_CODE_POINTS = 100  # Code points that occur less often are `<oov>`.
RIDGE = 10.0


class WordVectors:
    """Vectors of words, without their context.

    path (Path): Numpy archive with `words`, the most frequent first, and `vectors`.
    """

    def __init__(self, path: Path):
        with np.load(path) as found:
            self.words: list[str] = found["words"].tolist()
            vectors = found["vectors"].astype("float32")
        self.rows = {word: i for i, word in enumerate(self.words)}
        self.vectors = (vectors - vectors.mean(axis=0)) / vectors.std()
        self.width = vectors.shape[1]

    def of(self, words: list[str]) -> np.ndarray:
        """Return the vectors of words, zeros for unknown words. *Shape:* `(n, width)`."""
        found = np.zeros((len(words), self.width), dtype="float32")
        for i, word in enumerate(words):
            if word in self.rows:
                found[i] = self.vectors[self.rows[word]]
        return found


def main(
    model: str = typer.Argument(..., help="Language model of UTF-8 bytes, with its softmax"),
    corpus: Path = typer.Argument(..., help="Corpus of `spacy elmo corpus`, for the words"),
    vectors: Path = typer.Argument(..., help="Output of train_word_vectors"),
    output: Path = typer.Argument(..., help="Weights to write, .safetensors"),
    lstm_dim: int = typer.Option(768, help="Cell size of the new LSTMs"),
    n_words: int = typer.Option(50_000, help="Number of words with a vector; 0: no word vectors"),
    n_targets: int = typer.Option(150_000, help="Number of words of the new softmax"),
    min_count: int = typer.Option(5, help="Minimum count of the words of the new softmax"),
    seed: int = typer.Option(0, help="Random seed of the new units"),
) -> None:
    """Widen a language model, and add word vectors and words to predict."""
    with no_traceback():
        bundle, text = read_bundle(model), open_corpus(corpus)
        if bundle.prediction is None:
            raise ValueError(f"{model} has no softmax, which is needed for its words.")
        types, counts = list(text.types), text.counts()
        static = WordVectors(vectors)
        targets = Vocabulary.from_counts(types, counts, min_count=min_count, max_size=n_targets)
        points = code_points(types, counts)
        widened = widen(
            bundle.bilm,
            static,
            [word for word in static.words if word not in SPECIAL_WORDS][:n_words],
            points,
            lstm_dim,
            np.random.default_rng(seed),
        )
        counted = dict(zip(types, counts.tolist()))
        softmax = extend_softmax(
            bundle.prediction, targets, static, counted, widened.config.projection_dim
        )
        SafetensorsFile.write(ModelBundle(widened, (softmax, targets), lang=bundle.lang), output)
    msg.good(f"{output}: {widened.config.to_dict()}, softmax of {len(targets):,} words")


def code_points(types: list[str], counts: np.ndarray) -> list[str]:
    """Return the code points that occur in the text `MIN_CODE_POINTS` times or more, sorted."""
    found: dict[str, int] = {}
    for word, count in zip(types, counts.tolist()):
        for point in word:
            found[point] = found.get(point, 0) + count
    ascii_points = set(map(chr, range(33, 127)))
    return sorted(ascii_points | {p for p, n in found.items() if n >= MIN_CODE_POINTS})


def widen(
    bilm: FrozenBiLM,
    static: WordVectors,
    words: list[str],
    points: list[str],
    lstm_dim: int,
    rng: np.random.Generator,
) -> FrozenBiLM:
    """Widen the token vectors and LSTM outputs by the width of the static vectors.

    For words of ASCII, the first values of all layers stay the same.

    bilm (FrozenBiLM): A model that reads UTF-8 bytes.
    static (WordVectors): The vectors.
    words (List[str]): The words that get an embedding.
    points (List[str]): The code points that get an embedding.
    lstm_dim (int): Cell size of the new LSTMs, at least as many as in the model.
    rng (numpy.random.Generator): Random numbers of the new units.
    RETURNS (FrozenBiLM): The model with words and code points.
    """
    old, arrays = bilm.config, {k: np.asarray(v, "float32") for k, v in bilm.arrays().items()}
    if old.token_encoder != "bilm-tf" or old.n_words or not old.projected_width:
        raise ValueError("the model must read UTF-8 bytes only, and project the convolutions")
    characters = InputVocabulary([*CODE_POINT_SPECIAL, *points])
    embedded = InputVocabulary([*SPECIAL_WORDS, *words]) if words else None
    width = old.projection_dim + static.width
    sizes = {
        **old.all_sizes(),
        "token_encoder": "manylangs",
        "n_characters": len(characters),
        "n_words": len(embedded) if embedded else 0,
        "word_embed_dim": static.width if embedded else 0,
        "lstm_dim": lstm_dim,
        "projection_dim": width,
    }
    config = BiLMConfig.from_dict(sizes)
    new: dict[str, np.ndarray] = {}
    for name, shape in parameter_shapes(config).items():
        new[name] = np.zeros(shape, dtype="float32")
        if name in arrays and arrays[name].shape == shape:
            new[name] = arrays[name]
    new["encoder.embedding.weight"] = embed_points(arrays["encoder.embedding.weight"], characters)
    of_characters = slice(new["encoder.projection.weight"].shape[1] - old.n_filters, None)
    new["encoder.projection.weight"][: old.projection_dim, of_characters] = arrays[
        "encoder.projection.weight"
    ]
    new["encoder.projection.bias"][: old.projection_dim] = arrays["encoder.projection.bias"]
    if embedded:
        scale = _typical_size(bilm, words)
        new["encoder.words.weight"][len(SPECIAL_WORDS) :] = scale * static.of(words)
        new["encoder.projection.weight"][old.projection_dim :, : static.width] = np.eye(
            static.width
        )
    else:
        spread = arrays["encoder.projection.weight"].std()
        new["encoder.projection.weight"][old.projection_dim :, of_characters] = rng.normal(
            0.0, spread, (static.width, old.n_filters)
        )
    for direction in range(config.n_directions):
        for layer in range(config.n_layers):
            _widen_lstm(f"stacks.{direction}.{layer}", arrays, new, old, config, rng)
    return FrozenBiLM(config, Vocabularies(characters, embedded), Weights(new))


def embed_points(of_bytes: np.ndarray, characters: InputVocabulary) -> np.ndarray:
    """Return the embeddings of code points: a copy of the last byte's in UTF-8."""
    rows = np.zeros((len(characters), of_bytes.shape[1]), dtype="float32")
    for i, point in enumerate(characters.strings):
        if point in ROWS_OF_MARKS:
            rows[i] = of_bytes[ROWS_OF_MARKS[point]]
        elif point is not None and len(point) == 1:
            rows[i] = of_bytes[point.encode("utf8", "ignore")[-1] + 1]
    return rows


def _typical_size(bilm: FrozenBiLM, words: list[str]) -> float:
    """Return the standard deviation of the values of common words' vectors."""
    layers, _ = bilm.embed([words[:1000]])
    return float(layers[0][0].std())


def _widen_lstm(
    name: str,
    arrays: dict[str, Any],
    new: dict[str, Any],
    old: BiLMConfig,
    config: BiLMConfig,
    rng: np.random.Generator,
) -> None:
    """Widen the inputs, cells and outputs of one LSTM. Old units do not read the new ones."""
    width, cells = old.projection_dim, old.lstm_dim
    for part in ("input_weight", "state_weight"):
        values = arrays[f"{name}.{part}"].reshape(4, cells, width)
        wide = new[f"{name}.{part}"].reshape(4, config.lstm_dim, config.projection_dim)
        wide[:, cells:] = rng.normal(0.0, values.std(), wide[:, cells:].shape)
        wide[:, :cells, :width] = values
    bias = new[f"{name}.bias"].reshape(4, config.lstm_dim)
    bias[:, :cells] = arrays[f"{name}.bias"].reshape(4, cells)
    values, wide = arrays[f"{name}.projection"], new[f"{name}.projection"]
    wide[width:] = rng.normal(0.0, values.std(), wide[width:].shape)
    wide[:width, :cells] = values


def extend_softmax(
    known: tuple[FrozenSoftmax, Vocabulary],
    targets: Vocabulary,
    static: WordVectors,
    counts: dict[str, int],
    width: int,
) -> FrozenSoftmax:
    """Return a softmax for more words and wider contexts. It does not read the new values yet.

    known (Tuple[FrozenSoftmax, Vocabulary]): The full softmax of the narrow model.
    targets (Vocabulary): The words of the new softmax.
    static (WordVectors): The vectors.
    counts (Dict[str, int]): Count of each word in the text.
    width (int): Width of the new contexts.
    RETURNS (FrozenSoftmax): The softmax.
    """
    arrays, vocabulary = known[0].arrays(), known[1]
    if known[0].kind != "full":
        raise ValueError("the model has an adaptive softmax, but it must be full")
    old = np.column_stack([arrays["weight"], arrays["bias"]]).astype("float32")

    def features(words: list[str]) -> np.ndarray:
        logs = np.log([1.0 + counts.get(word, 0) for word in words]).astype("float32")
        return np.column_stack([static.of(words), logs, logs**2, np.ones_like(logs)])

    common = [word for word in vocabulary.words[3:] if word in static.rows]
    inputs, wanted = features(common), old[vocabulary.ids_of(common)]
    products = inputs.T @ inputs + RIDGE * np.eye(inputs.shape[1], dtype="float32")
    predicted = features(targets.words) @ np.linalg.solve(products, inputs.T @ wanted)
    is_known = np.array([word in vocabulary for word in targets.words])
    predicted[is_known] = old[vocabulary.ids_of(targets.words)[is_known]]
    weight = np.zeros((len(targets), width), dtype="float32")
    weight[:, : old.shape[1] - 1] = predicted[:, :-1]
    return FrozenSoftmax({"weight": weight, "bias": predicted[:, -1].astype("float32")})


if __name__ == "__main__":
    typer.run(main)
