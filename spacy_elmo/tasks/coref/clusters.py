"""Clusters in the span groups `doc.spans["coref_clusters_1"]` and so on."""

import re
from typing import Optional

from spacy.tokens import Doc, Span
from spacy.training import Example

from ..shared.spans import Aligner, checked_spans, span_error, to_predicted, to_reference
from .spans import Cluster, Clusters, Mention

PREFIX = "coref_clusters"


def cluster_keys(doc: Doc, prefix: str) -> list[str]:
    """Return the keys of `doc.spans` that contain clusters: `PREFIX_1`, `PREFIX_2` and so on."""
    return [key for key in doc.spans if re.fullmatch(re.escape(prefix) + r"_\d+", key)]


def read_clusters(doc: Doc, prefix: str = PREFIX) -> Optional[list[Cluster]]:
    """Read the clusters of a Doc.

    RETURNS (Optional[List[List[Tuple[int, int]]]]): No empty clusters. The mentions of a cluster
        are sorted. None if the Doc has no such span group.
    RAISES (ValueError): A span has no tokens, or occurs twice.
    """
    keys = cluster_keys(doc, prefix)
    clusters: list[Cluster] = []
    place: dict[Mention, str] = {}
    for key in keys:
        clusters.append([])
        for span in checked_spans(doc, key, labeled=False):
            mention = (span.start, span.end)
            if mention in place:
                fault = f"occurs twice, first in doc.spans[{place[mention]!r}]. Remove one"
                raise span_error(span, key, fault)
            place[mention] = key
            clusters[-1].append(mention)
    return [sorted(cluster) for cluster in clusters if cluster] if keys else None


def write_clusters(doc: Doc, clusters: Clusters, prefix: str = PREFIX) -> None:
    """Write clusters to `doc.spans["coref_clusters_1"]` and so on. Delete old clusters."""
    for key in cluster_keys(doc, prefix):
        del doc.spans[key]
    for number, cluster in enumerate(clusters, 1):
        doc.spans[f"{prefix}_{number}"] = [Span(doc, start, end) for start, end in cluster]


def gold_clusters(example: Example, prefix: str = PREFIX) -> Optional[list[Cluster]]:
    """Return the gold clusters as token positions in the predicted Doc; None without annotation."""
    clusters = read_clusters(example.reference, prefix)
    return clusters and _align(clusters, to_predicted(example))


def predicted_clusters(example: Example, prefix: str = PREFIX) -> list[Cluster]:
    """Return the predicted clusters as token positions in the reference."""
    return _align(read_clusters(example.predicted, prefix) or [], to_reference(example))


def _align(clusters: list[Cluster], aligner: Aligner) -> list[Cluster]:
    """Convert the token positions in clusters to positions in another Doc of the same text.

    Drop mentions that begin or end inside a token of the other Doc. If two mentions become the same
    mention, because they differ only in whitespace, keep the first.
    """
    aligned: list[Cluster] = []
    seen: set[Mention] = set()
    for cluster in clusters:
        found = dict.fromkeys(filter(None, (aligner.span(*mention) for mention in cluster)))
        aligned.append([mention for mention in found if mention not in seen])
        seen.update(found)
    return [cluster for cluster in aligned if cluster]
