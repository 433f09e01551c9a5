"""Component `elmo_coref`: coreference resolution."""

import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Optional

import numpy as np
from spacy.tokens import Doc
from spacy.training import Example
from spacy.vocab import Vocab
from thinc.api import Model
from thinc.types import Floats1d, Floats2d

from ...embedding.embed import by_tokens
from ...embedding.segmenters import Segment, Segmenter, cut_into_segments
from ..shared.pipe import TaskPipe
from .clusters import PREFIX, gold_clusters, read_clusters, write_clusters
from .model import DocRanker, Ranking
from .spans import Cluster, antecedent_loss, gold_pairs, make_clusters, mention_loss

MAX_TRAINING_TOKENS = 4096  # Maximum per Doc and update, to limit the memory for long sentences.


class CoreferenceResolver(TaskPipe):
    """Component that finds coreference: clusters of mentions of the same person or thing.

    Each cluster is a span group: `doc.spans["coref_clusters_1"]`, `doc.spans["coref_clusters_2"]`
    and so on, in the order of their first mentions. Training skips examples whose reference has no
    such group.

    span_cluster_prefix (str): Prefix of the keys of `doc.spans`, before `_1`.
    singletons (bool): Whether to find clusters of one mention. If False, training and scores ignore
        such clusters in the corpus.
    mention_loss (float): Weight of a second loss. It teaches the model whether a span is a mention
        of a gold cluster (Zhang et al. 2018). With 0, as in Lee et al. 2017, the model learns
        mentions only from links, and needs many documents.
    max_training_sentences (int): Maximum number of sentences of a Doc in a training step. The step
        reads consecutive sentences from a random start: at least one, and more while they have at
        most 4,096 tokens in total. 0: all sentences, with any number of tokens.
    segmenter (Callable[[Doc], List[Segment]]): Splits a Doc into the sentences that the model
        reads. The component only finds mentions within one sentence.
    RAISES (ValueError): A value is out of range.
    """

    factory = "elmo_coref"

    def __init__(
        self,
        vocab: Vocab,
        model: Model[list[Doc], DocRanker],
        name: str = "elmo_coref",
        *,
        span_cluster_prefix: str = PREFIX,
        singletons: bool = False,
        mention_loss: float = 1.0,
        max_training_sentences: int = 50,
        segmenter: Segmenter,
        scorer: Optional[Callable] = None,
    ):
        if not span_cluster_prefix:
            raise ValueError("span_cluster_prefix must not be empty")
        if max_training_sentences < 0:
            raise ValueError(
                f"max_training_sentences must be 0 or more, got {max_training_sentences}"
            )
        if mention_loss < 0 or (singletons and not mention_loss):
            raise ValueError(
                f"mention_loss must be 0 or more, and above 0 with singletons, got {mention_loss}"
            )
        super().__init__(vocab, model, name, scorer)
        self.span_cluster_prefix = span_cluster_prefix
        self.singletons = singletons
        several = "" if singletons else " of several mentions, as singletons = false needs,"
        self._wanted = f"clusters{several} in doc.spans['{span_cluster_prefix}_1'] and so on"
        self.mention_loss = mention_loss
        self.max_training_sentences = max_training_sentences
        self.segmenter = segmenter

    # Applying

    def predict(self, docs: Iterable[Doc]) -> list[list[Cluster]]:
        """Find the clusters of Docs, without changing them.

        RETURNS (List[List[List[Tuple[int, int]]]]): For each Doc its clusters, as lists of
            mentions. A mention is its first token and the token after its last one.
        RAISES (ValueError): The pipe is not initialized.
        """
        self._check_initialized()
        return [self._find_clusters(doc) for doc in docs]

    def _find_clusters(self, doc: Doc) -> list[Cluster]:
        segments = cut_into_segments(doc, self.segmenter)
        if not segments:
            return []
        ranking, _ = self.model.predict([doc])(0, segments)
        scores = ranking.pair_scores
        no_antecedent = self.model.ops.alloc2f(len(scores), 1)
        links = self.model.ops.xp.concatenate([no_antecedent, scores], axis=1).argmax(axis=1)
        is_mention = self.model.ops.to_numpy(ranking.mention_scores)[ranking.kept] > 0
        mentions = ranking.candidates[ranking.kept].mentions
        return make_clusters(mentions, self.model.ops.to_numpy(links), is_mention & self.singletons)

    def set_annotations(self, docs: Iterable[Doc], scores: list[list[Cluster]]) -> None:
        """Write the clusters to `doc.spans["coref_clusters_1"]` and so on. Delete old clusters."""
        for doc, clusters in zip(docs, scores):
            write_clusters(doc, clusters, self.span_cluster_prefix)

    # Training

    def _found_in(self, doc: Doc) -> Iterable[int]:
        """Yield the size of each gold cluster. If `singletons` is False, skip those of size 1."""
        clusters = read_clusters(doc, self.span_cluster_prefix) or ()
        return (len(cluster) for cluster in clusters if len(cluster) > 1 or self.singletons)

    def _learn(self, docs: list[Doc], gold: list[Optional[list[Cluster]]]) -> float:
        total = 0.0
        rank, backprop = self.model.begin_update(docs)
        for number, (doc, clusters) in enumerate(zip(docs, gold)):
            segments = self._training_segments(doc)
            if clusters is None or not segments:
                continue
            ranking, backprop_ranking = rank(number, segments)
            loss, gradients = self._checked_loss(clusters, ranking)
            backprop_ranking(*gradients)
            total += loss
        backprop(rank)
        return total

    def _loss(
        self, gold: Sequence[Cluster], scores: Ranking
    ) -> tuple[float, tuple[Floats1d, Floats2d]]:
        """Return the loss of a Doc, and the gradients with respect to its two kinds of scores.

        The loss is in nats, summed over the spans.
        """
        kept = scores.candidates[scores.kept].mentions
        right_pairs = gold_pairs(kept, gold, scores.pair_scores.shape[1])
        loss, d_pairs = antecedent_loss(scores.pair_scores, right_pairs)
        mentions = {mention for cluster in gold for mention in cluster}
        right = np.array([mention in mentions for mention in scores.candidates.mentions])
        loss_of_mentions, d_mentions = mention_loss(scores.mention_scores, right)
        total = loss + self.mention_loss * loss_of_mentions
        return total, (d_mentions * self.mention_loss, d_pairs)

    def _gold(self, example: Example) -> Optional[list[Cluster]]:
        clusters = gold_clusters(example, self.span_cluster_prefix)
        if clusters is None or self.singletons:
            return clusters
        return [cluster for cluster in clusters if len(cluster) > 1]

    def _training_segments(self, doc: Doc) -> list[Segment]:
        """Choose at most `max_training_sentences` consecutive segments, from a random start."""
        segments = cut_into_segments(doc, self.segmenter)
        n = self.max_training_sentences
        if not n:
            return segments
        start = random.randint(0, max(0, len(segments) - n))
        chosen = segments[start : start + n]
        return next(by_tokens(chosen, MAX_TRAINING_TOKENS, n, lambda s: s.end - s.start), [])

    def score(self, examples: Iterable[Example], **kwargs: Any) -> dict[str, Any]:
        """Compare predicted and gold clusters with the scorer, by default `score_coref`."""
        settings = {"span_cluster_prefix": self.span_cluster_prefix, "singletons": self.singletons}
        return super().score(examples, **{**settings, **kwargs})
