"""Component `elmo_crf`: a CRF that finds entities, or other spans that do not overlap."""

from collections.abc import Callable, Iterable
from typing import Any, Optional

import numpy as np
from spacy.tokens import Doc, Span
from spacy.training import Example
from spacy.vocab import Vocab
from thinc.api import Model

from ...embedding.embed import by_tokens
from ..shared import check_sizes
from ..shared.bio import BILUOTags, BIOTags, LabeledSpan, make_tags, viterbi
from ..shared.pipe import SpanPipe
from ..shared.spans import place_of, span_error
from .gold import gold_spans, reference_spans
from .model import CRF_PARAMS, Chains

SCHEMES = {"biluo": BILUOTags, "bio": BIOTags}
ENTITY = (1, 3)  # Values of `token.ent_iob` for tokens in an entity: I and B.


class CRFTagger(SpanPipe):
    """Component that finds labeled spans that do not overlap.

    A linear-chain CRF scores the sequences of tags of a whole Doc. The component returns the spans
    of the most probable valid sequence.

    spans_key (Optional[str]): The key of `doc.spans` for the spans; None for `doc.ents`. Entities
        that a Doc already has are kept.
    scheme (str): Tagging scheme, "biluo" or "bio".
    max_batch_tokens (int): Maximum number of tokens in a batch, in prediction. A batch of one Doc
        may have more.
    RAISES (ValueError): A value is out of range.
    """

    factory = "elmo_crf"

    def __init__(
        self,
        vocab: Vocab,
        model: Model[list[Doc], Chains],
        name: str = "elmo_crf",
        *,
        spans_key: Optional[str] = None,
        scheme: str = "biluo",
        max_batch_tokens: int = 4096,
        scorer: Optional[Callable] = None,
    ):
        if scheme not in SCHEMES:
            raise ValueError(f"scheme must be one of {tuple(SCHEMES)}, got {scheme!r}")
        check_sizes("elmo_crf", max_batch_tokens=max_batch_tokens)
        super().__init__(vocab, model, name, scorer)
        self.spans_key = spans_key
        self._wanted = f"spans in {place_of(spans_key)}"
        self.scheme = scheme
        self.max_batch_tokens = max_batch_tokens

    # Applying

    def predict(self, docs: Iterable[Doc]) -> list[list[LabeledSpan]]:
        """Find the spans of Docs, without changing them.

        RETURNS (List[List[Tuple[int, int, str]]]): First token, the token after the last one, and
            label of each span, for each Doc.
        RAISES (ValueError): The pipe has no labels.
        """
        self._check_initialized()
        docs = list(docs)
        found: list[list[LabeledSpan]] = [[] for _ in docs]
        to_numpy = self.model.ops.to_numpy
        order = sorted((i for i, doc in enumerate(docs) if len(doc)), key=lambda i: len(docs[i]))
        for group in by_tokens(order, self.max_batch_tokens, len(docs), lambda i: len(docs[i])):
            chains = self.model.predict([docs[i] for i in group])
            params = [to_numpy(getattr(chains, n)) + getattr(self._tags, n) for n in CRF_PARAMS]
            for i, scores in zip(group, map(to_numpy, chains.scores)):
                if self.spans_key is None:  # Only allow O at tokens of existing entities.
                    scores = scores.copy()
                    scores[[token.i for token in docs[i] if token.ent_iob in ENTITY], 1:] = -np.inf
                tags = viterbi(scores, *params)
                found[i] = self._tags.spans(tags.tolist())
        return found

    def set_annotations(self, docs: Iterable[Doc], scores: list[list[LabeledSpan]]) -> None:
        """Replace the span group by spans of `predict`, or add entities if `spans_key` is None."""
        for doc, found in zip(docs, scores):
            spans = [Span(doc, start, end, label=label) for start, end, label in found]
            if self.spans_key is None:
                # Tokens that are marked as "not in an entity" (`blocked` of `Doc.set_ents`).
                blocked = [doc[t.i : t.i + 1] for t in doc if t.ent_iob_ == "B" and not t.ent_type]
                doc.set_ents([*doc.ents, *spans], blocked=blocked)
            else:
                doc.spans[self.spans_key] = spans

    # Training

    def _found_in(self, doc: Doc) -> Iterable[str]:
        return (span.label_ for span in reference_spans(doc, self.spans_key))

    @property
    def _tags(self) -> BIOTags:
        return make_tags(SCHEMES[self.scheme], self.labels)

    def _loss(self, gold: list[Optional[np.ndarray]], scores: Chains) -> tuple[float, Chains]:
        """Return the negative log-likelihood of the annotation, and its gradient."""
        from .partition import sequence_loss

        return sequence_loss(scores, self._tags, gold)

    def _gold(self, example: Example) -> Optional[np.ndarray]:
        """Find the tags of each token that agree with the gold spans; None without annotation.

        RETURNS (Optional[numpy.ndarray]): True at tags that agree. *Shape:* `(n_tokens, n_tags)`
        RAISES (ValueError): A label is unknown, gold spans overlap, or a gold span has no tokens or
            no label.
        """
        gold = gold_spans(example, self.spans_key)
        if gold is None:
            return None
        spans, missing = gold
        for start, end, label in spans:
            if label not in self.labels:
                span = Span(example.predicted, start, end, label=label)
                reason = f"that '{self.name}' does not know. Initialize it with this label"
                raise span_error(span, self.spans_key, f"has a label {reason}")
        return self._tags.allowed(spans, missing)

    def score(self, examples: Iterable[Example], **kwargs: Any) -> dict[str, Any]:
        """Compare predicted and gold spans with the scorer, by default `score_crf`."""
        return super().score(examples, **{"spans_key": self.spans_key, **kwargs})
