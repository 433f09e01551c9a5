"""What runs where PyTorch is not installed: it is hidden from processes of their own.

`pytest --noconftest tests/without_torch` runs where it really lacks.
"""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
import spacy

from helpers.components import TEXTS, ner
from helpers.trained import trained

HIDE = """
import sys

class Hide:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError(f"No module named '{name}'")

sys.meta_path.insert(0, Hide())
"""
TEXT = "The bank lends money .\nHe swims by the bank .\n"


@pytest.fixture
def without_torch(tmp_path):
    """Runs Python in a folder of its own; what it printed."""
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / "sitecustomize.py").write_text(HIDE)
    (tmp_path / "text.txt").write_text(TEXT)
    paths = (str(tmp_path / "hidden"), os.environ.get("PYTHONPATH"), *sys.path)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}

    def run(*arguments, fails=False):
        done = subprocess.run(
            [sys.executable, *map(str, arguments)],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert (done.returncode != 0) == fails, done.stdout + done.stderr
        return done.stdout + done.stderr if fails else done.stdout

    return run


VECTORS = """
import sys, json, spacy
from spacy_elmo.weights import read_weights
nlp = spacy.blank("en")
nlp.add_pipe("elmo", config={"weights": "en_small"})
doc = nlp("The bank lends money .")
layers = read_weights("en_small").embed([[token.text for token in doc]], "warm")[0][0]
has_torch = "torch" in sys.modules
print(json.dumps([doc.tensor.tolist(), layers.tolist(), has_torch]))
"""


def test_vectors(without_torch):
    tensor, layers, has_torch = json.loads(without_torch("-c", VECTORS))
    assert not has_torch
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", config={"weights": "en_small"})
    np.testing.assert_allclose(tensor, nlp("The bank lends money .").tensor, rtol=0, atol=1e-5)
    np.testing.assert_allclose(tensor, layers[-1], rtol=0, atol=1e-5)


ASKED = ("--sentence", "The bank lends .", "--token", "bank")
COMMANDS = [
    ("info", "en_small"),
    ("perplexity", "en_small", "text.txt"),
    ("substitutes", "en_small", *ASKED),
    ("neighbors", "en_small", "text.txt", *ASKED),
    ("senses", "en_small", "text.txt", "--word", "bank", "--output", "senses.html"),
    ("convert", "en_small", "weights.hdf5", "--allow-loss"),
    ("embed", "en_small", "text.txt", "vectors.npz"),
]
RUN = """
import json, sys
from spacy.cli._util import app
from typer.testing import CliRunner
import spacy_elmo.cli
for command in json.loads(sys.argv[1]):
    result = CliRunner().invoke(app, ["elmo", *command])
    assert result.exit_code == 0, (command, result.output, result.exception)
"""


def test_commands(without_torch):
    without_torch("-c", RUN, json.dumps(COMMANDS))


USE = """
import json, spacy
nlp = spacy.load("trained")
docs = nlp.pipe(json.load(open("texts.json")))
print(json.dumps([[(ent.text, ent.label_) for ent in doc.ents] for doc in docs]))
"""


def test_a_pipeline_that_was_trained_with_torch(without_torch, tmp_path):
    pytest.importorskip("torch")
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo")
    batch, sgd = trained(nlp, ner=ner({"@architectures": "spacy-elmo.ElmoListener.v1"}))
    sgd.learn_rate = 0.01
    for _ in range(40):
        nlp.update(batch, sgd=sgd)
    nlp.to_disk(tmp_path / "trained")
    texts = [text for text, *_ in TEXTS]
    (tmp_path / "texts.json").write_text(json.dumps(texts))
    expected = [[[ent.text, ent.label_] for ent in doc.ents] for doc in nlp.pipe(texts)]
    assert sum(map(len, expected)) >= 3
    assert json.loads(without_torch("-c", USE)) == expected


COMPONENTS = """
import spacy
for factory in ("elmo_crf", "elmo_srl", "elmo_coref", "elmo_qa", "elmo_textpair"):
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", config={"weights": "en_small"})
    try:
        nlp.add_pipe(factory)
    except ImportError as error:
        assert factory in str(error) and "pip install torch" in str(error), error
    else:
        raise AssertionError(factory)
"""


def test_components_of_tasks_are_named(without_torch):
    without_torch("-c", COMPONENTS)


TRAIN = """
import spacy
nlp = spacy.blank("en")
nlp.add_pipe("elmo", config={"frozen": False})
nlp("One .")
"""


def test_what_needs_it_says_so(without_torch):
    shown = without_torch("-c", TRAIN, fails=True)
    assert "needs PyTorch, which cannot be imported" in shown
    assert "Run pip install torch." in shown
