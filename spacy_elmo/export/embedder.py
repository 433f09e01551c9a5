"""The language model of a file or folder, for entries and for tables of Arrow."""

import json
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Optional

import numpy as np
import spacy
from spacy.language import Language

from .. import __version__
from ..embedding.segmenters import segmenter_config
from ..layers.bilm import precision_of
from ..pipeline.elmo import Elmo
from ..pipeline.load import elmo_pipe, is_pipeline, read_pipeline
from ..weights import language_of_weights
from .entries import Embedded, Entry
from .group_embedder import DTYPES, GroupEmbedder, make_embedded
from .keeping import Keeper
from .layers import VECTOR, Choose, choose_layers
from .making import DocMaker

DEFAULT_LANG = "en"
CHUNK_BATCHES = 4  # of which sequences of about the same length run together


class _Loaded(NamedTuple):
    nlp: Language
    pipe: Elmo
    choose: Choose
    chosen: dict[str, Any]
    maker: DocMaker


@dataclass(frozen=True)
class Embedder:
    """Adds the vectors of text to tables of Arrow, in any process: it is pickled as its
    arguments, and reads the model when it is first called.

    model (str): Folder or package of a pipeline, whose pipe `elmo` is used with its settings,
        or what `spacy_elmo.weights.read_weights` reads.
    layers (str): "vector", what the pipe's `mix` makes, "all", "top", "average", the number of a
        layer, or "mix:PIPE", the mix that a component learned.
    dtype (str): Of the vectors: "float32", "float16" or "int8", which is to be multiplied by a
        scale of each vector.
    precision (Optional[str]): As the pipe's; by default the pipe's own.
    initial_state (Optional[str]): As the pipe's; by default the pipe's own.
    batch_tokens (Optional[int]): Most tokens that run side by side; by default the pipe's own
        number.
    lang (Optional[str]): Language of spaCy's tokenizer where the model is no pipeline; by
        default that of the weights, or "en" if they do not say it.
    sentence_marks (bool): Whether to keep the vectors of the marks around each sentence.
    pool (Optional[str]): What gets a vector: "sentence", "doc" or "span"; by default each token.
    only (Optional[str]): Of which tokens: "ents", "nouns" or labels, with commas between them; by
        default of all.
    device (Optional[str]): Where the model computes, as PyTorch names it; by default where the
        pipeline has it.
    RAISES (ValueError): There is no such dtype; when it is called, a setting is impossible or
        the model cannot be read.
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
        self._keeper.check()
        if self._is_kept and self.sentence_marks:
            raise ValueError(
                "`sentence_marks`: marks are no tokens, which `pool` and `only` choose"
            )

    def __call__(self, table: Any) -> Any:
        """Embed the rows of a table.

        table (Union[pyarrow.Table, pyarrow.RecordBatch]): It has a column `tokens`, of lists of
            strings, a sentence each; or else `text`, which the pipeline reads. A null is an
            empty row.
        RETURNS (Union[pyarrow.Table, pyarrow.RecordBatch]): The table with the columns `tokens`
            and `vectors`, or `layer_0`, `layer_1` and so on: a list of vectors, one a token; and
            what stands beside each vector: `scales`, of int8; `starts`, `ends` and `labels`, of
            what was chosen.
        RAISES (ValueError): It has neither column, or what `Embedder` says.
        """
        from .tables import add_columns, table_entries

        maker = self.maker()
        maker.check_labels()
        entries = map(maker.keep, table_entries(table, maker))
        rows = list(self._for_tables.embed_all(entries, self.group_tokens))
        return add_columns(table, rows or [self.empty])

    def embed(self, entries: Iterable[Entry]) -> Iterator[Embedded]:
        """Embed entries in order, with memory for some thousand tokens. The same entries get the
        same vectors, bit for bit, whatever was embedded before.

        entries (Iterable[Entry]): The entries.
        YIELDS (Embedded): An entry with its vectors.
        RAISES (ValueError): A number is too large for the type.
        """
        return self.group_embedder().embed_all(entries, self.group_tokens)

    def group_embedder(self) -> GroupEmbedder:
        """RETURNS (GroupEmbedder): The language model, with nothing in its cache."""
        loaded = self._loaded
        return GroupEmbedder(loaded.pipe, loaded.choose, self.dtype, self.sentence_marks)

    def maker(self, *, keep_docs: bool = False) -> DocMaker:
        """RETURNS (DocMaker): Makes Docs as the pipeline does, which entries hold if wanted; the
        same each time."""
        self._loaded.maker.keep_docs = keep_docs
        return self._loaded.maker

    @property
    def group_tokens(self) -> int:
        """RETURNS (int): Most tokens of a group for `GroupEmbedder`."""
        return CHUNK_BATCHES * self._loaded.pipe.settings.max_batch_tokens

    @property
    def empty(self) -> Embedded:
        """RETURNS (Embedded): An entry without a token."""
        config = self._loaded.pipe.bilm.config
        layers = np.zeros((config.n_layers + 1, 0, config.width), "float32")
        entry = Entry("", [], [], kept=[] if self._is_kept else None)
        return make_embedded(entry, self._loaded.choose(layers), self.dtype)

    def describe(self) -> dict[str, Any]:
        """RETURNS (dict): What the vectors depend on beside the text, as JSON."""
        return dict(self._description)

    @property
    def _keeper(self) -> Keeper:
        return Keeper(self.pool, self.only)

    @property
    def _is_kept(self) -> bool:
        """Whether something else than each token gets a vector."""
        return any(self._keeper)

    @cached_property
    def _description(self) -> dict[str, Any]:
        nlp, pipe, _, chosen, _ = self._loaded
        settings = {
            "spacy_elmo": __version__,
            "model": pipe.bilm.checksum(),
            "precision": precision_of(pipe.bilm),
            "initial_state": pipe.settings.initial_state,
            "batch_tokens": pipe.settings.max_batch_tokens,
            "segmenter": segmenter_config(pipe.settings.segmenter),
            "lang": nlp.lang,
            "dtype": self.dtype,
            **chosen,
            # Which earlier versions did not write.
            **({"sentence_marks": True} if self.sentence_marks else {}),
            **({"pool": self.pool, "only": self.only} if self._is_kept else {}),
        }
        return dict(json.loads(json.dumps(settings)))

    @cached_property
    def _loaded(self) -> _Loaded:
        """The pipeline, or a new one with these weights, that cuts text into sentences."""
        nlp = read_pipeline(self.model, self.lang or self._lang_of_weights())
        if self.lang not in (None, nlp.lang):
            raise ValueError(
                f"the pipeline '{self.model}' is of the language '{nlp.lang}', not '{self.lang}'"
            )
        if not is_pipeline(self.model):
            nlp.add_pipe("sentencizer", first=True)
        pipe = elmo_pipe(nlp)
        if self.sentence_marks and not pipe.bilm.config.sentence_marks:
            raise ValueError(f"`sentence_marks`: '{self.model}' reads sentences without marks")
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
        maker = DocMaker(nlp, pipe, self._keeper if self._is_kept else None)
        return _Loaded(nlp, pipe, *chosen, maker)

    def _lang_of_weights(self) -> str:
        lang = None if is_pipeline(self.model) else language_of_weights(self.model)
        try:
            spacy.blank(lang or DEFAULT_LANG)
        except ImportError:
            warnings.warn(
                f"spaCy has no tokenizer for '{lang}' here: running text is split as "
                f"'{DEFAULT_LANG}'. Set `lang` to a language that it has",
                stacklevel=2,
            )
            return DEFAULT_LANG
        return lang or DEFAULT_LANG

    @cached_property
    def _for_tables(self) -> GroupEmbedder:
        """One for all calls: words that come again are not encoded again."""
        return self.group_embedder()

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}
