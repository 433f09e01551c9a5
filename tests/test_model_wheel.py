"""Wheels of the models: each is a pipeline with the weights, its licence and its version."""

import importlib
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import spacy
from packaging.specifiers import SpecifierSet

from spacy_elmo.weights import BUNDLED, locate

from helpers.page_blocks import ROOT, run_page
from helpers.wheels import SPACY, TRAINED, builder, install

pytestmark = pytest.mark.pipelines

SENTENCES = {"en_small": ("en", "The bank lends money.", "Wikipedia")}
SENTENCES |= {"en_medium": ("en", "The bank lends money.", "changelog")}
SENTENCES |= {"de_historical": ("de", "Der größte Theil der Stadt.", "Dingler")}
SENTENCES |= {"fr_historical": ("fr", "Il demeuroit à Paris.", "ELTeC")}
RELEASE = ROOT / ".github" / "workflows" / "release.yml"


@pytest.fixture(params=builder.MODELS)
def model(request):
    return builder.MODELS[request.param]


@pytest.fixture
def installed(model, tmp_path, monkeypatch):
    """A folder with the sources, where Python finds the package as an installed one."""
    install(model, tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    sys.modules.pop(model.module, None)


@pytest.mark.parametrize("model", SENTENCES, indirect=True)
def test_a_wheel_is_a_pipeline_with_the_weights(model, installed):
    lang, text, source = SENTENCES[model.name]
    nlp = importlib.import_module(model.module).load(exclude=[])
    plain = spacy.blank(lang)
    is_bundled = model.name == BUNDLED  # The pipe's own model is then the wheel's.
    plain.add_pipe("elmo", config={} if is_bundled else {"weights": str(model.weights)})
    found, expected = (pipeline(text).tensor for pipeline in (nlp, plain))
    np.testing.assert_array_equal(found, expected)
    assert nlp.lang == lang
    assert nlp.meta["version"] == model.version
    assert SpecifierSet(nlp.meta["spacy_version"]) == SPACY
    attribution = (installed / "ATTRIBUTION.md").read_text("utf8")
    assert source in attribution
    assert attribution == (nlp.path / "LICENSES_SOURCES").read_text("utf8")
    assert f'license = "{nlp.meta["license"]}"' in (installed / "pyproject.toml").read_text("utf8")


def test_the_code_of_the_card_runs(model, installed, monkeypatch, special_cases):
    (installed / "work").mkdir()
    monkeypatch.chdir(installed / "work")
    special_cases(model.card.read_text("utf8"))
    assert run_page(model.card) == []


@pytest.mark.parametrize("model", [builder.MODELS["de_historical"]], ids=["de_historical"])
def test_an_installed_model_is_found_by_its_name(model, installed):
    assert locate(model.name) == installed / model.module / "pipeline"


@pytest.mark.parametrize("model", [model.name for model in TRAINED], indirect=True)
def test_a_trained_pipeline_loads_and_analyses(model, installed):
    nlp = spacy.load(model.name)
    texts = {
        "en": "Maria lives in Berlin. She works there.",
        "de": "Maria wohnt in Berlin. Sie arbeitet dort.",
    }
    doc = nlp(texts[nlp.lang])
    assert [ent.text for ent in doc.ents] == ["Maria", "Berlin"]
    assert len(list(doc.sents)) == 2
    assert nlp.meta["version"] == model.version
    assert nlp.meta["performance"]["ents_f"] > 0.4
    assert f'license = "{nlp.meta["license"]}"' in (installed / "pyproject.toml").read_text("utf8")
    assert {source["license"] for source in nlp.meta["sources"]}


def test_a_release_publishes_each_wheel(model):
    """The workflow selects the files of a package by their name."""
    entry = f"- package: {model.package}\n            files: {model.module}-*\n"
    assert entry in RELEASE.read_text("utf8")


def test_other_weights_need_another_version(model, tmp_path):
    with pytest.raises(ValueError, match=rf"Increase the version of {model.name} in model\.py"):
        builder.write_sources(replace(model, checksum="0" * 64), tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.fixture
def trained(tmp_path):
    """A trained pipeline, as the project packages it."""
    nlp = spacy.blank("en", meta={"name": "tiny_sm", "version": "1.2.0"})
    nlp.add_pipe("sentencizer")
    folder = tmp_path / "en_tiny_sm"
    nlp.to_disk(folder)
    (folder / "README.md").write_text("The card", "utf8")
    (folder / "LICENSES_SOURCES").write_text("The sources", "utf8")
    return builder.Pipeline(
        name="en_tiny_sm",
        description="Tiny",
        version="1.2.0",
        checksum=builder.checksum_of(folder),
        folder=str(folder.parent),
    )


def test_wheel_of_a_trained_pipeline(trained, tmp_path, monkeypatch):
    sources = tmp_path / "sources"
    sources.mkdir()
    builder.write_sources(trained, sources)
    monkeypatch.syspath_prepend(sources)
    nlp = importlib.import_module("en_tiny_sm").load()
    sys.modules.pop("en_tiny_sm")
    assert len(list(nlp("One. Two.").sents)) == 2
    assert (sources / "README.md").read_text("utf8") == "The card"
    assert (sources / "ATTRIBUTION.md").read_text("utf8") == "The sources"
    assert (sources / "en_tiny_sm" / "meta.json").is_file()  # `spacy info` reads it
    assert 'name = "en-tiny-sm"' in (sources / "pyproject.toml").read_text("utf8")


def test_a_changed_pipeline_is_another_version(trained, tmp_path):
    sources = tmp_path / "sources"
    sources.mkdir()
    with pytest.raises(ValueError, match=r"version 1\.2\.0, expected 1\.3\.0.*en_tiny_sm\.yml"):
        builder.write_sources(replace(trained, version="1.3.0"), sources)
    (trained.weights / "extra").touch()
    with pytest.raises(ValueError, match="Increase the version of en_tiny_sm"):
        builder.write_sources(trained, sources)


@pytest.mark.parametrize("folder", [[], ["dist"]], ids=["install", "build"])
def test_one_command_installs_or_builds_one_model(folder, monkeypatch):
    """The command needs pip, and neither the package `build` nor another environment."""
    commands = []

    def pip(command, *, check):
        assert check and (Path(command[-1]) / "pyproject.toml").is_file()
        commands.append(command[:-1])

    monkeypatch.setattr(builder, "run", pip)
    builder.main(["de_historical", *folder])
    target = ["wheel", "--wheel-dir", "dist"] if folder else ["install"]
    assert commands == [[sys.executable, "-m", "pip", *target, "--no-deps"]]


def test_a_model_is_not_installed_without_the_package(monkeypatch, capsys):
    monkeypatch.setattr(builder, "find_spec", lambda name: None)
    monkeypatch.setattr(builder, "run", None)
    with pytest.raises(SystemExit):
        builder.main(["en_elmo_web_sm"])
    assert "spacy-elmo is not installed" in capsys.readouterr().err
