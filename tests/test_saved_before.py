"""Files that an earlier commit saved (tests/fixtures/saved) load, by the doors that users take."""

import json
import pickle
import re
import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest
import spacy
import srsly
import torch
from spacy.tokens import Doc, DocBin
from spacy.training import Example
from spacy.util import load_config, load_model_from_config, registry
from thinc.api import Config

from spacy_elmo.export import load_docs
from spacy_elmo.text.prepare import open_corpus
from spacy_elmo.vectors import keep_vectors, restore_vectors
from spacy_elmo.weights import read_weights

from helpers import written_vectors
from helpers.commands import run_python
from helpers.commands import shown_by as run
from helpers.components import examples
from helpers.golden import SAVED
from helpers.prepared import content, sentences_of
from helpers.runs import arrays, assert_same_arrays

pytestmark = pytest.mark.pipelines


@pytest.fixture
def saved(tmp_path, monkeypatch):
    """A copy of the files, where the test runs."""
    folder = shutil.copytree(SAVED, tmp_path / "saved")
    monkeypatch.chdir(folder)
    return folder


def expected_json(name):
    return srsly.read_json(SAVED / f"{name}.expected.json")


def expected_arrays(name):
    with np.load(SAVED / f"{name}.expected.npz") as file:
        return {key.replace("|", "/"): file[key] for key in file.files}


def assert_close(found, expected):
    """Equal but for the last bits, which differ between machines: to a millionth of the largest."""
    assert found.shape == expected.shape
    largest = np.abs(expected).max(initial=1.0)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6 * largest)


def check_answers(nlp, name):
    """Annotations and vectors are those of then."""
    arrays, answers = expected_arrays(name), expected_json(name)
    assert any(answer["ents"] or answer["tags"] for answer in answers)
    for i, answer in enumerate(answers):
        doc = nlp(answer["text"])
        assert [[ent.start, ent.end, ent.label_] for ent in doc.ents] == answer["ents"]
        assert [token.tag_ for token in doc if token.tag_] == answer["tags"]
        assert doc.cats == pytest.approx(answer["cats"], abs=1e-5)
        assert_close(doc.tensor, arrays[f"{i} tensor"])
        if f"{i} layers" in arrays:
            assert_close(doc._.elmo, arrays[f"{i} layers"])


# Pipelines


def weights_of(nlp):
    """The components' own weights, and the checksums of language models."""
    nodes = [(name, node) for name, pipe in nlp.pipeline for node in pipe.model.walk()]
    weights = {name: b"" for name in nlp.pipe_names if name != "elmo"}
    for name, node in nodes:
        for parameter in node.param_names:
            weights[name] += node.get_param(parameter).tobytes()
    return weights, {shim.bilm.checksum() for _, node in nodes for shim in node.shims}


@pytest.mark.parametrize("name", ["pipeline", "fine_tuned", "replaced"])
def test_saved_pipelines_predict_and_learn(name, tmp_path):
    """Each component learns, and ELMo if it is not frozen."""
    nlp = spacy.load(SAVED / name)
    check_answers(nlp, name)
    nlp.to_disk(tmp_path / "again")
    check_answers(spacy.load(tmp_path / "again"), name)
    before, checksums = weights_of(nlp)
    nlp.update(examples(nlp), sgd=nlp.resume_training())
    after, then = weights_of(nlp)
    assert [pipe for pipe in after if after[pipe] == before[pipe]] == []
    assert (then == checksums) == (name == "pipeline")


def test_saved_bytes_predict_the_same():
    nlp = spacy.blank("en").from_config(load_config(SAVED / "pipeline" / "config.cfg"))
    check_answers(nlp.from_bytes((SAVED / "pipeline.bytes").read_bytes()), "pipeline")


