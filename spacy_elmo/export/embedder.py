"""Embedders, which add vectors to entries and to Arrow tables.

Invariant: the same entries get the same vectors, bit for bit, in one run or in resumed runs, with
each kernel. With the kernel in numpy, the last bits of a token vector depend on the other tokens in
its batch. So `GroupEmbedder` divides the entries into groups in a fixed way, encodes all new tokens
of a group in one batch, and has its own cache.
"""

import json
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count
from typing import Any, NamedTuple, Optional

import numpy as np
from spacy.language import Language

from .. import __version__
from ..embedding.embed import by_tokens, embed_words, insert_marks
from ..embedding.segmenters import segmenter_config
from ..frozen.encoder import TokenVectorCache
from ..frozen.model import FrozenBiLM
from ..layers.fitting import precision_of
from ..pipeline.elmo import Elmo
from ..pipeline.load import elmo_pipe, is_pipeline, read_pipeline
from ..weights import read_weights
from .doc_reader import DocReader
from .entries import Embedded, TextEntry
from .selection import VECTOR, Choose, SpanSelector, choose_layers

DTYPES = "float32", "float16", "int8"
PLACE = "start", "end", "label"  # Columns of a selected span.
DEFAULT_LANG = "en"
CHUNK_BATCHES = 4  # Batches per group. Sequences are sorted by length within a group.


class GroupEmbedder:
    """Embedder that reads entries in groups: consecutive entries with a limited number of tokens.

    The vectors of a group depend only on its entries and on earlier groups. The context-free
    vectors of a group's new tokens are computed in one batch, in order of appearance.

    pipe (Elmo): The language model and its settings.
    choose (Callable): Function that selects or mixes the layers, from `choose_layers`.
    dtype (str): Dtype of the vectors, one of `DTYPES`.
    sentence_marks (bool): Whether the start and end marks of sentences also get vectors.
    """

    def __init__(self, pipe: Elmo, choose: Choose, dtype: str, sentence_marks: bool = False):
        self.bilm = pipe.bilm
        self._known: Optional[TokenVectorCache] = None
        if isinstance(self.bilm, FrozenBiLM):
            # Use a separate cache, because with numpy the vectors cached by other callers differ in
            # the last bits.
            self.bilm = self.bilm.replace()
            self.bilm.cache = self._known = TokenVectorCache(self.bilm.cache.capacity)
        self.settings = pipe.settings
        self.choose = choose
        self.dtype = dtype
        self.sentence_marks = sentence_marks
        self.bilm.embed([[]], "warm" if self.settings.initial_state == "warm" else None)

    def embed(self, entries: Iterable[TextEntry]) -> Iterator[Embedded]:
        """Embed entries, group by group.

        entries (Iterable[TextEntry]): The entries.
        YIELDS (Embedded): An entry with its vectors.
        RAISES (ValueError): A vector contains a number that is too large for the dtype.
        """
        max_tokens = CHUNK_BATCHES * self.settings.max_batch_tokens
        for group in by_tokens(entries, max_tokens, max_tokens):
            self.encode(group)
            words = [entry.words for entry in group]
            segments = [entry.segments for entry in group]
            layers = embed_words(
                self.bilm, words, segments, self.settings, keep_marks=self.sentence_marks
            )
            marks = self.bilm.indexer.marks if self.sentence_marks else None
            for entry, values in zip(group, layers):
                yield make_embedded(entry, self.choose(np.asarray(values)), self.dtype, marks)

    def encode(self, group: Sequence[TextEntry]) -> None:
        """Compute and cache the context-free vectors of tokens that were in no earlier group.

        group (Sequence[TextEntry]): The next group.
        """
        if not isinstance(self.bilm, FrozenBiLM) or self._known is None:
            return
        words = (word for entry in group for word in entry.words)
        tokens = list(dict.fromkeys([*self.bilm.indexer.marks, *words]))
        self.bilm.cache = self._known
        vectors = self.bilm.token_vectors(tokens)
        # Give the model a small cache for this group, so that embedding does not change the main
        # cache.
        self.bilm.cache = TokenVectorCache(len(tokens))
        self.bilm.cache.lookup(tokens, lambda _: vectors)


