"""Model of semantic roles (He et al. 2017).

The encoder reads a sentence once per predicate, each time with a flag at this predicate. If the
model also finds predicates, it reads the sentence once more, without a flag.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Optional, TypeAlias

import numpy as np
from spacy.tokens import Doc
from thinc.api import Model, Softmax_v2, chain, glorot_uniform_init, with_array
from thinc.types import Floats2d, Ints1d

from ...embedding.segmenters import Segment, segment_of
from ...registry import registry
from ..shared import DocHead, Tok2Vec, Vectors

Segments = Sequence[list[Segment]]  # Segments of each Doc.
Predicates = Optional[Collection[int]]  # Tokens of the predicates of a Doc; None if unknown.

Flagged = tuple[Vectors, list[Ints1d]]  # Vectors and flags of the tokens.
FlagLayer: TypeAlias = Model[Flagged, Vectors]

# Rows of the embedding of flags. An instance for roles has FLAGGED at its predicate and OTHER
# elsewhere. An instance for finding predicates has UNFLAGGED at all tokens.
OTHER, FLAGGED, UNFLAGGED = range(3)


@dataclass(frozen=True)
class Instance:
    """Input of the encoder: a sentence with at most one flagged predicate.

    doc (int): Index of the Doc in its batch.
    predicate (int): Token index of the predicate whose roles the model finds; -1 if the model finds
        the predicates of the sentence.
    """

    doc: int
    segment: Segment
    predicate: int = -1

    @property
    def tokens(self) -> slice:
        """Tokens of the sentence, as a slice of the Doc."""
        return slice(self.segment.start, self.segment.end)

    def __len__(self) -> int:
        return self.segment.end - self.segment.start

    @property
    def flags(self) -> np.ndarray:
        """Flag of each token: FLAGGED for the predicate, OTHER for the other tokens.

        If no predicate is marked (`predicate` is -1), all flags are UNFLAGGED. *Shape:*
        `(n_tokens,)`
        """
        if self.predicate < 0:
            return np.full(len(self), UNFLAGGED)
        return np.where(np.arange(*self.segment[:2]) == self.predicate, FLAGGED, OTHER)


def predicate_instances(segments: Segments, predicates: Sequence[Predicates]) -> list[Instance]:
    """Make the instances that find roles, one per predicate.

    predicates (Sequence[Optional[Collection[int]]]): Tokens of each Doc's predicates; None counts
        as no predicates.
    """
    pairs = [(i, token) for i, tokens in enumerate(predicates) for token in tokens or ()]
    return [Instance(i, segment_of(segments[i], token), token) for i, token in pairs]


def segment_instances(segments: Segments) -> list[Instance]:
    """Make the instances that find predicates, one per segment."""
    return [Instance(i, segment) for i, found in enumerate(segments) for segment in found]


class InstanceScorer(DocHead):
    """Output of the model: a callable that scores the tags of each token of `Instance`s."""

    def __call__(self, instances: Sequence[Instance]) -> tuple[Vectors, Callable]:
        """Score the tags of each token of each instance.

        RETURNS (Tuple[List[Floats2d], Callable]): The scores, `(n_tokens, n_tags)` for each
            instance, and the backward pass, which takes the gradients of the logits. Scores are
            logits in prediction, and probabilities in training.
        """
        parts = [self.vectors[one.doc][one.tokens] for one in instances]
        flags = [self.head.ops.asarray1i(one.flags) for one in instances]
        scores, backprop_head = self.head((parts, flags), self.is_train)

        def backprop(d_scores: Vectors) -> None:
            for one, d_part in zip(instances, backprop_head(d_scores)):
                self.d_vectors[one.doc][one.tokens] += d_part

        return scores, backprop


@registry.architectures("spacy-elmo.SRL.v1")
def build_srl(
    tok2vec: Tok2Vec, encode: Model[Vectors, Vectors], flag_width: int = 100
) -> Model[list[Doc], InstanceScorer]:
    """Build a model of semantic roles (He et al. 2017).

    Each token has a flag that says whether the token is the predicate. The model concatenates the
    vector of the token with an embedding of this flag. An encoder and a softmax over BIO tags
    follow.

    tok2vec (Model[List[Doc], List[Floats2d]]): Vectors of the tokens, computed once per Doc.
    encode (Model[List[Floats2d], List[Floats2d]]): The encoder, which runs once per predicate.
    flag_width (int): Width of the embedding of flags.
    RETURNS (Model[List[Doc], InstanceScorer]): Its output is a callable that scores batches of
        instances.
    """
    output: Model[Floats2d, Floats2d] = Softmax_v2(normalize_outputs=False)
    head: Model = chain(ConcatFlags(flag_width), encode, with_array(output))
    layers, refs = [tok2vec, head], {"tok2vec": tok2vec, "head": head, "output": output}
    forward, dims = InstanceScorer.forward, {"nO": None}
    return Model("elmo_srl", forward, init=init, dims=dims, layers=layers, refs=refs)


def init(model: Model, X: Optional[list[Doc]] = None, Y: object = None) -> None:
    """Initialize the tok2vec layer, and the head for vectors of its width."""
    model.get_ref("output").set_dim("nO", model.get_dim("nO"))
    tok2vec = model.get_ref("tok2vec")
    tok2vec.initialize(X=X)
    vectors = tok2vec.predict(X or [])
    flags = [model.ops.alloc1i(len(values)) for values in vectors]
    model.get_ref("head").initialize(X=(vectors, flags))


def ConcatFlags(width: int) -> FlagLayer:
    """Build a layer that appends to each token's vector a learned embedding of its flag."""
    dims = {"nO": None, "nI": None, "nE": width}
    return Model("elmo_concat_flags", forward_flags, init=init_flags, dims=dims, params={"E": None})


def forward_flags(model: FlagLayer, X: Flagged, is_train: bool) -> tuple[Vectors, Callable]:
    """Compute the forward pass of `ConcatFlags`."""
    xp, E = model.ops.xp, model.get_param("E")
    vectors, flags = X
    outputs = [xp.concatenate([x, E[rows]], axis=1) for x, rows in zip(vectors, flags)]

    def backprop(d_outputs: Vectors) -> Vectors:
        width = model.get_dim("nI")
        d_E, d_rows = xp.zeros_like(E), xp.concatenate([d[:, width:] for d in d_outputs])
        model.ops.scatter_add(d_E, xp.concatenate(flags), d_rows)
        model.inc_grad("E", d_E)
        return [d[:, :width] for d in d_outputs]

    return outputs, backprop


def init_flags(model: FlagLayer, X: Flagged, Y: object = None) -> None:
    """Initialize `ConcatFlags` for vectors of the width of X."""
    width = X[0][0].shape[1]
    model.set_dim("nI", width)
    model.set_dim("nO", width + model.get_dim("nE"))
    model.set_param("E", glorot_uniform_init(model.ops, (3, model.get_dim("nE"))))