def test_every_registered_name_of_a_saved_config_is_known(monkeypatch):
    """Each has its settings. Paths of weights are relative."""
    monkeypatch.chdir(SAVED)
    text = Path("trained.cfg").read_text("utf8")
    found = set(re.findall(r'^@(\w+) = "(spacy-elmo\.\S+)"', text, re.MULTILINE))
    assert len(found) == 16
    for kind, name in found:
        assert registry.has(kind, name), name
    config = load_config("trained.cfg")
    nlp = load_model_from_config(config, auto_fill=False, validate=True)
    assert nlp.pipe_names == ["elmo", "elmo_windows", "elmo_doc", "elmo_new", "ner", "tagger"]
    doc = Doc(nlp.vocab, words=expected_json("pipeline")[1]["text"].split())
    for name, layers in expected_arrays("trained").items():
        assert_close(nlp.get_pipe(name).predict([doc])[0], layers)
    assert nlp.get_pipe("elmo_new").predict([doc])[0].shape == (3, len(doc), 8)
    registry.resolve({"objective": config["pretraining"]["objective"]})


# Kept features


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_features_without_checksums_are_computed_once_more(saved, computed, dtype):
    """They are computed once, and equal the saved ones."""
    settings = {"@feature_caches": "spacy-elmo.disk.v1", "path": "features.sqlite", "dtype": dtype}
    nlp = spacy.load("pipeline", config={"components": {"elmo": {"features": settings}}})
    texts = expected_json("features")
    for n_computed in (len(texts), 0):
        docs = [nlp.make_doc(text) for text in texts]
        nlp.get_pipe("elmo").update([Example(doc, doc.copy()) for doc in docs])
        assert len(computed) == n_computed
        computed.clear()
    for i, doc in enumerate(docs):
        kept = expected_arrays("features")[f"{dtype} {i}"]
        np.testing.assert_allclose(doc._.elmo, kept, rtol=2**-10, atol=1e-6)


# Docs


def test_saved_docs_have_their_vectors():
    """Docs are pickled, as bytes, and in a DocBin."""
    vocab = spacy.load(SAVED / "pipeline").vocab
    tensors = [expected_arrays("pipeline")[f"{i} tensor"] for i in range(4)]
    docs = DocBin().from_disk(SAVED / "docs.spacy").get_docs(vocab)
    docs = [restore_vectors(doc) for doc in docs]
    for doc, tensor in zip(docs, tensors):
        assert_close(doc.tensor, tensor)
    loaded = restore_vectors(Doc(vocab).from_bytes((SAVED / "doc.bytes").read_bytes()))
    pickled = pickle.loads((SAVED / "doc.pickle").read_bytes())
    other = docs[1]
    for doc in (docs[0], loaded, pickled):
        assert_close(doc[4].vector, tensors[0][4])
        similarities = {"tokens": doc[4].similarity(other[1]), "docs": doc.similarity(other)}
        similarities["spans"] = doc[3:5].similarity(other[0:2])
        assert similarities == pytest.approx(expected_json("docs"), abs=1e-6)
    restored = restore_vectors(keep_vectors(pickled))
    assert_close(restored._.elmo, expected_arrays("pipeline")["0 layers"])


@pytest.mark.processes
def test_a_pickled_doc_imports_its_hooks():
    script = (
        "import json, pickle, sys; doc = pickle.load(open(sys.argv[1], 'rb'));"
        "print(json.dumps([doc[4].vector.tolist(), doc[4].similarity(doc[0]), doc.has_vector]))"
    )
    doc = pickle.loads((SAVED / "doc.pickle").read_bytes())
    expected = [doc[4].vector.tolist(), doc[4].similarity(doc[0]), True]
    assert json.loads(run_python("-c", script, SAVED / "doc.pickle")) == expected


# Corpora and pretraining


