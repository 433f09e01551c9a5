"""The occurrences of words in a corpus, drawn evenly, and their layers."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Optional

import numpy as np
from spacy.attrs import ORTH
from spacy.strings import get_string_id
from spacy.tokens import Doc, Span
from spacy.vocab import Vocab
from thinc.types import Floats3d

from ..embedding.batches import by_tokens
from ..files import progress_bar
from ..pipeline.elmo import Elmo
from .items import parse_task
from .sample import DOCS_AT_A_TIME, TOKENS_AT_A_TIME


class Occurrence(NamedTuple):
    """A word in its sentence.

    doc (Doc): The Doc.
    start (int): The word's first token.
    end (int): The token after its last one.
    sense (str): Its gold sense; "" if none is known.
    """

    doc: Doc
    start: int
    end: int
    sense: str

    @property
    def sentence(self) -> Span:
        """RETURNS (Span): Its sentence; the whole Doc where that has no sentences."""
        return self.doc[self.start].sent if self.doc.has_annotation("SENT_START") else self.doc[:]


@dataclass
class Drawn:
    """Occurrences of one word, in the order of the corpus.

    word (str): The word.
    n_total (int): How often it stands in the corpus.
    occurrences (List[Occurrence]): Those that were drawn.
    """

    word: str
    n_total: int = 0
    occurrences: list[Occurrence] = field(default_factory=list)


def draw_occurrences(
    docs: Iterable[Doc],
    words: Sequence[str],
    *,
    limit: int = 2000,
    gold: Optional[str] = None,
    ignore_case: bool = False,
    vocab: Optional[Vocab] = None,
) -> list[Drawn]:
    """Find the occurrences of words. Of a word with more than the limit every n-th is
    taken: a bounded number of Docs is held, and nothing is left to chance.

    docs (Iterable[Doc]): The corpus.
    words (Sequence[str]): The words; one of several tokens has spaces between them.
    limit (int): Most occurrences of a word.
    gold (Optional[str]): "spans:NAME", a span group whose labels are senses: its spans
        alone are occurrences.
    ignore_case (bool): Whether *Bank* is an occurrence of *bank*.
    vocab (Optional[Vocab]): If it is given, the Docs are copied to it (tokens and
        sentences), so that those of the corpus, and their vocabs, can be freed.
    RETURNS (List[Drawn]): Those of each word, in the order of the words.
    RAISES (ValueError): A word is empty, or no Doc has such a span group.
    """
    if limit < 1:
        raise ValueError(f"at least 1 occurrence must be drawn, got {limit}")
    patterns = [_Pattern(word, ignore_case) for word in dict.fromkeys(words)]
    find = _InText(ignore_case) if gold is None else _Labeled(gold, ignore_case)
    evenly = [_Evenly(limit) for _ in patterns]
    for doc in docs:
        kept = None
        for places, one in zip(find(doc, patterns), evenly):
            for place in places:
                if one.takes():
                    kept = kept or (doc if vocab is None else _copy(doc, vocab))
                    one.add(Occurrence(kept, *place))
    if isinstance(find, _Labeled):
        find.check()
    return [Drawn(pattern.word, one.n_seen, one.items()) for pattern, one in zip(patterns, evenly)]


def occurrence_layers(
    pipe: Elmo, occurrences: Sequence[Occurrence], *, name: str = "", progress: bool = False
) -> Floats3d:
    """Compute the layers of occurrences, each in its Doc.

    pipe (Elmo): The language model.
    occurrences (Sequence[Occurrence]): Occurrences, those of a Doc side by side.
    name (str): What stands before the progress bar.
    progress (bool): Whether to show one.
    RETURNS (Floats3d): *Shape:* `(L + 1, n, 2P)`, float32; of several tokens the mean.
    """
    config = pipe.bilm.config
    vectors = np.empty((config.n_layers + 1, len(occurrences), config.width), dtype="float32")
    rest = iter(enumerate(occurrences))
    number, one = next(rest, (0, None))
    docs = list({id(item.doc): item.doc for item in occurrences}.values())
    disable = None if progress else True
    with progress_bar(len(docs), name, " Docs", in_logs=False, disable=disable) as bar:
        for batch in by_tokens(docs, TOKENS_AT_A_TIME, DOCS_AT_A_TIME):
            for doc, layers in zip(batch, pipe.predict(batch)):
                while one is not None and one.doc is doc:
                    vectors[:, number] = layers[:, one.start : one.end].mean(axis=1)
                    number, one = next(rest, (0, None))
                bar.update(1)
    return vectors


class _Pattern:
    """A word that is looked for."""

    def __init__(self, word: str, ignore_case: bool):
        self.word = " ".join(word.split())
        if not self.word:
            raise ValueError("a word to look for is empty")
        self.tokens = _spelled(self.word.split(), ignore_case)
        self._ids = [get_string_id(token) for token in self.tokens]

    def starts(self, ids: np.ndarray) -> list[int]:
        """Where it stands among the ids of a Doc's tokens."""
        n_places = max(0, len(ids) - len(self._ids) + 1)
        found = np.ones(n_places, dtype=bool)
        for offset, id in enumerate(self._ids):
            found &= ids[offset : offset + n_places] == id
        starts: list[int] = np.flatnonzero(found).tolist()
        return starts


