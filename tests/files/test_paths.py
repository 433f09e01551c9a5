"""`~` in paths of Python, configs and commands, where no shell expands it."""

import json
import os
import shutil

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc, DocBin
from spacy.util import registry

import spacy_elmo
from spacy_elmo.analysis.corpora import read_annotated_docs, read_corpus_docs
from spacy_elmo.analysis.sense_corpus import read_sense_corpus
from spacy_elmo.embedding.features_file import DiskFeatures
from spacy_elmo.pipeline.load import is_pipeline, read_pipeline
from spacy_elmo.text.corpus import load_text
from spacy_elmo.text.prepare import is_prepared, open_corpus
from spacy_elmo.weights import read_weights
from spacy_elmo.weights.convert import convert

from helpers.commands import run_elmo, shown_by
from helpers.embedded import embed_corpus
from helpers.prepared import prepare


@pytest.fixture
def home(tmp_path, monkeypatch, tiny_weights):
    """Make a home folder with a model and files. The working folder is another one."""
    home = tmp_path / "home"
    shutil.copytree(tiny_weights.parent, home / "model")
    (home / "a.txt").write_text("a b\nc\n", "utf8")
    (home / "words.jsonl").write_text('{"words": ["a"], "tags": ["O"]}\n')
    (home / "senses.jsonl").write_text('{"words": ["a"], "keys": [["a%1:17:01::"]], "doc": "d"}\n')
    DocBin(docs=[Doc(spacy.vocab.Vocab(), words=["a"])]).to_disk(home / "a.spacy")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    monkeypatch.setenv("HOME", str(home))
    yield home
    assert not os.listdir(tmp_path / "elsewhere")  # no folder is named "~"


@pytest.mark.pipelines
@pytest.mark.conversions
def test_weights_and_pipelines_are_found_in_the_home(home):
    expected = read_weights(home / "model").checksum()
    assert read_weights("~/model").checksum() == expected
    convert("~/model", "~/pipeline", lang="en")
    convert("~/model", "~/x.safetensors")
    weights, options = (next((home / "model").glob(f"*.{end}")).name for end in ("hdf5", "json"))
    for kind, *paths in (
        ("allennlp", f"~/model/{weights}", f"~/model/{options}"),
        ("safetensors", "~/x.safetensors"),
    ):
        reader = registry.get("weights_readers", f"spacy-elmo.{kind}.v1")
        assert reader(*paths)().checksum() == expected
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", config=spacy_elmo.pretrained("~/model"))
    assert nlp.get_pipe("elmo").bilm.checksum() == expected
    assert is_pipeline("~/pipeline")
    assert read_pipeline("~/pipeline").pipe_names == ["elmo"]
    np.save(home / "W.npy", np.eye(12, dtype="float32"))
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", config={"weights": "~/x.safetensors", "align": "~/W.npy"})
    nlp("a")


@pytest.mark.corpora
def test_texts_are_found_in_the_home(home):
    for given in ("~/a.txt", "~/*.txt"):
        assert load_text(given).n_words == 3
        assert [len(doc) for doc in read_corpus_docs([given, "~/a.spacy"])] == [2, 1, 1]
    prepare("~/a.txt", "~/corpus", n_process=1)
    assert is_prepared("~/corpus")
    assert open_corpus("~/corpus").n_words == 3
    assert len(list(read_annotated_docs("~/a.spacy", spacy.vocab.Vocab()))) == 1
    assert len(read_sense_corpus("~/senses.jsonl")) == 1
    for file in ("words.jsonl", "a.spacy"):
        read = registry.get("readers", "spacy-elmo.BIOCorpus.v1")(f"~/{file}")
        assert [len(example.x) for example in read(spacy.blank("en"))] == [1]


@pytest.mark.corpora
def test_vectors_and_features_are_written_to_the_home(home):
    embed_corpus("~/model", "~/a.txt", "~/shards", shards=1)
    assert (home / "shards").is_dir()
    features = DiskFeatures("~/features.sqlite")
    assert features.config()["path"] == "~/features.sqlite"  # another machine's home
    features.add([b"k"], [np.zeros((1, 1, 1), "float32")])
    features.close()
    assert (home / "features.sqlite").is_file()


@pytest.mark.commands
def test_arguments_of_commands_are_expanded(home):
    """Some of these paths must exist before a command runs."""
    assert json.loads(run_elmo("info", "~/model", "--json").stdout)["layers"] == 3
    given = ("--weights=~/model", "--train=~/a.spacy", "--lang", "en")
    run_elmo("init-training", "~/a.cfg", *given)
    assert f'train = "{home}/a.spacy"' in (home / "a.cfg").read_text()
    run_elmo("embed", "~/model", "~/a.txt", "~/b.npz")
    run_elmo("corpus", "~/a.txt", "~/corpus", "-n", 1)
    for name in ("a.cfg", "b.npz", "corpus"):
        assert (home / name).exists()
    texts = ["--paths.train=~/nothing.txt", "--paths.dev", "~/a.txt"]
    given = ("--corpus=~/a.txt", "--dev=~/a.txt", "--budget", "the paper")
    run_elmo("init-pretraining", "~/p.cfg", *given)
    assert f"{home}/nothing.txt" in shown_by("pretrain", "~/p.cfg", "-o", "~/out", *texts, status=1)


@pytest.mark.commands
def test_tildes_in_other_arguments_stay(home):
    sentence = ("--sentence", "~ a", "--token", "~5")
    assert "~5" in shown_by("neighbors", "~/model", "~/a.txt", *sentence, status=1)