@pytest.mark.commands
def test_a_prepared_corpus_is_read_and_found_by_its_command(saved):
    corpus, expected = open_corpus(SAVED / "corpus", verify=True), expected_json("corpus")
    assert sentences_of(corpus) == expected["sentences"]
    assert dict(zip(corpus.types, corpus.counts().tolist())) == expected["counts"]
    files = content(saved / "corpus")
    run("corpus", "text", "corpus", "--lang", "xx", "--max-size", 60)
    assert content(saved / "corpus") == files


def check_metrics(output, expected, first=1):
    """Losses and perplexities from a step on are those of then."""
    rows = [json.loads(line) for line in (output / "metrics.jsonl").read_text("utf8").splitlines()]
    assert [row["step"] for row in rows] == [row["step"] for row in expected]
    for name in ("seconds", "elapsed"):
        assert np.diff([row[name] for row in rows]).min() >= 0
    for row, wanted in zip(rows[first - 1 :], expected[first - 1 :]):
        assert row["tokens"] == 4 * 8 * row["step"]  # streams, steps of a window
        assert row["sampled_loss"] == pytest.approx(wanted["sampled_loss"], abs=1e-5)
        assert row["learn_rate"] == pytest.approx(wanted["learn_rate"], rel=1e-6)
        assert row["perplexity"] == pytest.approx(wanted["perplexity"], rel=1e-5)


@pytest.mark.commands
def test_training_on_a_saved_corpus_gives_the_same(saved):
    changes = ["--corpus.train", "corpus", "--training.max_steps", 3]
    run("pretrain", "pretraining-adam.cfg", "--output", "out", *changes)
    check_metrics(saved / "out", expected_json("pretraining-prepared"))


@pytest.mark.commands
@pytest.mark.parametrize("name", ["adam", "adagrad", "adamw"])
def test_an_interrupted_run_is_resumed(saved, name):
    """Losses and model equal the saved ones, and the corpus is not changed."""
    output = saved / f"pretraining-{name}"
    metrics, corpus = (output / "metrics.jsonl").read_bytes(), content(output / "corpus")
    shown = run("pretrain", f"pretraining-{name}.cfg", "--output", output, "--resume")
    assert "Resuming from step 6" in shown
    check_metrics(output, expected_json(f"pretraining-{name}"), first=7)
    assert (output / "metrics.jsonl").read_bytes().startswith(metrics)
    assert content(output / "corpus") == corpus
    assert (output / "checkpoints" / "checkpoint-0000000012.pt").is_file()


@pytest.mark.commands
def test_a_checkpoint_refuses_other_settings(saved):
    """Settings that it does not know were at their defaults, as if they had been added since."""
    arguments = ("pretrain", "pretraining-adam.cfg", "--output", "pretraining-adam", "--resume")
    shown = run(*arguments, "--training.learn_rate", 0.5, status=1)
    assert "training.learn_rate was 0.01 and is 0.5" in shown
    path = saved / "pretraining-adam" / "checkpoints" / "checkpoint-0000000006.pt"
    state = torch.load(path, weights_only=True)
    given = {f"training.{name}" for name in load_config("pretraining-adam.cfg")["training"]}
    unknown = {name for name in state["config"] if name.startswith("training.")} - given
    assert unknown >= {"training.optimizer", "training.grad_clip", "training.decay"}
    # It decides which tensors a checkpoint has.
    for name in unknown - {"training.softmax"}:
        del state["config"][name]
    torch.save(state, path)
    run(*arguments)
    check_metrics(saved / "pretraining-adam", expected_json("pretraining-adam"), first=7)


# Models


MODELS = (
    *("pipeline", "fine_tuned", "pretraining-adam/model-best", "pretraining-adamw/model-best"),
    *("converted/float32.safetensors", "converted/float16.safetensors"),
    *("converted/allennlp", "converted/manylangs"),
)


@pytest.mark.parametrize("name", MODELS)
def test_saved_models_give_the_same_vectors(name):
    sentences = [answer["text"].split() for answer in expected_json("pipeline")]
    layers, state = read_weights(SAVED / name).embed(sentences, "warm")
    expected = expected_arrays("models")
    for i, values in enumerate(layers):
        assert_close(values, expected[f"{name} {i}"])
    assert_close(state.hidden, expected[f"{name} hidden"])
    assert_close(state.cell, expected[f"{name} cell"])


