"""Pipelines that commands are given."""

from pathlib import Path

import spacy
from spacy.language import Language


def load_pipeline(name: str) -> Language:
    """name (str): A folder, or the name of a package.
    RETURNS (Language): The pipeline.
    RAISES (OSError): There is none."""
    return spacy.load(Path(name) if Path(name).exists() else name)
