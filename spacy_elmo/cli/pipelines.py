"""Pipelines that commands are given."""

import spacy
from spacy.language import Language

from ..files import user_path


def load_pipeline(name: str) -> Language:
    """name (str): A folder, or the name of a package.
    RETURNS (Language): The pipeline.
    RAISES (OSError): There is none."""
    path = user_path(name)
    return spacy.load(path if path.exists() else name)