@pytest.mark.commands
@pytest.mark.parametrize("name", expected_json("models"))
def test_saved_models_give_the_same_perplexity(saved, name):
    run("perplexity", name, "dev.txt", "--output", "figures.json")
    found = srsly.read_json("figures.json")["total"]
    assert found == pytest.approx(expected_json("models")[name], rel=1e-5)


@pytest.mark.commands
@pytest.mark.parametrize("name", ["pretraining-adam/model-best", "converted/allennlp"])
def test_saved_models_are_pretrained_further(saved, name):
    """They have their softmax and vocabulary, so the perplexity before is theirs."""
    config = load_config("pretraining-adam.cfg")
    config["training"]["max_steps"] = 1
    Config({**config, "pretraining": {"init": name, "softmax_warmup": 0}}).to_disk("a.cfg")
    shown = run("pretrain", "a.cfg", "--output", "out")
    before = expected_json("models")[name]["mean"]
    assert f"the perplexity was {before:.2f}, on the same text" in shown


@pytest.mark.commands
def test_models_convert_to_the_same_weights(saved):
    run("convert", "converted/allennlp/elmo_weights.hdf5", "again", "--lang", "xx")
    assert_same_arrays(arrays(saved, "again"), arrays(saved / "pretraining-adam", "model-best"))


# Vectors of corpora


@pytest.mark.commands
@pytest.mark.parametrize("format", written_vectors.FORMATS)
@pytest.mark.parametrize(("layers", "dtype"), [("average", "float32"), ("all", "float16")])
def test_written_vectors_are_read_and_written_the_same(saved, format, layers, dtype):
    """The same command writes the same vectors to the same layout."""
    suffix = "" if format == "spacy" else f".{format}"
    old, new = (saved / "embedded" / f"{name}{suffix}" for name in (f"{layers}-{dtype}", "new"))
    kind = "tensor" if layers == "average" else "layers"
    arrays, docs = expected_arrays("pipeline"), expected_json("pipeline")[:3]
    run("embed", "pipeline", "sentences.txt", new, "--layers", layers, "--dtype", dtype)
    tolerance = {"float32": {"rtol": 0, "atol": 2e-6}, "float16": {"rtol": 2**-10, "atol": 1e-6}}
    for path in (old, new):
        found = written_vectors.read(format, path)
        assert [values.dtype for values in found] == [dtype] * 3
        for i, values in enumerate(found):
            np.testing.assert_allclose(values, arrays[f"{i} {kind}"], **tolerance[dtype])
    if format in ("hdf5", "npz"):
        index = written_vectors.index_of(format, old)
        assert index == written_vectors.index_of(format, new)
        assert index == {doc["text"]: str(i) for i, doc in enumerate(docs)}
    if format == "spacy":
        loaded = list(load_docs(old, spacy.load(SAVED / "pipeline").vocab))
        assert [doc.text for doc in loaded] == [doc["text"] for doc in docs]
        for i, doc in enumerate(loaded):
            np.testing.assert_allclose(doc.tensor, arrays[f"{i} tensor"], rtol=2e-3, atol=2e-3)
            np.testing.assert_array_equal(doc[1].vector, doc.tensor[1])


@pytest.mark.commands
def test_written_vectors_know_model_text_and_settings(saved):
    """The checksums of the same model, text and settings are equal."""
    run("embed", "pipeline", "sentences.txt", "new.hdf5")
    found = []
    for path in ("embedded/average-float32.hdf5", "new.hdf5"):
        with h5py.File(path) as file:
            found.append(json.loads(file.attrs["spacy_elmo"]))
        assert found[-1].pop("spacy_elmo")  # the version
    assert found[0] == found[1]
