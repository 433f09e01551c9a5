"""How text becomes Docs, and Docs become entries."""

import sys
from collections.abc import Iterable, Iterator
from typing import Any

from spacy.language import Language
from spacy.pipeline import Sentencizer
from spacy.tokens import Doc

from ..embedding.segmenters import Segmenter
from ..pipeline.elmo import Elmo
from .entries import Entry


class DocMaker:
    """Makes Docs as the pipeline would, up to its pipe `elmo`.

    nlp (Language): The pipeline; the pipe and what stands after it is disabled.
    pipe (Elmo): The pipe.
    keep_docs (bool): Whether entries hold their Docs.
    """

    def __init__(self, nlp: Language, pipe: Elmo, *, keep_docs: bool):
        names = nlp.component_names
        for name in names[names.index(pipe.name) :]:
            if name in nlp.pipe_names:
                nlp.disable_pipe(name)
        nlp.max_length = sys.maxsize  # its reason, the memory of parsers, is none here
        self.nlp = nlp
        self.segmenter: Segmenter = pipe.settings.segmenter
        self.keep_docs = keep_docs
        self._sentencizer = Sentencizer()

    def pipe(self, texts: Iterable[tuple[str, Any]], as_tuples: bool) -> Iterator[tuple[Doc, Any]]:
        """As `Language.pipe`, the Docs cut into sentences if need be."""
        for doc, context in self.nlp.pipe(texts, as_tuples=as_tuples):
            if not doc.has_annotation("SENT_START"):
                self._sentencizer(doc)
            yield doc, context

    def entry(self, doc: Doc) -> Entry:
        """RETURNS (Entry): A Doc as the pipe reads it."""
        data = doc.to_bytes(exclude=["tensor"]) if self.keep_docs else None
        words = [token.text for token in doc]
        return Entry(doc.text, words, self.segmenter(doc), data)