def make_embedded(
    entry: TextEntry, vectors: np.ndarray, dtype: str, marks: Optional[Sequence[str]] = None
) -> Embedded:
    """Add vectors to an entry: the mean vector of each selected span, in the given dtype.

    entry (TextEntry): The entry. Without a selection, each token gets its own vector.
    vectors (numpy.ndarray): Vectors of the tokens. *Shape:* `(n_tokens, width)`, or with all layers
        `(n_layers + 1, n_tokens, width)`
    dtype (str): One of `DTYPES`.
    marks (Optional[Sequence[str]]): Start and end mark of sentences, if they have vectors.
    RETURNS (Embedded): The entry with its vectors. int8 vectors have scales: multiply each vector
        by its scale.
    RAISES (ValueError): A vector contains a number that is too large for the dtype.
    """
    words, beside = entry.words, {}
    if marks is not None:
        words = insert_marks(words, entry.segments, marks)
    if entry.selected is not None:
        means = [vectors[..., span.tokens, :].mean(axis=-2) for span in entry.selected]
        vectors = np.stack(means, axis=-2) if means else vectors[..., :0, :]
        words = [span.text for span in entry.selected]
        beside = {f"{name}s": [getattr(span, name) for span in entry.selected] for name in PLACE}
    if dtype == "int8":
        vectors, scales = _to_int8(vectors)
        by_layer = [("", scales)] if scales.ndim == 1 else zip(map("_{}".format, count()), scales)
        beside |= {f"scales{layer}": values.tolist() for layer, values in by_layer}
    return Embedded(entry.text, words, _cast(vectors, dtype), entry.doc, beside, entry.source)


