"""Occurrences of words in a corpus, and their layers. Frequent words are sampled evenly."""

from collections.abc import Collection, Iterable, Sequence
from itertools import groupby
from typing import Any, NamedTuple, Optional

import numpy as np
from spacy.tokens import Doc, Span
from spacy.vocab import Vocab
from thinc.types import Floats3d

from ..compat import extension_key
from ..files import progress_bar
from ..pipeline.elmo import Elmo
from .corpora import parse_task, with_layers

Tokens = tuple[str, ...]

# Keys in `Doc.user_data` of the Doc's source and date. The second key of each is the one that spaCy
# uses for a custom attribute such as `doc._.date`.
ORIGIN = tuple((name, extension_key(name)) for name in ("source", "date"))


class Occurrence(NamedTuple):
    """Occurrence of a word in a Doc.

    start (int): Index of the first token.
    end (int): Index after the last token.
    sense (str): Gold sense, or "" if there is none.
    """

    doc: Doc
    start: int
    end: int
    sense: str

    @property
    def sentence(self) -> Span:
        """Sentence of the word, or the whole Doc if sentences are not set."""
        return self.doc[self.start].sent if self.doc.has_annotation("SENT_START") else self.doc[:]

    @property
    def origin(self) -> str:
        """Source and date of the Doc, from `doc.user_data` or `doc._`; "" if it has neither."""
        data = self.doc.user_data
        values = (data.get(key) or data.get(attribute) for key, attribute in ORIGIN)
        return ", ".join(str(value) for value in values if value)


class Drawn(NamedTuple):
    """Sample of the occurrences of one word, in the order of the corpus.

    word (str): The word.
    n_total (int): Number of all occurrences of the word in the corpus.
    occurrences (List[Occurrence]): The sampled occurrences.
    """

    word: str
    n_total: int
    occurrences: list[Occurrence]


def draw_occurrences(
    docs: Iterable[Doc],
    words: Sequence[str],
    *,
    limit: int = 2000,
    gold: Optional[str] = None,
    ignore_case: bool = False,
    vocab: Optional[Vocab] = None,
) -> list[Drawn]:
    """Find the occurrences of words in a corpus. Sample them evenly if there are too many.

    If a word has more occurrences than the limit, the sample consists of every n-th occurrence. So
    the number of Docs in memory is limited, and the result is deterministic.

    words (Sequence[str]): A word of several tokens has spaces between the tokens.
    limit (int): Maximum number of occurrences per word.
    gold (Optional[str]): "spans:NAME", a span group whose labels are senses. If given, only spans
        of this group are occurrences.
    ignore_case (bool): Whether *Bank* is an occurrence of *bank*.
    vocab (Optional[Vocab]): If given, the tokens and sentences of Docs are copied to this vocab,
        so that the memory of the original Docs and vocabs can be freed.
    RAISES (ValueError): A word is empty, the limit is below 1, `gold` has another format, no span
        of the group has a label, or none of the words occurs.
    """
    if limit < 1:
        raise ValueError(f"the limit of occurrences must be at least 1, got {limit}")
    if gold is not None and not gold.startswith("spans:"):
        raise ValueError(f"gold senses are labels of spans. Give 'spans:NAME', not '{gold}'")
    task = None if gold is None else parse_task(gold)
    tokens_of = {" ".join(word.split()): _spelled(word.split(), ignore_case) for word in words}
    if "" in tokens_of:
        raise ValueError("a word to search for is empty")
    evenly = {tokens: _Evenly(limit) for tokens in tokens_of.values()}
    groups: set[str] = set()
    has_labels = False
    for doc in docs:
        tokens = _spelled((token.text for token in doc), ignore_case)
        if task is None:
            places = _places(tokens, evenly)
        else:
            places = [item[:3] for item in task.items(doc)]
            groups.update(doc.spans)
            has_labels = has_labels or bool(places)
        kept = None
        for start, end, sense in places:
            one = evenly.get(tokens[start:end])
            if one is not None and one.takes():
                kept = kept or (doc if vocab is None else _copy(doc, vocab))
                one.add(Occurrence(kept, start, end, sense))
    if task is not None and not has_labels:
        raise ValueError(
            f"no span of the corpus has a label for '{task.name}'. Its span groups: "
            f"{', '.join(sorted(groups)) or 'none'}"
        )
    if not any(one.n_seen for one in evenly.values()):
        names = ", ".join(f"'{word}'" for word in tokens_of)
        place = "text" if task is None else f"span group {gold}"
        case = "" if ignore_case else ", or add `ignore_case=True`"
        raise ValueError(f"the {place} does not contain {names}. Check the spelling{case}")
    return [Drawn(word, evenly[key].n_seen, evenly[key].items()) for word, key in tokens_of.items()]


