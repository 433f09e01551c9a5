"""How text becomes Docs, and Docs become entries."""

import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Optional

from spacy.language import Language
from spacy.pipeline import Sentencizer
from spacy.tokens import Doc

from ..embedding.segmenters import Segmenter
from ..pipeline.elmo import Elmo
from .entries import Entry
from .keeping import Keeper, Kept, labels_of, whole


class DocMaker:
    """Makes Docs as the pipeline would, up to its pipe `elmo`; the components behind it are asked
    where annotations decide what is kept.

    nlp (Language): The pipeline; the pipe and what stands after it is disabled.
    pipe (Elmo): The pipe.
    keeper (Optional[Keeper]): Finds what gets a vector; by default each token does.
    """

    keep_docs = False  # whether entries hold their Docs

    def __init__(self, nlp: Language, pipe: Elmo, keeper: Optional[Keeper] = None):
        self._labels = labels_of(nlp)
        names = nlp.component_names
        at = names.index(pipe.name)
        self._behind = [nlp.get_pipe(name) for name in names[at + 1 :] if name in nlp.pipe_names]
        if self._behind:
            self._behind.insert(0, pipe)  # which they may listen to
        for name in names[at:]:
            if name in nlp.pipe_names:
                nlp.disable_pipe(name)
        nlp.max_length = sys.maxsize  # its reason, the memory of parsers, is none here
        self.nlp = nlp
        self.segmenter: Segmenter = pipe.settings.segmenter
        self.keeper = keeper
        self._sentencizer = Sentencizer()

    def check_labels(self) -> None:
        """RAISES (ValueError): Labels are asked for that the pipeline cannot set: text has none
        but its own."""
        if self.keeper is not None and self._labels:
            self.keeper.check_labels(self._labels)

    def pipe(self, texts: Iterable[tuple[str, Any]], as_tuples: bool) -> Iterator[tuple[Doc, Any]]:
        """As `Language.pipe`, the Docs cut into sentences if need be."""
        for doc, context in self.nlp.pipe(texts, as_tuples=as_tuples):
            if not doc.has_annotation("SENT_START"):
                self._sentencizer(doc)
            yield doc, context

    def entry(self, doc: Doc, *, annotate: bool = False) -> Entry:
        """Make an entry of a Doc, as the pipe reads it.

        doc (Doc): The Doc.
        annotate (bool): Whether the components behind the pipe are to annotate it, if that counts.
        RETURNS (Entry): The entry.
        """
        data = doc.to_bytes(exclude=["tensor"]) if self.keep_docs else None
        words = [token.text for token in doc]
        segments = self.segmenter(doc)
        kept = None if self.keeper is None else self._kept(doc, annotate=annotate)
        return Entry(doc.text, words, segments, data, kept)

    def read(self, text: str) -> Entry:
        """RETURNS (Entry): A text, as the pipeline reads it."""
        return self.entry(self.nlp(text), annotate=True)

    def keep(self, entry: Entry) -> Entry:
        """Find what of an entry gets a vector, where no Doc was made of it.

        entry (Entry): The entry.
        RETURNS (Entry): The entry, which knows it.
        """
        if self.keeper is None or entry.kept is not None:
            return entry
        if self.keeper.only is None:  # it is one sentence
            return replace(entry, kept=whole(entry.words, entry.text))
        with self.nlp.memory_zone():
            doc = self.nlp(Doc(self.nlp.vocab, words=entry.words))
            return replace(entry, kept=self._kept(doc, annotate=True))

    def _kept(self, doc: Doc, *, annotate: bool) -> list[Kept]:
        assert self.keeper is not None
        n_tokens = len(doc)
        for component in self._behind if annotate and self.keeper.only else ():
            doc = component(doc)  # type: ignore[operator]
        if len(doc) != n_tokens:
            raise ValueError("`only`: a component of the pipeline changes the tokens; leave it out")
        return self.keeper(doc)