def _spelled(tokens: Iterable[str], ignore_case: bool) -> list[str]:
    # Not by `token.lower_`, which a bare Vocab, as text is read with, leaves empty.
    return [token.lower() if ignore_case else token for token in tokens]


# The places of each pattern in a Doc: start, end, and sense.
Places = Iterator[list[tuple[int, int, str]]]


class _InText:
    """Finds places by the tokens."""

    def __init__(self, ignore_case: bool):
        self._ignore_case = ignore_case

    def __call__(self, doc: Doc, patterns: Sequence[_Pattern]) -> Places:
        ids = doc.to_array([ORTH]).reshape(-1)
        if self._ignore_case:
            lower = _spelled((token.text for token in doc), True)
            ids = np.array([get_string_id(token) for token in lower], dtype="uint64")
        for pattern in patterns:
            n_tokens = len(pattern.tokens)
            yield [(start, start + n_tokens, "") for start in pattern.starts(ids)]


class _Labeled:
    """Finds places among the spans of a group."""

    def __init__(self, gold: str, ignore_case: bool):
        self._task = parse_task(gold)
        if not gold.startswith("spans:"):
            raise ValueError(f"gold senses are labels of spans: give 'spans:NAME', not '{gold}'")
        self._ignore_case = ignore_case
        self._found = False
        self._groups: set[str] = set()

    def __call__(self, doc: Doc, patterns: Sequence[_Pattern]) -> Places:
        items = self._task.items(doc)
        self._found |= bool(items)
        self._groups.update(doc.spans)
        spelled = [
            _spelled((token.text for token in doc[item.start : item.end]), self._ignore_case)
            for item in items
        ]
        for pattern in patterns:
            yield [
                (item.start, item.end, item.label)
                for item, tokens in zip(items, spelled)
                if tokens == pattern.tokens
            ]

    def check(self) -> None:
        if not self._found:
            groups = ", ".join(sorted(self._groups)) or "none"
            raise ValueError(
                f"no span of the corpus has a label for '{self._task.name}'; its span groups: "
                f"{groups}"
            )


class _Evenly:
    """Takes items of a stream of unknown length at equal distances: each n-th, and n
    doubles when there are too many."""

    def __init__(self, limit: int):
        self.n_seen = 0
        self._limit = limit
        self._step = 1
        self._kept: list[Any] = []

    def takes(self) -> bool:
        """Whether the next item is one of them."""
        self.n_seen += 1
        return (self.n_seen - 1) % self._step == 0

    def add(self, item: Any) -> None:
        self._kept.append(item)
        if len(self._kept) == 4 * self._limit:
            self._kept = self._kept[::2]
            self._step *= 2

    def items(self) -> list[Any]:
        n = min(self._limit, len(self._kept))
        places = np.linspace(0, len(self._kept) - 1, n).round().astype(int)
        return [self._kept[place] for place in places]


def _copy(doc: Doc, vocab: Vocab) -> Doc:
    """The tokens and sentences of a Doc."""
    has_sentences = doc.has_annotation("SENT_START")
    return Doc(
        vocab,
        words=[token.text for token in doc],
        spaces=[bool(token.whitespace_) for token in doc],
        sent_starts=[bool(token.is_sent_start) for token in doc] if has_sentences else None,
    )
