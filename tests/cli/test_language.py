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

pytestmark = [pytest.mark.commands, pytest.mark.conversions]

TEXT = "Das Wasser ist z.B. kalt, d.h. unter 10 Grad.\n"
ASKED = ("--sentence", "das Wasser", "--token", "Wasser")
NEW_RUN = ("--corpus", "text.txt", "--dev", "text.txt", "--budget", "1 GPU, 1 day")


def tokens_of(lang):
    """Return the tokens of spaCy's own tokenizer."""
    return [token.text for token in spacy.blank(lang)(TEXT.strip())]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A German model in three formats, and one that does not say its language."""
    folder = tmp_path_factory.mktemp("models")
    weights = write_model(folder / "unknown", *MODELS["bytes"]())
    for name in ("pipeline", "german.safetensors"):
        convert(weights, folder / name, lang="de")
    shutil.copytree(folder / "pipeline", folder / "without")
    # A pipeline can have weights without a language.
    convert(folder / "unknown", folder / "x.safetensors")
    shutil.copy(folder / "x.safetensors", folder / "without" / "elmo" / "model.safetensors")
    return folder


@pytest.fixture
def folder(here, models):
    (here / "text.txt").write_text(TEXT, "utf8")
    return models


@pytest.mark.pipelines
@pytest.mark.parametrize("model", ["pipeline", "german.safetensors", "without"])
def test_running_text_is_tokenized_in_the_language_of_the_model(folder, make_nlp, model):
    assert tokens_of("de") not in (tokens_of("en"), tokens_of("xx"))
    path = folder / model
    given = ("text.txt", "--format", "text", "--json")
    audit = json.loads(run_elmo("info", path, "--audit", *given).stdout)["audit"]
    assert audit["tokens"] == len(tokens_of("de"))
    found = json.loads(run_elmo("neighbors", path, *given, *ASKED, "-n", 50).stdout)
    assert {word for row in found["neighbors"] for word in row["sentence"]} == {*tokens_of("de")}
    # Weights say the language, so that a pipeline of another one warns.
    assert read_weights(path).provenance["lang"] == "de"
    with pytest.warns(UserWarning, match="'de'"):
        make_nlp(weights=str(path))("The water")
    run_elmo("senses", path, *given[:-1], "--word", "d.h.", "--word", "d.h")
    (section,) = shown_pages.data_of(Path("senses.html").read_text("utf8"))["sections"]
    assert [word.get("total", 0) for word in section["words"]] == [1, 0]
    if model == "german.safetensors":  # which has its softmax in another file
        return

    def perplexity(*arguments):
        return json.loads(run_elmo("perplexity", *arguments, *given).stdout)["total"]

    assert perplexity(path) == perplexity(folder / "unknown", "--lang", "de")
    assert perplexity(path) != perplexity(path, "--lang", "en")


@pytest.mark.parametrize(("given", "lang"), [((), "de"), (("--lang", "en"), "en")])
def test_embed_tokenizes_in_the_language(folder, tmp_path, given, lang):
    model = folder / "german.safetensors"
    run_elmo("embed", model, "text.txt", "vectors.npz", "--format", "text", *given)
    with np.load("vectors.npz") as file:
        assert " ".join(json.loads(file["sentence_to_index"][0])).split() == tokens_of(lang)
    # Sentences need no tokenizer, running text in a language that spaCy does not have does.
    convert(model, tmp_path / "x.safetensors", lang="cu")
    shown = shown_by("embed", "x.safetensors", "text.txt", "other.npz")
    assert "no tokenizer for 'cu'" in shown
    assert "Set --lang" in shown


COMMANDS = [
    ("perplexity", "MODEL", "text.txt"),
    ("neighbors", "MODEL", "text.txt", *ASKED),
    ("senses", "MODEL", "text.txt", "--word", "Wasser"),
    ("info", "MODEL", "--audit", "text.txt"),
    ("corpus", "text.txt", "out"),
    ("init-pretraining", "a.cfg", *NEW_RUN),
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_running_text_without_a_language_asks_for_it(folder, command):
    given = [folder / "unknown" if part == "MODEL" else part for part in command]
    assert "Set --lang" in shown_by(*given, "--format", "text", status=1)
    shown_by(*given, "--format", "text", "--lang", "de")


def test_corpora_are_tokenized_in_the_language(folder, tmp_path):
    """Text in JSON is running text in both formats, and nothing of it is left out silently."""
    (tmp_path / "a.jsonl").write_text(json.dumps({"text": TEXT}) + "\n")
    assert "Set --lang" in shown_by("corpus", "a.jsonl", "out", status=1)
    shown_by("corpus", "a.jsonl", "out", "--lang", "de")
    assert {*open_corpus("out").types} - {"<S>", "</S>"} == {*tokens_of("de")}
    run_elmo("corpus", "a.jsonl", "out")  # it is there
    with pytest.raises(ValueError, match="`lang`"):
        list(read_sentences(find_files("a.jsonl")))
    # The language does not matter: it splits no sentences.
    arguments = ("corpus", "text.txt", "sentences", "-n", 1)
    run_elmo(*arguments, "--lang", "en")
    run_elmo(*arguments)
    run_elmo(*arguments, "--lang", "de")
    assert "another corpus" in shown_by(*arguments, "--format", "text", "--lang", "de", status=1)


def test_new_configs_have_the_language(folder):
    pipeline = folder / "pipeline"
    for arguments, lang in (
        (("init-training", "a.cfg", "--weights", pipeline), "de"),
        (("init-training", "b.cfg", "--weights", "german"), "de"),  # which is not downloaded
        (("init-training", "c.cfg", "--weights", pipeline, "--lang", "fi"), "fi"),
        (("init-pretraining", "d.cfg", *NEW_RUN), "xx"),
    ):
        assert lang in shown_by(*arguments) or lang != "xx"
        assert Config().from_disk(arguments[1])["nlp"]["lang"] == lang
    assert "--lang" in shown_by("init-training", "e.cfg", "--weights", folder / "unknown", status=1)
