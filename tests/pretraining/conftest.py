"""Texts of small runs."""

import shutil

import pytest

from helpers.runs import write_texts


@pytest.fixture(scope="session")
def texts(tmp_path_factory):
    """Return a folder with `train.txt`, some hundred words, and `dev.txt`."""
    made = tmp_path_factory.mktemp("texts")
    write_texts(made)
    return made


@pytest.fixture
def folder(texts, tmp_path):
    """Return the test's own folder, with a copy of the texts."""
    return shutil.copytree(texts, tmp_path, dirs_exist_ok=True)
