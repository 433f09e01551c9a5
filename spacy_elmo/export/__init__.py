"""Vectors of whole corpora, in files."""

from .spacy_output import load_docs

__all__ = ["load_docs"]
