"""The language of running text: the model's, or the one of `--lang`."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import spacy
from thinc.api import Config

from spacy_elmo.text.prepare import open_corpus
from spacy_elmo.text.reading import find_files, read_sentences
from spacy_elmo.weights import read_weights
from spacy_elmo.weights.convert import convert

from helpers import shown_pages
from helpers.commands import run_elmo, shown_by
from helpers.softmaxes import MODELS, write_model

TEXT = "Das Wasser ist z.B. kalt, d.h. unter 10 Grad.\n"
ASKED = ("--sentence", "das Wasser", "--token", "Wasser")
NEW_RUN = ("--corpus", "text.txt", "--dev", "text.txt", "--budget", "1 GPU, 1 day")


def tokens_of(lang):
    """How spaCy's own tokenizer reads the text."""
    return [token.text for token in spacy.blank(lang)(TEXT.strip())]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A German model in three formats, and one that does not say its language."""
    folder = tmp_path_factory.mktemp("models")
    weights = write_model(folder / "unknown", *MODELS["bytes"]())
    for name in ("pipeline", "german.safetensors"):
        convert(weights, folder / name, lang="de")
    shutil.copytree(folder / "pipeline", folder / "earlier")
    # Earlier versions wrote the language of a pipeline into its config only.
    convert(folder / "unknown", folder / "x.safetensors")
    shutil.copy(folder / "x.safetensors", folder / "earlier" / "elmo" / "model.safetensors")
    return folder


@pytest.fixture
def folder(tmp_path, monkeypatch, models):
    (tmp_path / "text.txt").write_text(TEXT, "utf8")
    monkeypatch.chdir(tmp_path)
    return models


GERMAN = ("pipeline", "german.safetensors", "earlier")


def test_the_text_tells_languages_apart():
    assert tokens_of("de") not in (tokens_of("en"), tokens_of("xx"))


@pytest.mark.parametrize("model", GERMAN)
def test_running_text_is_of_the_models_language(folder, model):
    path = folder / model
    given = ("text.txt", "--format", "text", "--json")
    audit = json.loads(run_elmo("info", path, "--audit", *given).stdout)["audit"]
    assert audit["tokens"] == len(tokens_of("de"))
    found = json.loads(run_elmo("neighbors", path, *given, *ASKED, "-n", 50).stdout)
    words = [token for row in found["neighbors"] for token in row["sentence"]]
    assert {*words} == {*tokens_of("de")}
    if model == "german.safetensors":  # which has its softmax in another file
        return

    def perplexity(*arguments):
        return json.loads(run_elmo("perplexity", *arguments, *given).stdout)["total"]

    assert perplexity(path) == perplexity(folder / "unknown", "--lang", "de")
    assert perplexity(path) != perplexity(path, "--lang", "en")


@pytest.mark.parametrize("given", [(), ("--lang", "en")])
def test_embed(folder, given):
    output = Path("vectors.npz")
    model = folder / "german.safetensors"
    run_elmo("embed", model, "text.txt", output, "--tokenize", "-F", *given)
    with np.load(output) as file:
        sentences = json.loads(file["sentence_to_index"][0])
    assert " ".join(sentences).split() == tokens_of(given[1] if given else "de")


def test_embed_in_a_language_that_spacy_does_not_have(folder, tmp_path):
    """Sentences need no tokenizer."""
    convert(folder / "german.safetensors", tmp_path / "x.safetensors", lang="cu")
    shown = shown_by("embed", "x.safetensors", "text.txt", "vectors.npz")
    assert "no tokenizer for 'cu'" in shown
    assert "Set --lang" in shown


def test_senses(folder):
    pytest.importorskip("sklearn")
    words = ("--word", "d.h.", "--word", "d.h")
    run_elmo("senses", folder / "german.safetensors", "text.txt", *words, "--format", "text")
    (section,) = shown_pages.data_of(Path("senses.html").read_text("utf8"))["sections"]
    assert [word.get("total", 0) for word in section["words"]] == [1, 0]


@pytest.mark.parametrize(
    "command",
    [
        ("perplexity", "MODEL", "text.txt"),
        ("neighbors", "MODEL", "text.txt", *ASKED),
        ("senses", "MODEL", "text.txt", "--word", "Wasser"),
        ("info", "MODEL", "--audit", "text.txt"),
        ("corpus", "text.txt", "out"),
        ("init-pretraining", "a.cfg", *NEW_RUN),
    ],
)
def test_without_a_language_running_text_asks(folder, command):
    if command[0] == "senses":
        pytest.importorskip("sklearn")
    given = [folder / "unknown" if part == "MODEL" else part for part in command]
    shown = shown_by(*given, "--format", "text", status=1)
    assert "Set --lang" in shown
    shown_by(*given, "--format", "text", "--lang", "de")


def test_text_in_json_asks(folder, tmp_path):
    """It is running text in both formats; nothing of it is left out in silence."""
    (tmp_path / "a.jsonl").write_text(json.dumps({"text": TEXT}) + "\n")
    assert "Set --lang" in shown_by("corpus", "a.jsonl", "out", status=1)
    shown_by("corpus", "a.jsonl", "out", "--lang", "de")
    assert {*open_corpus("out").types} - {"<S>", "</S>"} == {*tokens_of("de")}
    run_elmo("corpus", "a.jsonl", "out")  # it is there
    with pytest.raises(ValueError, match="`lang`"):
        list(read_sentences(find_files("a.jsonl")))


def test_corpora_of_sentences_of_earlier_versions(tmp_path):
    """They have the language that was the default, which nobody asked for. It splits nothing."""
    (tmp_path / "a.txt").write_text("das Wasser ist\n")
    arguments = ("corpus", tmp_path / "a.txt", tmp_path / "out", "-n", 1)
    run_elmo(*arguments, "--lang", "en")
    run_elmo(*arguments)
    run_elmo(*arguments, "--lang", "de")
    text = ("--format", "text")
    assert "another corpus" in shown_by(*arguments, *text, "--lang", "de", status=1)


def test_new_configs(folder):
    run_elmo("init-training", "a.cfg", "--weights", folder / "pipeline")
    assert Config().from_disk("a.cfg")["nlp"]["lang"] == "de"
    run_elmo("init-training", "b.cfg", "--weights", "german")  # which is not downloaded
    assert Config().from_disk("b.cfg")["nlp"]["lang"] == "de"
    run_elmo("init-training", "c.cfg", "--weights", folder / "pipeline", "--lang", "fi")
    assert Config().from_disk("c.cfg")["nlp"]["lang"] == "fi"
    assert "--lang" in shown_by("init-training", "d.cfg", "--weights", folder / "unknown", status=1)
    assert "xx" in shown_by("init-pretraining", "e.cfg", *NEW_RUN)
    assert Config().from_disk("e.cfg")["nlp"]["lang"] == "xx"


@pytest.mark.parametrize("model", GERMAN)
def test_weights_of_a_pipeline_say_its_language(folder, model):
    """So that a pipeline of another language warns."""
    assert read_weights(folder / model).provenance["lang"] == "de"
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", config={"weights": str(folder / model)})
    with pytest.warns(UserWarning, match="'de'"):
        nlp("The water")