def occurrence_layers(pipe: Elmo, occurrences: Sequence[Occurrence], *, name: str = "") -> Floats3d:
    """Compute the layers of occurrences of words, and read each Doc only once.

    pipe (Elmo): The pipe with the language model.
    occurrences (Sequence[Occurrence]): Occurrences, grouped by Doc.
    name (str): Text before the progress bar.
    RETURNS (Floats3d): float32. A word of several tokens has their mean. *Shape:* `(L + 1, n, 2P)`
    """
    config = pipe.bilm.config
    vectors = np.empty((config.n_layers + 1, len(occurrences), config.width), dtype="float32")
    groups = [list(group) for _, group in groupby(occurrences, lambda one: id(one.doc))]
    docs = (group[0].doc for group in groups)
    rows = iter(range(len(occurrences)))
    with progress_bar(len(groups), name, " Docs", in_logs=False) as bar:
        for group, (_, layers) in zip(groups, with_layers(pipe, docs)):
            for one, row in zip(group, rows):
                vectors[:, row] = layers[:, one.start : one.end].mean(axis=1)
            bar.update(1)
    return vectors


def _spelled(tokens: Iterable[str], ignore_case: bool) -> Tokens:
    # `token.lower_` is empty if the vocab has no language, as for plain text.
    return tuple(token.lower() for token in tokens) if ignore_case else tuple(tokens)


def _places(tokens: Tokens, words: Collection[Tokens]) -> list[tuple[int, int, str]]:
    """Return start, end and "" (no gold sense) of each span that can be one of the words.

    Such a span begins with the first token of a word, and has as many tokens as one of the words.
    """
    firsts = {word[0] for word in words}
    starts = [i for i, token in enumerate(tokens) if token in firsts]
    ends = sorted({len(word) for word in words})
    return [(start, start + n, "") for n in ends for start in starts if start + n <= len(tokens)]


class _Evenly:
    """Sample of evenly spaced items from a stream of unknown length.

    Every n-th item is kept; n is 1 at first. When the number of kept items is 4 times the limit,
    every second one is dropped, and n doubles.
    """

    def __init__(self, limit: int):
        self.n_seen = 0
        self._limit = limit
        self._step = 1
        self._kept: list[Any] = []

    def takes(self) -> bool:
        """Count the next item of the stream, and return whether to keep it with `add`."""
        self.n_seen += 1
        return (self.n_seen - 1) % self._step == 0

    def add(self, item: Any) -> None:
        """Keep an item. If there are too many, drop every second one."""
        self._kept.append(item)
        # More than the limit are kept, so that `items` can space them evenly for any stream.
        if len(self._kept) == 4 * self._limit:
            self._kept = self._kept[::2]
            self._step *= 2

    def items(self) -> list[Any]:
        """Return the sample: at most `limit` of the kept items, evenly spaced."""
        n = min(self._limit, len(self._kept))
        places = np.linspace(0, len(self._kept) - 1, n).round().astype(int)
        return [self._kept[place] for place in places]


def _copy(doc: Doc, vocab: Vocab) -> Doc:
    """Copy the tokens, sentences, source and date of a Doc to another vocab."""
    has_sentences = doc.has_annotation("SENT_START")
    keys = [key for both in ORIGIN for key in both if key in doc.user_data]
    return Doc(
        vocab,
        words=[token.text for token in doc],
        spaces=[bool(token.whitespace_) for token in doc],
        sent_starts=[bool(token.is_sent_start) for token in doc] if has_sentences else None,
        user_data={key: doc.user_data[key] for key in keys},
    )
