"""Imports of packages that may be missing: the module, or one error that says what to install."""

import sys

import pytest

from spacy_elmo.files.optional import PACKAGES, import_optional


def test_an_installed_package_is_imported():
    import torch

    assert import_optional("torch", "This test") is torch


@pytest.mark.parametrize("module", PACKAGES)
def test_a_missing_package_is_named(module, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    name, package = PACKAGES[module]
    with pytest.raises(ImportError) as error:
        import_optional(module, "This test", ", or skip it")
    shown = str(error.value)
    assert shown.startswith(f"This test needs {name}, which cannot be imported (")
    assert shown.endswith(f"Run pip install {package}, or skip it.")
