"""Export: writes the vectors of whole corpora to files."""

from .corpus import embed_corpus
from .embedder import CorpusEmbedder as Embedder
from .settings import ExportSettings
from .spacy_output import load_docs

__all__ = ["Embedder", "ExportSettings", "embed_corpus", "load_docs"]
