"""Every model that a format can store is read back bit for bit."""

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_elmo.frozen.model import FrozenBiLM
from spacy_elmo.model.config import NO_CHARACTERS, BiLMConfig, parameter_shapes
from spacy_elmo.model.memory import Weights
from spacy_elmo.model.vocabulary import InputVocabulary, Vocabularies
from spacy_elmo.weights.allennlp import AllenNLP
from spacy_elmo.weights.bundle import ModelBundle
from spacy_elmo.weights.formats import read_model
from spacy_elmo.weights.manylangs import ManyLangs
from spacy_elmo.weights.pipeline_folder import PipelineFolder
from spacy_elmo.weights.safetensors_file import SafetensorsFile

from helpers.profiles import few

pytestmark = pytest.mark.conversions

NAMES = {"safetensors": "m.safetensors", "allennlp": "m.hdf5"}
NUMBERS = st.floats(-1e6, 1e6, width=32, allow_subnormal=True)
CLIPS = st.none() | st.floats(0.5, 10, width=16)
# Words as files of text can store them: no line ends, no white space at the edges.
WORDS = st.text(
    st.characters(exclude_categories=["Cs", "Cc", "Z"], exclude_characters="\ufeff"),
    min_size=1,
    max_size=8,
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)


@st.composite
def configs(draw):
    dim = draw(st.integers(1, 9))
    width = draw(st.integers(1, dim))
    kind = draw(st.sampled_from(["bilm-tf", "manylangs"]))
    sizes = {
        "lstm_dim": dim,
        "projection_dim": width,
        "n_layers": draw(st.integers(1, 3)),
        "cell_clip": draw(CLIPS),
        "proj_clip": draw(CLIPS),
        "token_encoder": kind,
        "activation": draw(st.sampled_from(["relu", "tanh"])),
        "use_skip_connections": draw(st.booleans()),
        "square_projection": dim == width and draw(st.booleans()),
        "bidirectional": draw(st.booleans()),
    }
    reads = draw(st.sampled_from(["characters", "words", "both"]))
    if reads != "characters":
        sizes["n_words"] = draw(st.integers(4, 9))
        sizes["word_embed_dim"] = width if kind == "bilm-tf" else draw(st.integers(1, 4))
    if reads == "words":
        return BiLMConfig(**sizes, **NO_CHARACTERS)
    return BiLMConfig(
        **sizes,
        char_embed_dim=draw(st.integers(1, 5)),
        filters=tuple(
            draw(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 5)), min_size=1, max_size=3))
        ),
        n_highway=draw(st.integers(0, 2)),
        max_characters_per_token=draw(st.integers(8, 20)),
        n_characters=262 if kind == "bilm-tf" else draw(st.integers(7, 12)),
    )


@st.composite
def bundles(draw):
    config = draw(configs())
    seed, scale = draw(st.integers(0, 99)), draw(st.sampled_from([1e-30, 0.1, 1e4]))
    rng = np.random.default_rng(seed)
    parameters = {}
    for name, shape in parameter_shapes(config).items():
        values = (scale * rng.standard_normal(shape)).astype("float32")
        values.reshape(-1)[:1] = draw(NUMBERS)
        if name == "encoder.embedding.weight" and config.token_encoder == "bilm-tf":
            values[0] = 0.0  # a masked position
        parameters[name] = values

    def vocabulary(first, n, strings):
        words = draw(
            st.lists(strings, min_size=n - len(first), max_size=n - len(first), unique=True)
        )
        words = [*first, *(word for word in words if word not in first)]
        return InputVocabulary([*words, *(f"w{i}" for i in range(n - len(words)))][:n])

    characters = words = None
    if config.token_encoder == "manylangs" and config.char_embed_dim:
        ids = ["<oov>", "<bos>", "<eos>", "<bow>", "<eow>", "<pad>"]
        points = st.characters(exclude_categories=["Cs", "Cc", "Z"], exclude_characters="\ufeff")
        characters = vocabulary(ids, config.n_characters, points)
    if config.n_words:
        first = (
            ["<S>", "</S>", "<UNK>"]
            if config.token_encoder == "bilm-tf"
            else ["<oov>", "<bos>", "<eos>", "<pad>"]
        )
        words = vocabulary(first, config.n_words, WORDS)
    provenance = {"note": draw(JSON), "lang": "de"}
    alignment = None
    if draw(st.booleans()):
        alignment = rng.standard_normal((config.width, config.width)).astype("float32")
    bilm = FrozenBiLM(
        config,
        Vocabularies(characters, words),
        Weights(parameters),
        alignment=alignment,
        provenance=provenance,
    )
    return ModelBundle(bilm, lang="de")


@pytest.mark.parametrize("format", [SafetensorsFile, ManyLangs, AllenNLP])
@given(bundle=bundles())
@few
def test_a_written_model_is_read_back(format, bundle):
    """A format that cannot store a model refuses it before writing."""
    check(format, bundle)


@given(bundle=bundles())
@settings(max_examples=3)
def test_a_written_pipeline_is_read_back(bundle):
    """A pipeline is spaCy's folder around a safetensors file."""
    check(PipelineFolder, bundle)


def check(format, bundle):
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / NAMES.get(format.name, "model")
        try:
            format.check(bundle)
        except ValueError:
            with pytest.raises(ValueError):  # noqa: PT011
                format.write(bundle, target)
            assert list(Path(folder).iterdir()) == []
            return
        format.write(bundle, target)
        stored, read = read_model(target)
        assert stored.name == format.name
        bilm, wanted = read.bilm, bundle.bilm
        sizes = wanted.config
        if sizes.n_layers == 1:  # Connections begin with the second layer.
            sizes = replace(sizes, use_skip_connections=bilm.config.use_skip_connections)
        if not sizes.filters:  # Only filters have an activation.
            sizes = replace(sizes, activation=bilm.config.activation)
        assert bilm.config == sizes
        for ours, theirs in zip(bilm.vocabularies, wanted.vocabularies):
            assert (ours and ours.strings) == (theirs and theirs.strings)
        assert (read.lang, bilm.provenance) == ("de", wanted.provenance)
        expected = wanted.arrays()
        if not format.keeps_alignment:
            expected.pop("alignment", None)
        assert bilm.arrays().keys() == expected.keys()
        for name, values in bilm.arrays().items():
            wanted_values = format.as_read(name, expected[name], "float32")
            assert values.tobytes() == wanted_values.tobytes(), name
