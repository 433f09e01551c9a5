"""What is to be said of weights goes with them, wherever they go."""

import pytest
import spacy
import srsly

from spacy_elmo.weights import locate, read_weights
from spacy_elmo.weights.convert import convert
from spacy_elmo.weights.formats import read_bundle

from helpers.models import tiny_bilm

TEXT = "The weights are made of Maria's letters, CC BY 4.0."
BUNDLED = locate("en_small").with_name("en_small-ATTRIBUTION.md").read_text("utf8")


def pipeline(lang="en", name="elmo", **provenance):
    nlp = spacy.blank(lang)
    bilm = tiny_bilm()
    bilm.provenance = provenance
    nlp.add_pipe("elmo", name=name).set_bilm(bilm)
    return nlp


def said_in(folder):
    path = folder / "LICENSES_SOURCES"
    text = path.read_text("utf8") if path.exists() else None
    return text, srsly.read_json(folder / "meta.json")["license"]


def test_the_bundled_model(tmp_path):
    """From the file beside it into a pipeline, and into those that are made of it."""
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo")
    nlp.to_disk(tmp_path / "a")
    assert said_in(tmp_path / "a") == (BUNDLED, "see LICENSES_SOURCES")
    assert "spacy-elmo" in BUNDLED
    nlp = spacy.load(tmp_path / "a")
    assert nlp.meta["license"] == "see LICENSES_SOURCES"
    other = spacy.blank("en")
    other.add_pipe("elmo", source=nlp)
    other.to_disk(tmp_path / "b")
    assert said_in(tmp_path / "b") == said_in(tmp_path / "a")


@pytest.mark.parametrize(
    ("provenance", "text", "license"),
    [
        ({}, None, ""),
        ({"attribution": TEXT, "licence": "CC-BY-4.0"}, TEXT, "CC-BY-4.0"),
        ({"attribution": TEXT}, TEXT, "see LICENSES_SOURCES"),
        ({"license": "MIT"}, None, "MIT"),
        ({"licence": "see en_small-ATTRIBUTION.md"}, BUNDLED, "see LICENSES_SOURCES"),
        ({"licence": "see a-ATTRIBUTION.md", "attribution": TEXT}, TEXT, "see LICENSES_SOURCES"),
        ({"licence": "see unknown-ATTRIBUTION.md"}, None, "see unknown-ATTRIBUTION.md"),
        ({"licence": 3, "attribution": ["x"]}, None, ""),
    ],
)
def test_what_is_known(tmp_path, provenance, text, license):
    pipeline(**provenance).to_disk(tmp_path)
    assert said_in(tmp_path) == (text, license)


def test_what_stands_there_stays(tmp_path):
    """A license of the pipeline's own, and other sources; nothing is said twice."""
    nlp = pipeline(attribution=TEXT, licence="CC-BY-4.0")
    nlp.meta["license"] = "MIT"
    (tmp_path / "LICENSES_SOURCES").write_text("Vectors: mine.\n", "utf8")
    for _ in range(2):
        nlp.to_disk(tmp_path)
        assert said_in(tmp_path) == (f"Vectors: mine.\n\n{TEXT}", "MIT")


def test_a_pipe_alone_writes_into_its_folder_alone(tmp_path):
    pipe = pipeline(attribution=TEXT, licence="CC-BY-4.0").get_pipe("elmo")
    pipe.to_disk(tmp_path / "elmo")
    srsly.write_json(tmp_path / "meta.json", {"components": ["ner"], "license": ""})
    pipe.to_disk(tmp_path / "elmo")
    assert {path.name for path in tmp_path.iterdir()} == {"elmo", "meta.json"}
    assert said_in(tmp_path) == (None, "")


@pytest.mark.parametrize("names", [["a.safetensors", "a.hdf5", "b.safetensors"], ["p", "a.hdf5"]])
def test_from_format_to_format(tmp_path, names):
    """In the weights, beside them, and in the pipeline at the end; it is no loss on the way."""
    source = tmp_path / "first"
    pipeline(attribution=TEXT, licence="CC-BY-4.0").to_disk(source)
    for name in [*names, "last"]:
        convert(source, tmp_path / name)
        source = tmp_path / name
        assert read_bundle(source).provenance["attribution"] == TEXT
        assert read_weights(source).provenance["licence"] == "CC-BY-4.0"
        if "." in name:
            assert source.with_name(f"{source.stem}-ATTRIBUTION.md").read_text("utf8") == TEXT
    assert said_in(source) == (TEXT, "CC-BY-4.0")
