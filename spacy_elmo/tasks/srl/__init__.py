"""Component `elmo_srl`: semantic role labeling."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Optional

import numpy as np
from spacy.tokens import Doc
from spacy.training import Example
from spacy.vocab import Vocab
from thinc.api import Model
from thinc.types import Floats2d

from ...embedding.embed import by_tokens
from ...embedding.segmenters import Segment, Segmenter, cut_into_segments
from ..shared import check_sizes
from ..shared.bio import make_tags
from ..shared.pipe import SpanPipe
from ..shared.spans import checked_spans, name_of
from .frames import (
    KEY,
    PREDICATE,
    Frames,
    SRLTags,
    checked_frames,
    gold_frames,
    read_frames,
    write_frames,
)
from .model import Instance, InstanceScorer, Predicates, predicate_instances, segment_instances

PREDICATES = ("model", "verbs", "gold")
# Key of `cfg`: whether the model has learned to find predicates. Older saved pipes do not have it.
FINDS_PREDICATES = "finds_predicates"


class SemanticRoleLabeler(SpanPipe):
    """Component that finds semantic roles: who did what to whom.

    It sets `doc.spans["srl"]`. The `id` of a span is the index of its predicate's token. Training
    skips examples whose reference has no such group.

    predicates (str): Source of the predicates in prediction. "model": the model finds them (it
        learns this in training). "verbs": tokens with `pos_` VERB or AUX. "gold": the predicates
        that are already in `doc.spans["srl"]` or, in an evaluation, in the reference.
    segmenter (Callable[[Doc], List[Segment]]): Splits a Doc into the sentences that the model
        reads.
    max_batch_tokens (int): Maximum number of tokens in a batch of the encoder. The tokens of a
        sentence count once per predicate.
    RAISES (ValueError): A value is out of range.
    """

    factory = "elmo_srl"
    own_labels = (PREDICATE,)
    _wanted = f"spans in doc.spans[{KEY!r}]"

    def __init__(
        self,
        vocab: Vocab,
        model: Model[list[Doc], InstanceScorer],
        name: str = "elmo_srl",
        *,
        predicates: str = "model",
        segmenter: Segmenter,
        max_batch_tokens: int = 4096,
        scorer: Optional[Callable] = None,
    ):
        if predicates not in PREDICATES:
            raise ValueError(f"predicates must be one of {PREDICATES}, got {predicates!r}")
        check_sizes("elmo_srl", max_batch_tokens=max_batch_tokens)
        super().__init__(vocab, model, name, scorer)
        self.predicates = predicates
        self.segmenter = segmenter
        self.max_batch_tokens = max_batch_tokens

    # Applying

    def predict(self, docs: Iterable[Doc]) -> list[Optional[Frames]]:
        """Find the predicates and roles of Docs, without changing them.

        RETURNS (List[Optional[Dict[int, List[Tuple[int, int, str]]]]]): For each Doc, a dict from
            the token index of each predicate to its roles: first token, the token after the last
            one, and label. V is the predicate itself. None if `predicates` is "gold" and the Doc
            has no gold predicates.
        RAISES (ValueError): The pipe is not initialized; `predicates` is "verbs" and a Doc has no
            parts of speech; or `predicates` is "model" and the model has not learned to find them.
        """
        self._check_initialized()
        if self.predicates == "model" and self.cfg.get(FINDS_PREDICATES) is False:
            raise ValueError(
                f"'{self.name}' was not trained to find predicates. Set predicates to 'verbs' or "
                f"'gold', or train it with predicates = 'model'"
            )
        found: list[Optional[Frames]] = []
        for group in by_tokens(docs, self.max_batch_tokens, self.max_batch_tokens):
            segments = [cut_into_segments(doc, self.segmenter) for doc in group]
            score = self.model.predict(group)
            predicates = self._find_predicates(group, segments, score)
            # Long sentences are scored first, but the predicates keep the order of the text.
            frames: list[Any] = [
                None if one is None else dict.fromkeys(sorted(one)) for one in predicates
            ]
            for one, logits in self._scored(predicate_instances(segments, predicates), score):
                first = one.segment.start
                spans = self._tags.spans(self._tags.decode_roles(logits, one.predicate - first))
                roles = [(start + first, end + first, label) for start, end, label in spans]
                frames[one.doc][one.predicate] = roles
            found.extend(frames)
        return found

    def _find_predicates(
        self, docs: list[Doc], segments: list[list[Segment]], score: InstanceScorer
    ) -> list[Predicates]:
        if self.predicates == "gold":
            return [read_frames(doc) for doc in docs]
        if self.predicates == "verbs":
            return [self._verbs(doc) for doc in docs]
        found: list[list[int]] = [[] for _ in docs]
        V = self._tags.begin(PREDICATE)
        for one, logits in self._scored(segment_instances(segments), score):
            hits = one.segment.start + np.flatnonzero(logits.argmax(axis=1) == V)
            kept = (hits >= one.segment.keep_start) & (hits < one.segment.keep_end)
            found[one.doc].extend(hits[kept].tolist())
        return list(found)

    def _verbs(self, doc: Doc) -> list[int]:
        if len(doc) and not doc.has_annotation("POS"):
            raise ValueError(
                f"'{self.name}' has predicates = 'verbs', but the Doc {name_of(doc)} has no parts "
                f"of speech. Add a component that sets token.pos before it, or use 'model'"
            )
        return [token.i for token in doc if token.pos_ in ("VERB", "AUX")]

    def _scored(
        self, instances: Iterable[Instance], score: InstanceScorer
    ) -> Iterator[tuple[Instance, np.ndarray]]:
        """Yield each instance with its logits, `(n_tokens, n_tags)`. Long sentences come first."""
        for batch in self._batches(instances):
            scores, _ = score(batch)
            yield from zip(batch, map(self.model.ops.to_numpy, scores))

    def _batches(self, instances: Iterable[Instance]) -> Iterator[list[Instance]]:
        """Yield batches of instances of similar length."""
        ordered = sorted(instances, key=len, reverse=True)
        return by_tokens(ordered, self.max_batch_tokens, max(1, len(ordered)))

    def set_annotations(self, docs: Iterable[Doc], scores: list[Optional[Frames]]) -> None:
        """Write the roles of `predict` to `doc.spans["srl"]`. For None, the Doc does not change."""
        for doc, frames in zip(docs, scores):
            if frames is not None:
                write_frames(doc, frames)

    # Training

    def _found_in(self, doc: Doc) -> Iterable[str]:
        return (span.label_ for span in checked_spans(doc, KEY))

    @property
    def _tags(self) -> SRLTags:
        return make_tags(SRLTags, self.labels)

    def _forget(self) -> None:
        self.cfg[FINDS_PREDICATES] = self.predicates == "model"

    def _learn(self, docs: list[Doc], gold: list[Optional[Frames]]) -> float:
        segments = [
            [] if one is None else cut_into_segments(doc, self.segmenter)
            for doc, one in zip(docs, gold)
        ]
        instances = predicate_instances(segments, gold)
        if self.predicates == "model":
            instances += segment_instances(segments)
            self.cfg[FINDS_PREDICATES] = True
        if not instances:
            return 0.0
        total = 0.0
        score, backprop = self.model.begin_update(docs)
        for batch in self._batches(instances):
            scores, backprop_batch = score(batch)
            loss, d_scores = self._checked_loss(gold, (batch, scores))
            backprop_batch(d_scores)
            total += loss
        backprop(score)
        return total

    def _loss(
        self, gold: list[Any], scores: tuple[list[Instance], list[Floats2d]]
    ) -> tuple[float, list[Floats2d]]:
        """Return the negative log-likelihood, summed over tokens, and its gradient.

        The gradient is with respect to the logits. `scores` contains two lists: the instances, and
        the tag probabilities of each instance.
        """
        loss, d_scores = 0.0, []
        for one, probabilities in zip(*scores):
            frames, start = gold[one.doc], one.segment.start
            if one.predicate < 0:
                spans = [(i, i + 1, PREDICATE) for i in frames if start <= i < one.segment.end]
            else:
                spans = frames[one.predicate]
            shifted = [(first - start, last - start, label) for first, last, label in spans]
            tags = self.model.ops.asarray(self._tags.encode_spans(shifted, len(one)))
            rows = self.model.ops.xp.arange(len(tags))
            # A probability can be rounded to 0, which has no logarithm.
            loss -= float(self.model.ops.xp.log(probabilities[rows, tags] + 1e-30).sum())
            d_logits = probabilities.copy()
            d_logits[rows, tags] -= 1.0
            d_scores.append(d_logits)
        return loss, d_scores

    def _gold(self, example: Example) -> Optional[Frames]:
        """Return the gold roles of each predicate, after a check; None without annotation."""
        frames = gold_frames(example)
        return frames and checked_frames(example.predicted, frames, self.segmenter, self.labels)

    def score(self, examples: Iterable[Example], **kwargs: Any) -> dict[str, Any]:
        """Compare predicted and gold roles with the scorer, by default `score_srl`.

        If `predicates` is "gold", a predicted Doc without `doc.spans["srl"]` first gets the
        predicates of its reference, and the model predicts the roles of these predicates.
        """
        examples = list(examples)
        if self.predicates == "gold":
            docs = []
            for example in examples:
                frames = gold_frames(example)
                if frames is not None and KEY not in example.predicted.spans:
                    write_frames(example.predicted, {i: [(i, i + 1, PREDICATE)] for i in frames})
                    docs.append(example.predicted)
            self.set_annotations(docs, self.predict(docs))
        return super().score(examples, **kwargs)
