"""Coreference model, which ranks the possible antecedents of each span (Lee et al. 2017)."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Optional

import numpy as np
from spacy.tokens import Doc
from thinc.api import Model
from thinc.types import Floats1d, Floats2d

from ...embedding.segmenters import Segment
from ...registry import registry
from ..shared import DocHead, Tok2Vec, check_even, check_rate, check_sizes
from ..shared.torch_module import ModuleShim, get_module_shim, make_module, run_module
from .spans import CandidateSpans, find_candidate_spans

if TYPE_CHECKING:
    from torch import Tensor

    from .module import SpanRanker


class Ranking(NamedTuple):
    """Output of the model for one Doc.

    candidates (CandidateSpans): All spans up to the maximum width.
    mention_scores (Floats1d): How likely each span is a mention. *Shape:* `(n_spans,)`
    kept (numpy.ndarray): Indices of the best `candidates`, which get scores of antecedents.
        *Shape:* `(n_kept,)`
    pair_scores (Floats2d): Row i, column a: the score of kept span i - a - 1 as the antecedent of
        kept span i; -inf if there is no such span. "No antecedent" always has score 0. *Shape:*
        `(n_kept, n_antecedents)`
    """

    candidates: CandidateSpans
    mention_scores: Floats1d
    kept: np.ndarray
    pair_scores: Floats2d


class DocRanker(DocHead):
    """Output of the model: a callable that scores the spans of one Doc and their antecedents."""

    def __call__(self, doc: int, segments: Sequence[Segment]) -> tuple[Ranking, Callable]:
        """Score the spans in some segments of a Doc, and the antecedents of the best spans.

        doc (int): Index of the Doc in the batch.
        segments (Sequence[Segment]): At least one.
        RETURNS (Tuple[Ranking, Callable]): The scores, and the backward pass, which takes the
            gradients for mention scores and pair scores.
        """
        numbers = [np.arange(one.start, one.end) for one in segments]
        tokens = self.head.ops.asarray1i(np.concatenate(numbers))
        ranking, backprop_head = self.head((self.vectors[doc][tokens], segments), self.is_train)

        def backprop(d_mention_scores: Floats1d, d_pair_scores: Floats2d) -> None:
            d_tokens = backprop_head((d_mention_scores, d_pair_scores))
            self.head.ops.scatter_add(self.d_vectors[doc], tokens, d_tokens)

        return ranking, backprop


@registry.architectures("spacy-elmo.Coref.v1")
def build_coref(
    tok2vec: Tok2Vec,
    encoder_width: int = 128,
    hidden_width: int = 100,
    hidden_depth: int = 2,
    feature_width: int = 20,
    max_span_width: int = 10,
    spans_per_word: float = 0.4,
    max_antecedents: int = 100,
    dropout: float = 0.2,
    input_dropout: float = 0.5,
) -> Model[list[Doc], DocRanker]:
    """Build a model that ranks the possible antecedents of each span (Lee et al. 2017).

    1. The representation of a span is the output of a biLSTM at its ends, the attention-weighted
       sum of its words, and an embedding of its width.
    2. A network scores each span as a mention, and the best spans are kept.
    3. Another network scores each pair of a kept span and an earlier kept span, from both
       representations, their product and their distance.

    The paper uses `encoder_width = 400`, `hidden_width = 150` and `max_antecedents = 250`, and also
    features for genre and speaker.

    tok2vec (Model[List[Doc], List[Floats2d]]): Vectors of the tokens, computed once per Doc.
    encoder_width (int): Width of the biLSTM's output, half of it from each direction.
    hidden_width (int): Width of the hidden layers of both networks.
    hidden_depth (int): Number of hidden layers of each network.
    feature_width (int): Width of the embeddings of span widths and distances.
    max_span_width (int): Maximum number of tokens in a mention.
    spans_per_word (float): Number of spans to keep, per token of the Doc.
    max_antecedents (int): Maximum number of antecedents to rank for each span.
    dropout (float): Dropout rate of the biLSTM's output and of hidden layers.
    input_dropout (float): Dropout rate of the token vectors.
    RETURNS (Model[List[Doc], DocRanker]): Its output is a callable that scores the spans of a Doc,
        and their antecedents.
    RAISES (ValueError): A size is out of range.
    """
    settings = dict(locals())
    del settings["tok2vec"]
    real = ("spans_per_word", "dropout", "input_dropout")
    check_sizes("Coref", **{key: settings[key] for key in settings if key not in real})
    if not spans_per_word > 0:
        raise ValueError(f"Coref: spans_per_word must be above 0, got {spans_per_word}")
    check_even("encoder_width", encoder_width)
    check_rate("Coref", dropout)
    check_rate("Coref: input_dropout", input_dropout)
    build = partial(make_module, "spacy_elmo.tasks.coref.module:SpanRanker", **settings)
    attrs = {"max_span_width": max_span_width}
    head: Model = Model("elmo_coref_head", rank, shims=[ModuleShim(build)], attrs=attrs)
    refs = {"tok2vec": tok2vec, "head": head}
    return Model("elmo_coref", DocRanker.forward, init=init, layers=[tok2vec, head], refs=refs)


def rank(
    model: Model, X: tuple[Floats2d, Sequence[Segment]], is_train: bool
) -> tuple[Ranking, Callable]:
    """Score the spans of one Doc from its token vectors. This is the forward pass of the head.

    X (Tuple[Floats2d, Sequence[Segment]]): Concatenated vectors of the segments' tokens; the
        segments.
    """
    vectors, segments = X
    candidates = find_candidate_spans(segments, model.attrs["max_span_width"])
    lengths = [one.end - one.start for one in segments]
    found: list[np.ndarray] = []

    def compute(module: "SpanRanker", tensors: "list[Tensor]") -> "list[Tensor]":
        mention_scores, pair_scores, kept = module(tensors[0], lengths, candidates)
        found.append(kept)
        return [mention_scores, pair_scores]

    (mention_scores, pair_scores), backprop_module = run_module(model, [vectors], is_train, compute)

    ranking = Ranking(candidates, mention_scores, found[0], pair_scores)
    return ranking, lambda d_scores: backprop_module(d_scores)[0]


def init(model: Model[list[Doc], DocRanker], X: Optional[list[Doc]] = None, Y: Any = None) -> None:
    """Initialize the tok2vec layer, and create the PyTorch module for vectors of its width."""
    tok2vec = model.get_ref("tok2vec")
    tok2vec.initialize(X=X)
    (vectors,) = tok2vec.predict((X or [])[:1])
    get_module_shim(model.get_ref("head")).create(nI=vectors.shape[1])
