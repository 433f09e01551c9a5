"""Reader of Docs: it runs the pipeline on text, and makes entries of Docs."""

import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Optional

from spacy.language import Language
from spacy.pipeline import Sentencizer
from spacy.tokens import Doc, DocBin

from ..embedding.segmenters import Segmenter
from ..files.docbin import BROKEN
from ..files.errors import named_errors
from ..pipeline.elmo import Elmo
from .entries import TextEntry
from .places import InputPiece
from .selection import WORDS, SelectedSpan, SpanSelector, labels_of


class DocReader:
    """Reader of text that runs the pipeline up to its pipe `elmo`.

    The components after it run only if their annotations decide what gets a vector.

    nlp (Language): The pipeline. The pipe and the components after it are disabled.
    pipe (Elmo): The pipe.
    selector (Optional[SpanSelector]): Selects what gets a vector; by default every token does.
    """

    keep_docs = False  # whether entries contain their Docs

    def __init__(self, nlp: Language, pipe: Elmo, selector: Optional[SpanSelector] = None):
        self._labels = labels_of(nlp)
        names = nlp.component_names
        at = names.index(pipe.name)
        self._behind = [nlp.get_pipe(name) for name in names[at + 1 :] if name in nlp.pipe_names]
        if self._behind:
            self._behind.insert(0, pipe)  # They may listen to it.
        for name in names[at:]:
            if name in nlp.pipe_names:
                nlp.disable_pipe(name)
        nlp.max_length = sys.maxsize  # The limit is for the memory of parsers.
        self.nlp = nlp
        self.segmenter: Segmenter = pipe.settings.segmenter
        self.selector = selector
        self._sentencizer = Sentencizer()

    def check_labels(self) -> None:
        """Check that the pipeline can set the labels that are asked for.

        RAISES (ValueError): It cannot set one of them.
        """
        choices = [*WORDS, *sorted(self._labels or ())]
        only = self.selector.only if self.selector is not None and self._labels else None
        for name in only.split(",") if only else ():
            if name not in choices:
                raise ValueError(
                    f"`only={name}`: no component of the pipeline sets this label. Give one of "
                    f"{', '.join(choices)}."
                )

    def pipe(self, texts: Iterable[tuple[str, Any]], as_tuples: bool) -> Iterator[tuple[Doc, Any]]:
        """Run `Language.pipe`, and cut Docs without sentences into sentences."""
        for doc, context in self.nlp.pipe(texts, as_tuples=as_tuples):
            if not doc.has_annotation("SENT_START"):
                self._sentencizer(doc)
            yield doc, context

    def entry(self, doc: Doc, *, annotate: bool = False) -> TextEntry:
        """Make an entry of a Doc.

        doc (Doc): The Doc.
        annotate (bool): Whether to run the components after the pipe, if their annotations count.
        RETURNS (TextEntry): The entry.
        """
        data = doc.to_bytes(exclude=["tensor"]) if self.keep_docs else None
        words = [token.text for token in doc]
        segments = self.segmenter(doc)
        selected = None if self.selector is None else self._select(doc, annotate=annotate)
        return TextEntry(doc.text, words, segments, data, selected)

    def read(self, text: str) -> TextEntry:
        """Make an entry of a text."""
        return self.entry(self.nlp(text), annotate=True)

    def select(self, entry: TextEntry) -> TextEntry:
        """Select what gets a vector, if the entry was made without a Doc.

        entry (TextEntry): The entry.
        RETURNS (TextEntry): The entry with the selection.
        """
        if self.selector is None or entry.selected is not None:
            return entry
        if self.selector.only is None:  # The entry is one sentence.
            n = len(entry)
            whole = SelectedSpan(0, n, "", entry.text, range(n))
            return replace(entry, selected=[whole] if n else [])
        with self.nlp.memory_zone():
            doc = self.nlp(Doc(self.nlp.vocab, words=entry.words))
            return replace(entry, selected=self._select(doc, annotate=True))

    def _select(self, doc: Doc, *, annotate: bool) -> list[SelectedSpan]:
        assert self.selector is not None
        n_tokens = len(doc)
        for component in self._behind if annotate and self.selector.only else ():
            doc = component(doc)  # type: ignore[operator]
        if len(doc) != n_tokens:
            raise ValueError(
                "`only`: a component after the pipe 'elmo' changes the tokens. Remove it."
            )
        return self.selector(doc)

    def read_docbin(self, file: InputPiece) -> Iterator[TextEntry]:
        """Read the Docs of a `.spacy` file. The whole file is in memory meanwhile.

        file (InputPiece): The file.
        YIELDS (TextEntry): A Doc, in the sequences that the pipe cuts it into.
        RAISES (ValueError): It is not such a file, or it is broken.
        """
        with named_errors(f"{file} is not a .spacy file, or it is broken. Write it again", BROKEN):
            docs = DocBin().from_bytes(file.read_bytes())
        stream = docs.get_docs(self.nlp.vocab)
        # One memory zone for all Docs: the first Doc adds the strings of all.
        with self.nlp.memory_zone():
            for number in range(1, len(docs) + 1):
                with named_errors(f"{file}: Doc {number} cannot be read", BROKEN):
                    entry = self.entry(next(stream))
                yield entry
