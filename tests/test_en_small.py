"""The bundled English model is small and deterministic, and its vectors know their sentence."""

import json
from pathlib import Path

import numpy as np
import pytest
import spacy
from safetensors import safe_open
from spacy import util

import spacy_elmo
from spacy_elmo.weights import BUNDLED, locate, read_weights

from helpers.commands import run_elmo, run_python

ROOT = Path(__file__).parents[1]
SENTENCES = {
    "river": "The otters slept on the muddy bank beside the stream .",
    "river, too": "Two herons nested on the grassy bank of the lake .",
    "money": "The accountant opened an account at the bank last week .",
    "money, too": "She asked the bank for a loan to buy a house .",
}


@pytest.fixture(scope="module")
def nlp():
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo")
    return nlp


def word(doc, text="bank"):
    return next(token for token in doc if token.text == text)


def test_the_model_is_small_and_has_its_provenance():
    path = locate(BUNDLED)
    assert path.stat().st_size <= 16_000_000
    assert "english-open" in path.with_name("en_small-ATTRIBUTION.md").read_text("utf8")
    with safe_open(path, framework="numpy") as file:
        dtypes = {file.get_slice(name).get_dtype() for name in file.keys()}  # noqa: SIM118
    assert dtypes == {"F16"}
    lines = (ROOT / "pyproject.toml").read_text("utf8")
    for suffix in (".safetensors", ".softmax.safetensors", "-ATTRIBUTION.md"):
        assert f'"weights/en_small{suffix}"' in lines  # The wheel carries it.
        assert path.with_name(f"en_small{suffix}").is_file()
    provenance = read_weights(BUNDLED).provenance
    for key in ("commit", "licence", "training", "tokens", "perplexity", "seed"):
        assert provenance[key] or key == "seed"
    assert len(provenance["corpus"]["sha256"]) == 64
    assert "/" not in "".join(provenance["corpus"]["train"])


@pytest.mark.processes
def test_vectors_need_no_other_step_no_network_and_no_compiler(tmp_path):
    """Every connection of the process fails, and nothing of ours is imported.

    PyTorch would import its compiler for an initial value on the meta device, which takes longer
    than all the rest.
    """
    script = (
        "import socket\n"
        "def refuse(*args, **options): raise AssertionError('a connection')\n"
        "socket.socket.connect = refuse\n"
        "import sys, torch, spacy; before = 'torch._dynamo' in sys.modules\n"
        "nlp = spacy.blank('en'); nlp.add_pipe('elmo')\n"
        "doc = nlp('Vectors at once.'); print(doc[1].vector.shape, abs(doc[1].vector).sum() > 0)\n"
        "print(before or 'torch._dynamo' not in sys.modules)\n"
        "nlp.to_disk('pipeline'); again = spacy.load('pipeline')('Vectors at once.')\n"
        "print((again[1].vector == doc[1].vector).all())\n"
    )
    assert run_python("-c", script, cwd=tmp_path) == "(256,) True\nTrue\nTrue\n"


@pytest.mark.pipelines
def test_vectors_know_their_sentence(nlp):
    """Uses of one sense are nearer than uses of different senses, on average.

    The token layer is the same everywhere.
    """
    pipe = nlp.get_pipe("elmo")
    docs = [nlp.make_doc(sentence) for sentence in SENTENCES.values()]
    found = [layers[:, word(doc).i] for doc, layers in zip(docs, pipe.predict(docs))]
    for layers in found[1:]:
        np.testing.assert_allclose(layers[0], found[0][0], atol=1e-6)
    units = [(v / np.linalg.norm(v, axis=1, keepdims=True))[1:].ravel() for v in found]
    same = [units[0] @ units[1], units[2] @ units[3]]
    other = [units[i] @ units[j] for i in (0, 1) for j in (2, 3)]
    assert np.mean(same) > np.mean(other) + 0.01


@pytest.mark.pipelines
def test_a_misspelled_word_is_near_the_word(nlp):
    """The model reads characters: a typo's nearest word is the word."""
    words = ["government", "beautiful", "university", "yesterday", "children", "important"]
    typos = ["goverment", "beautifull", "univeristy", "yesterdy", "childern", "importent"]
    vectors = nlp.get_pipe("elmo").bilm.token_vectors([*words, *typos])
    vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    nearest = (vectors[len(words) :] @ vectors[: len(words)].T).argmax(axis=1)
    assert (nearest == np.arange(len(words))).sum() >= 5


@pytest.mark.pipelines
def test_pretrained_gives_the_sizes_of_the_training_config(nlp):
    """The block of a pipe, which has the defaults, follows them."""
    config = spacy_elmo.pretrained("en_small")
    assert config["weights"] == "en_small"
    made_by = util.load_config(ROOT / "configs" / "pretraining" / "en_small.cfg")["model"]
    assert config["model"] == made_by
    assert nlp.config["components"]["elmo"]["model"] != made_by
    sizes = {name: value for name, value in made_by.items() if name[0] != "@"}
    assert nlp.get_pipe("elmo").bilm.config.to_dict() == sizes


@pytest.mark.pipelines
def test_same_text_same_vector(nlp):
    """Vectors differ within the documented bound: alone, among others, in another order."""
    texts = ["the " * 450, *SENTENCES.values(), "bank " * 200, "a"]
    pipe = nlp.get_pipe("elmo")
    alone = [pipe.predict([nlp.make_doc(text)])[0] for text in texts]
    docs = [nlp.make_doc(text) for text in texts]
    together = pipe.predict(docs)
    turned = pipe.predict([*docs[::-1], *docs])
    for i, wanted in enumerate(alone):
        for found in (together[i], turned[len(docs) - 1 - i], turned[len(docs) + i]):
            np.testing.assert_allclose(found, wanted, atol=2e-5, rtol=0)


@pytest.mark.commands
def test_the_softmax_predicts_text(tmp_path):
    """Text is much less of a surprise than the same words backwards. A glass holds water."""
    lines = [sentence.split() for sentence in SENTENCES.values()]
    means = []
    for step in (1, -1):
        (tmp_path / "text.txt").write_text("\n".join(" ".join(line[::step]) for line in lines))
        shown = run_elmo("perplexity", "en_small", tmp_path / "text.txt", "--json").stdout
        means.append(json.loads(shown)["total"]["mean"])
    assert 3 * means[0] < means[1]
    asked = ("--sentence", "He drank a glass of water .", "--token", 5, "--json")
    shown = run_elmo("substitutes", "en_small", *asked).stdout
    assert "water" in [row["word"] for row in json.loads(shown)["substitutes"]]
