"""Functions that read a corpus in constant memory, and sample its labeled tokens, spans or Docs."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple, Optional

import numpy as np
from spacy.language import Language
from spacy.tokens import Doc, Token
from spacy.training.corpus import FILE_TYPE, walk_corpus
from spacy.vocab import Vocab
from thinc.types import Floats2d, Floats3d

from ..embedding.docs import make_sentence
from ..embedding.embed import by_tokens
from ..embedding.mix import mix_layers
from ..files import check_regular, progress_bar, user_path
from ..files.input_files import read_docbin
from ..pipeline.elmo import Elmo
from ..pipeline.load import elmo_pipe
from ..text.reading import find_files, read_sentences
from ..text.size import estimate_tokens

# A vocab never forgets a string. With this number of strings, it is replaced by a new vocab.
MAX_STRINGS = 100_000
DOCS_AT_A_TIME = 128
TOKENS_AT_A_TIME = 16_384


def read_annotated_docs(path: Path, vocab: Vocab) -> Iterator[Doc]:
    """Read the Docs of a .spacy file, or of all such files in a folder.

    RAISES (ValueError): The corpus is missing, or cannot be read.
    """
    path = user_path(path)
    if not path.exists():
        raise ValueError(f"there is no corpus at {path}")
    check_regular(path)
    if path.is_file() and path.suffix != FILE_TYPE:
        raise ValueError(f"{path} is not a .spacy file. Make one with `python -m spacy convert`")
    for file in walk_corpus(path, FILE_TYPE):
        yield from read_docbin(file, vocab)


def with_layers(pipe: Elmo, docs: Iterable[Doc]) -> Iterator[tuple[Doc, Floats3d]]:
    """Compute the layers of Docs in batches. Yield each Doc with its `(L + 1, n_tokens, 2P)`."""
    for batch in by_tokens(docs, TOKENS_AT_A_TIME, DOCS_AT_A_TIME):
        yield from zip(batch, pipe.predict(batch))


def read_corpus_docs(
    inputs: Sequence[str], *, format: str = "sentences", lang: Optional[str] = None
) -> Iterator[Doc]:
    """Read Docs from text files (one Doc per sentence) and .spacy files, with a progress bar.

    `doc.user_data["source"]` is the text file of a Doc.

    inputs (Sequence[str]): Files, folders or globs of text, and .spacy files.
    format (str): Format of text files: 'sentences' (one per line) or 'text' (running text).
    lang (Optional[str]): Language of spaCy's tokenizer, for the format 'text'.
    RAISES (ValueError): A file is missing or cannot be read.
    """
    annotated = [Path(name) for name in inputs if name.endswith(FILE_TYPE)]
    others = [name for name in inputs if not name.endswith(FILE_TYPE)]
    # A file that two globs match is read only once.
    files = list(dict.fromkeys(find_files(others)))
    # A .spacy file does not store its number of tokens, so the total is unknown.
    total = None if annotated else estimate_tokens(files, format=format)
    with progress_bar(total, None, " tokens", in_logs=False) as bar:
        for doc in _all_docs(files, annotated, format, lang):
            yield doc
            bar.update(len(doc))


def _all_docs(
    files: Sequence[Path], annotated: Sequence[Path], format: str, lang: Optional[str]
) -> Iterator[Doc]:
    vocab = Vocab()
    for file in files:
        for sentence in read_sentences([file], format=format, lang=lang):
            if len(vocab.strings) > MAX_STRINGS:
                vocab = Vocab()
            if sentence:
                doc = make_sentence(vocab, sentence)
                doc.user_data["source"] = str(file)
                yield doc
    for path in annotated:
        yield from read_annotated_docs(path, Vocab())


class LabeledItem(NamedTuple):
    """Token, span or Doc with a label.

    start (int): Index of the item's first token.
    end (int): Index after its last token.
    label (str): The label.
    word (str): Text of the item; "" for a Doc. For the task "senses:NAME", it is in lower case.
    """

    start: int
    end: int
    label: str
    word: str


class Task(NamedTuple):
    """Task of a probe: the labels that the probe predicts.

    name (str): Name on the command line, such as "tag" or "senses:NAME".
    unit (str): The unit that has a label: "token", "span" or "Doc".
    items (Callable[[Doc], List[LabeledItem]]): Returns the labeled items of a Doc.
    """

    name: str
    unit: str
    items: Callable[[Doc], list[LabeledItem]]

    @property
    def is_senses(self) -> bool:
        """True if the labels are senses, so each word has its own set of labels."""
        return self.name.startswith("senses:")


def parse_task(name: str) -> Task:
    """Return the task with this name.

    name (str): "tag", "pos", "dep", "ent" (IOB tags with types), "cats", "spans:NAME" or
        "senses:NAME", where NAME is a span group.
    RAISES (ValueError): There is no such task.
    """
    kind, colon, group = name.partition(":")
    if kind in ("tag", "pos", "dep", "ent") and not colon:
        return Task(name, "token", partial(_token_items, kind=kind))
    if kind == "cats" and not colon:
        return Task(name, "Doc", _doc_items)
    if kind in ("spans", "senses") and group:
        return Task(name, "span", partial(_span_items, group=group, lower=kind == "senses"))
    raise ValueError(
        f"there is no task '{name}'. Give tag, pos, dep, ent, cats, spans:NAME or senses:NAME"
    )


def _token_items(doc: Doc, kind: str) -> list[LabeledItem]:
    labels = [_entity(token) if kind == "ent" else getattr(token, f"{kind}_") for token in doc]
    return [LabeledItem(t.i, t.i + 1, label, t.text) for t, label in zip(doc, labels) if label]


def _entity(token: Token) -> str:
    """Return IOB tag and type of a token, such as "B-LOC"; "" if entities are not annotated."""
    iob: str = token.ent_iob_
    return f"{iob}-{token.ent_type_}" if iob in ("B", "I") else iob


def _span_items(doc: Doc, group: str, *, lower: bool) -> list[LabeledItem]:
    spans = [span for span in doc.spans.get(group, ()) if span.label_ and len(span)]
    spell = str.lower if lower else str
    return [LabeledItem(one.start, one.end, one.label_, spell(one.text)) for one in spans]


def _doc_items(doc: Doc) -> list[LabeledItem]:
    if not doc.cats or not len(doc):
        return []
    labels = [label for label, value in doc.cats.items() if value >= 0.5]
    if len(labels) != 1:
        raise ValueError(
            f"the Doc {doc[:10].text!r}... has the categories {labels}. A probe needs exactly one "
            f"category at 0.5 or above"
        )
    return [LabeledItem(0, len(doc), labels[0], "")]


@dataclass(frozen=True)
class Sample:
    """Labeled items and their layers.

    layers (Floats3d): The layers; for an item of several tokens, the mean of its tokens.
        *Shape:* `(L + 1, n_items, 2P)`, float32
    labels (List[str]): The label of each item.
    words (List[str]): The text of each item; "" for a Doc. For the task "senses:NAME", texts are in
        lower case.
    """

    layers: Floats3d
    labels: list[str]
    words: list[str]

    def __len__(self) -> int:
        return len(self.labels)

    def select(self, name: str) -> Floats2d:
        """Return the vectors of all items, as input of a probe. For `name`, see `select_input`."""
        return select_input(self.layers, name)


def read_sample(nlp: Language, path: Path, task: Task, *, limit: int = 0, seed: int = 0) -> Sample:
    """Read the labeled items of a corpus, and compute their layers.

    If the corpus has more items than the limit, a random part of its Docs is used. This limits the
    memory: each item needs `width * 4` bytes per layer.

    nlp (Language): A pipeline with a pipe `elmo`.
    path (Path): A .spacy file, or a folder of them. Its tokens and sentences are used.
    limit (int): Maximum number of items; 0 for all.
    RETURNS (Sample): In the order of the corpus.
    RAISES (ValueError): The corpus cannot be read, or has no labels.
    """
    if limit < 0:
        raise ValueError(f"the limit must be at least 0, got {limit}")
    pipe = elmo_pipe(nlp)
    n_items = _choose(nlp.vocab, path, task, limit, seed)
    # The corpus is read a second time, because its Docs may not fit in memory.
    docs = (doc for doc, n in zip(read_annotated_docs(path, nlp.vocab), n_items) if n)
    counts = filter(None, n_items)
    config = pipe.bilm.config
    vectors = np.empty((config.n_layers + 1, sum(n_items), config.width), dtype="float32")
    labels: list[str] = []
    words: list[str] = []
    with progress_bar(sum(n_items), path.name, f" {task.unit}s", in_logs=False) as bar:
        for n, (doc, layers) in zip(counts, with_layers(pipe, docs)):
            for item in task.items(doc)[:n]:
                vectors[:, len(labels)] = layers[:, item.start : item.end].mean(axis=1)
                labels.append(item.label)
                words.append(item.word)
            bar.update(n)
    return Sample(vectors, labels, words)


def check_inputs(names: Optional[Sequence[str]], n_layers: int) -> Sequence[str]:
    """Check the inputs of a probe, or return the default inputs.

    names (Optional[List[str]]): Numbers of layers, "average" or "concat". Default: all layers, and
        "average".
    RAISES (ValueError): An input does not exist, or is given twice.
    """
    known = [*map(str, range(n_layers + 1)), "average", "concat"]
    if names is None:
        return known[:-1]
    wrong = [name for name in names if name not in known]
    if wrong or not names:
        raise ValueError(
            f"there is no layer '{', '.join(wrong)}'. This model has {', '.join(known[:-2])}, "
            f"'average' and 'concat'"
        )
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ValueError(f"layer '{twice[0]}' is given twice. Give it once")
    return names


def select_input(layers: Floats3d, name: str) -> Floats2d:
    """Select the input of a probe from the layers.

    layers (Floats3d): *Shape:* `(L + 1, n_items, 2P)`
    name (str): Number of a layer, "average", or "concat" for all layers concatenated.
    RETURNS (Floats2d): *Shape:* `(n_items, 2P)`; `(n_items, (L + 1) * 2P)` for "concat"
    """
    if name == "concat":
        return np.concatenate(list(layers), axis=1)
    if name == "average":
        return mix_layers(layers, name)
    return layers[int(name)]


def unit_vectors(vectors: Floats2d, dtype: str = "float64") -> Floats2d:
    """Scale vectors to length 1, so that dot products are cosines.

    RETURNS (Floats2d): Zeros stay zeros. *Shape:* `(n, width)`
    """
    vectors = vectors.astype(dtype)
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(norms == 0, 1, norms)


def describe_input(name: str) -> str:
    """Return the name of an input for reports, such as "layer 1"."""
    return f"layer {name}" if name.isdecimal() else name


def _choose(vocab: Vocab, path: Path, task: Task, limit: int, seed: int) -> list[int]:
    """Return how many items to use from each Doc: all, or `limit` in total, from random Docs."""
    counts: list[int] = []
    groups: set[str] = set()
    for doc in read_annotated_docs(path, vocab):
        try:
            counts.append(len(task.items(doc)))
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
        groups.update(doc.spans)
    total = sum(counts)
    if not counts:
        raise ValueError(f"{path} contains no Docs")
    if not total:
        known = f". Its span groups: {', '.join(sorted(groups))}" if groups else ""
        raise ValueError(f"{path}: no {task.unit} has a label for the task '{task.name}'{known}")
    if not 0 < limit < total:
        return counts
    taken = [0] * len(counts)
    left = limit
    for number in np.random.default_rng(seed).permutation(len(counts)).tolist():
        taken[number] = min(counts[number], left)
        left -= taken[number]
    return taken