def _to_int8(vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return vectors as integers from -127 to 127, and the scale of each vector.

    A vector is the product of its integers and its scale.
    """
    scales = np.abs(vectors).max(axis=-1) / np.float32(127)
    scales[scales == 0] = 1
    return np.rint(vectors / scales[..., None]), scales


def _cast(vectors: np.ndarray, dtype: str) -> np.ndarray:
    with np.errstate(over="ignore"):
        cast = vectors.astype(dtype, copy=False)
    if dtype == "float16" and np.isinf(cast).any():
        raise ValueError(
            f"the vectors contain numbers up to {np.abs(vectors).max():g}, too large for "
            f"{dtype}. Use float32."
        )
    return cast


class _Loaded(NamedTuple):
    pipe: Elmo
    choose: Choose
    chosen: dict[str, Any]
    reader: DocReader


@dataclass(frozen=True)
class CorpusEmbedder:
    """Embedder of a corpus: gives vectors to entries (texts or Docs) and to rows of Arrow tables.

    It can be pickled for other processes: the pickle contains only the arguments. The model is
    loaded at the first call.

    model (str): Folder or package of a pipeline with a pipe `elmo`, or weights that
        `spacy_elmo.weights.read_weights` can read.
    layers (str): Layers to write: "vector" (the pipe's `mix`), "all", "top", "average", the number
        of a layer, or "mix:PIPE" (the mix that a component learned).
    dtype (str): Dtype of the vectors: "float32", "float16", or "int8" with a scale for each
        vector.
    precision (Optional[str]): Precision of matrix products, such as "bfloat16". Default: the
        setting of the pipe.
    initial_state (Optional[str]): Initial state of the LSTMs. Default: the setting of the pipe.
    batch_tokens (Optional[int]): Maximum number of tokens in a batch. Default: the setting of the
        pipe.
    lang (Optional[str]): Language of spaCy's tokenizer if the model is not a pipeline. Default:
        the language of the weights, or "en" if it is not known.
    sentence_marks (bool): Whether to keep the vectors of the start and end marks of sentences.
    pool (Optional[str]): Unit that gets a vector: "sentence", "doc" or "span". Default: a token.
    only (Optional[str]): Tokens to use: "ents", "nouns" or labels, separated by commas. Default:
        all tokens.
    device (Optional[str]): PyTorch's name of the device. Default: the device of the pipeline.
    RAISES (ValueError): A setting is invalid. Calls also raise it if the model cannot be read.
    """

    model: str
    layers: str = VECTOR
    dtype: str = "float32"
    precision: Optional[str] = None
    initial_state: Optional[str] = None
    batch_tokens: Optional[int] = None
    lang: Optional[str] = None
    sentence_marks: bool = False
    pool: Optional[str] = None
    only: Optional[str] = None
    device: Optional[str] = None

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise ValueError(f"the dtype must be one of {', '.join(DTYPES)}, got '{self.dtype}'")
        self._selector.check()
        if self._is_selective and self.sentence_marks:
            raise ValueError(
                "`sentence_marks`: marks are not tokens, so `pool` and `only` cannot select them. "
                "Omit one of these settings."
            )

    def __call__(self, table: Any) -> Any:
        """Embed the rows of a table.

        table (Union[pyarrow.Table, pyarrow.RecordBatch]): A table with a column `tokens` (a list
            of strings is a sentence) or `text` (for the pipeline). If it has
            both, `text` is read in rows without `tokens`. A null is an empty row.
        RETURNS (Union[pyarrow.Table, pyarrow.RecordBatch]): The table with more columns: `tokens`;
            `vectors`, or with all layers `layer_0`, `layer_1` and so on (each a list of vectors);
            for int8, `scales`, or `scales_0`, `scales_1` and so on; `starts`, `ends` and `labels`
            with `pool` or `only`.
        RAISES (ValueError): The table has neither column or a column with the name of a new one,
            or the model cannot be read.
        """
        from .parquet import add_columns, table_entries

        reader = self.reader()
        reader.check_labels()
        rows = list(self._for_tables.embed(map(reader.select, table_entries(table, reader))))
        return add_columns(table, rows or [self.empty])

    def embed(self, entries: Iterable[TextEntry]) -> Iterator[Embedded]:
        """Embed entries in order. Only some thousand tokens are in memory at a time.

        Each call gives the same entries the same vectors, bit for bit.

        entries (Iterable[TextEntry]): The entries.
        YIELDS (Embedded): An entry with its vectors.
        RAISES (ValueError): A vector contains a number that is too large for the dtype.
        """
        return self._group_embedder().embed(entries)

    def _group_embedder(self) -> GroupEmbedder:
        """Return a new embedder with an empty cache."""
        loaded = self._loaded
        return GroupEmbedder(loaded.pipe, loaded.choose, self.dtype, self.sentence_marks)

    def reader(self) -> DocReader:
        """Return the reader that converts text to entries."""
        return self._loaded.reader

    @property
    def empty(self) -> Embedded:
        """Entry without a token."""
        config = self._loaded.pipe.bilm.config
        layers = np.zeros((config.n_layers + 1, 0, config.width), "float32")
        entry = TextEntry("", [], [], selected=[] if self._is_selective else None)
        return make_embedded(entry, self._loaded.choose(layers), self.dtype)

    def describe(self) -> dict[str, Any]:
        """Return all settings that change the vectors, as a JSON object."""
        return dict(self._description)

    @property
    def _selector(self) -> SpanSelector:
        return SpanSelector(self.pool, self.only)

    @property
    def _is_selective(self) -> bool:
        """True if `pool` or `only` is set."""
        return any(self._selector)

    @cached_property
    def _description(self) -> dict[str, Any]:
        pipe, _, chosen, reader = self._loaded
        settings = {
            "spacy_elmo": __version__,
            "model": pipe.bilm.checksum(),
            "precision": precision_of(pipe.bilm),
            "initial_state": pipe.settings.initial_state,
            "batch_tokens": pipe.settings.max_batch_tokens,
            "segmenter": segmenter_config(pipe.settings.segmenter),
            "lang": reader.nlp.lang,
            "dtype": self.dtype,
            **chosen,
            "sentence_marks": self.sentence_marks,
            "pool": self.pool,
            "only": self.only,
        }
        return dict(json.loads(json.dumps(settings)))

    @cached_property
    def _loaded(self) -> _Loaded:
        """Loaded pipe, layers and reader."""
        nlp = read_pipeline(self.model) if is_pipeline(self.model) else self._made_pipeline()
        if self.lang not in (None, nlp.lang):
            raise ValueError(
                f"the pipeline '{self.model}' has the language '{nlp.lang}', not '{self.lang}'. "
                f"Omit `lang`."
            )
        pipe = elmo_pipe(nlp)
        if self.sentence_marks and not pipe.bilm.config.sentence_marks:
            raise ValueError(f"`sentence_marks`: '{self.model}' has no marks. Omit this setting")
        wanted: dict[str, Any] = {
            "precision": self.precision,
            "initial_state": self.initial_state,
            "max_batch_tokens": self.batch_tokens,
        }
        given = {name: value for name, value in wanted.items() if value is not None}
        pipe.settings = replace(pipe.settings, **given)
        if self.device is not None:
            pipe.move_to(self.device)
        chosen = choose_layers(self.layers, nlp)
        reader = DocReader(nlp, pipe, self._selector if self._is_selective else None)
        return _Loaded(pipe, *chosen, reader)

    def _made_pipeline(self) -> Language:
        """Make a pipeline with a sentencizer from weights. They are read once."""
        if self.lang:  # A wrong language is an error before anything is downloaded or read.
            nlp = read_pipeline(self.model, self.lang)
            bilm = read_weights(self.model)
        else:
            bilm = read_weights(self.model)
            nlp = self._with_tokenizer(bilm.provenance.get("lang") or DEFAULT_LANG)
        elmo_pipe(nlp).set_bilm(bilm)
        nlp.add_pipe("sentencizer", first=True)
        return nlp

    def _with_tokenizer(self, lang: str) -> Language:
        """Make a pipeline for a language, or for `DEFAULT_LANG` if spaCy cannot tokenize it."""
        try:
            return read_pipeline(self.model, lang)
        # AttributeError: spaCy has a module with this name that is not a language.
        except (ImportError, AttributeError):
            warnings.warn(
                f"spaCy has no tokenizer for '{lang}', so running text is split as "
                f"'{DEFAULT_LANG}'. Set `lang` to a language that spaCy has.",
                stacklevel=2,
            )
            return read_pipeline(self.model, DEFAULT_LANG)

    @cached_property
    def _for_tables(self) -> GroupEmbedder:
        """Embedder of all tables, which share its cache of context-free vectors."""
        return self._group_embedder()

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}
