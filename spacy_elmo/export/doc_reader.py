"""Reader that runs the pipeline on text and converts Docs to entries."""

import copy
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Optional

from spacy.language import Language
from spacy.pipeline import Sentencizer
from spacy.tokens import Doc, DocBin

from ..embedding.segmenters import Segmenter, cut_into_segments
from ..files.errors import named_errors
from ..files.input_files import BROKEN
from ..pipeline.elmo import Elmo
from .entries import TextEntry
from .pieces import InputPiece
from .selection import WORDS, SelectedSpan, SpanSelector, labels_of


class DocReader:
    """Reader that runs a pipeline on texts, and converts Docs to entries.

    The components before the pipe `elmo` run on each text. Components after `elmo` run only if the
    selector needs their annotations.

    nlp (Language): The pipeline. The reader disables the pipe `elmo` and the components after it.
    pipe (Elmo): The pipe `elmo`.
    selector (Optional[SpanSelector]): Selects the tokens or spans that get a vector. Default:
        every token.
    """

    def __init__(self, nlp: Language, pipe: Elmo, selector: Optional[SpanSelector] = None):
        self._labels = labels_of(nlp)
        names = nlp.component_names
        at = names.index(pipe.name)
        self._behind = [nlp.get_pipe(name) for name in names[at + 1 :] if name in nlp.pipe_names]
        if self._behind:
            self._behind.insert(0, pipe)  # Components after `elmo` may listen to `elmo`.
        for name in names[at:]:
            nlp.disable_pipe(name)
        nlp.max_length = sys.maxsize  # spaCy's limit protects the memory of parsers.
        self.nlp = nlp
        self.segmenter: Segmenter = pipe.settings.segmenter
        self.selector = selector
        self._sentencizer = Sentencizer()
        self._keep_docs = False

    def keeping_docs(self) -> "DocReader":
        """Return a reader with the same pipeline whose entries contain their Docs."""
        reader = copy.copy(self)
        reader._keep_docs = True
        return reader

    def only_tokenizing(self) -> "DocReader":
        """Return a reader that runs no component, to check that the input can be read."""
        reader = copy.copy(self)
        reader.nlp = type(self.nlp)(self.nlp.vocab)
        reader.nlp.tokenizer = self.nlp.tokenizer
        reader.nlp.max_length = self.nlp.max_length
        reader._keep_docs, reader.selector = self.makes_docs, None
        return reader

    @property
    def makes_docs(self) -> bool:
        """True if sentences become Docs, for the output or for the selector."""
        return self._keep_docs or (self.selector is not None and self.selector.only is not None)

    def check_labels(self) -> None:
        """Check that the pipeline can set each label in the selector's `only`.

        RAISES (ValueError): `only` contains a label that no component sets.
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
        """Make Docs with `Language.pipe`, and set sentence boundaries by rules if none are set.

        The arguments are those of `Language.pipe`. `as_tuples` must be True.
        """
        for doc, context in self.nlp.pipe(texts, as_tuples=as_tuples):
            if not doc.has_annotation("SENT_START"):
                self._sentencizer(doc)
            yield doc, context

    def entry(self, doc: Doc, *, annotate: bool = False) -> TextEntry:
        """Convert a Doc to an entry.

        doc (Doc): The Doc.
        annotate (bool): Whether to run the components after `elmo` first. They run only if the
            selector has `only`.
        RETURNS (TextEntry): The entry.
        """
        data = doc.to_bytes(exclude=["tensor"]) if self._keep_docs else None
        words = [token.text for token in doc]
        # Cut the Doc before `_select`, which can set sentence boundaries.
        segments = cut_into_segments(doc, self.segmenter)
        selected = None if self.selector is None else self._select(doc, annotate=annotate)
        return TextEntry(doc.text, words, segments, data, selected)

    def read(self, text: str) -> TextEntry:
        """Run the pipeline on a text, and convert the Doc to an entry."""
        return self.entry(self.nlp(text), annotate=True)

    def select(self, entry: TextEntry) -> TextEntry:
        """Select the tokens or spans of an entry that get a vector.

        entry (TextEntry): The entry.
        RETURNS (TextEntry): A copy with the selection. If the entry already has a selection, or the
            reader has no selector, the entry itself.
        """
        if self.selector is None or entry.selected is not None:
            return entry
        if self.selector.only is None:  # An entry without a selection is one sentence.
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

    def read_docbin(self, file: InputPiece) -> Iterator[tuple[int, TextEntry]]:
        """Read the Docs of a `.spacy` file. The whole file is loaded into memory.

        file (InputPiece): The file.
        YIELDS (Tuple[int, TextEntry]): Number of a Doc, from 1, and its entry.
        RAISES (ValueError): The file is not a `.spacy` file, or it is broken.
        """
        with named_errors(f"{file} is not a .spacy file, or it is broken. Write it again", BROKEN):
            docs = DocBin().from_bytes(file.read_bytes())
        stream = docs.get_docs(self.nlp.vocab)
        # Use one memory zone for all Docs, because the first Doc adds the strings of all.
        with self.nlp.memory_zone():
            for number in range(1, len(docs) + 1):
                with named_errors(f"{file}: Doc {number} cannot be read", BROKEN):
                    entry = self.entry(next(stream))
                yield number, entry
