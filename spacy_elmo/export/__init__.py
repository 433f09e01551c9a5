"""Export: writes the vectors of whole corpora to files."""

from .embedder import CorpusEmbedder as Embedder
from .spacy_output import load_docs

__all__ = ["Embedder", "load_docs"]
