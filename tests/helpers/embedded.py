"""`embed_corpus` with settings as keywords, whichever object they belong to."""

from dataclasses import fields

from spacy_elmo.export import Embedder, ExportSettings
from spacy_elmo.export.corpus import embed_corpus as embed

OF_THE_EXPORT = {field.name for field in fields(ExportSettings)}


def embed_corpus(model, inputs, output, **settings):
    """Embed a corpus. Return the counts."""
    mine = {name: settings.pop(name) for name in OF_THE_EXPORT & settings.keys()}
    return embed(Embedder(model, **settings), inputs, output, ExportSettings(**mine))
