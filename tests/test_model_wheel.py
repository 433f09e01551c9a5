"""The sources of the model's own wheel."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest
import spacy

sys.path.insert(0, str(Path(__file__).parents[1] / "wheels"))
try:
    import en_small as builder
finally:
    sys.path.pop(0)


def test_it_is_a_pipeline_with_the_weights(tmp_path, monkeypatch):
    builder.write_sources(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    nlp = importlib.import_module("spacy_elmo_en_small").load(exclude=[])
    plain = spacy.blank("en")
    plain.add_pipe("elmo")
    found, expected = (pipeline("The bank lends money.").tensor for pipeline in (nlp, plain))
    np.testing.assert_array_equal(found, expected)
    assert nlp.meta["version"] == builder.VERSION
    attribution = (tmp_path / "ATTRIBUTION.md").read_text("utf8")
    assert "Wikipedia" in attribution
    assert attribution == (nlp.path / "LICENSES_SOURCES").read_text("utf8")
    assert f'license = "{nlp.meta["license"]}"' in (tmp_path / "pyproject.toml").read_text("utf8")


def test_other_weights_are_another_version(tmp_path, monkeypatch):
    monkeypatch.setattr(builder, "CHECKSUM", "0" * 64)
    with pytest.raises(ValueError, match=r"Increase VERSION in en_small\.py"):
        builder.write_sources(tmp_path)
    assert not list(tmp_path.iterdir())
