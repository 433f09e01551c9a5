"""Corpus reader for `elmo_coref`: documents with clusters of mentions."""

from collections.abc import Sequence
from functools import partial
from typing import Any, Optional

from spacy.language import Language
from spacy.tokens import Doc
from spacy.vocab import Vocab
from typing_extensions import NotRequired

from ...files import PathSetting
from ...files.schema import Integer, Schema
from ...registry import registry
from ..shared.task_files import Reader, Words, gold_reader
from .clusters import PREFIX, read_clusters, write_clusters
from .spans import Clusters

COREF_SCHEMA = Schema(
    {
        "words": Words,
        "clusters": list[list[tuple[Integer, Integer]]],
        "sentence_starts": NotRequired[Optional[list[Integer]]],
    },
    '{"words": [...], "sentence_starts": [0, 9, ...], "clusters": [[[0, 1], [4, 6]], ...]}',
)


@registry.readers("spacy-elmo.CorefCorpus.v1")
def make_coref_corpus(path: PathSetting, span_cluster_prefix: str = PREFIX) -> Reader:
    """Make a corpus reader for `elmo_coref`. The Docs have the tokens and sentences of the file.

    The file is one of:

    * `.jsonl`, also gzipped: one document per line with `"words"`, `"clusters"` and, if known,
      `"sentence_starts"`, the first token of each sentence. A cluster is a list of mentions
      `[start, end]`. Tokens count from 0, and `end` is after the last token.
    * `.spacy`: Docs with `doc.spans["coref_clusters_1"]` and so on.

    path (Union[str, int, Path]): The file.
    span_cluster_prefix (str): Prefix of the keys of `doc.spans`.
    """

    def make(nlp: Language, entry: dict[str, Any]) -> Doc:
        starts = entry.get("sentence_starts")
        return make_doc(nlp.vocab, entry["words"], entry["clusters"], starts, span_cluster_prefix)

    return gold_reader(path, COREF_SCHEMA, make, partial(read_clusters, prefix=span_cluster_prefix))


def make_doc(
    vocab: Vocab,
    words: Sequence[str],
    clusters: Clusters,
    sentence_starts: Optional[Sequence[int]] = None,
    prefix: str = PREFIX,
) -> Doc:
    """Make a Doc with clusters.

    clusters (Sequence[List[Tuple[int, int]]]): A mention is its first token and the token after its
        last one.
    sentence_starts (Optional[Sequence[int]]): First token of each sentence. Default: unknown.
    RETURNS (Doc): It has `doc.spans["coref_clusters_1"]` and so on. If `clusters` is empty, the Doc
        has one empty group, so that it counts as annotated.
    RAISES (ValueError): A mention or the start of a sentence is outside the words, or a mention
        occurs twice.
    """
    n = len(words)
    for start in sentence_starts or ():
        if not 0 <= start < n:
            raise ValueError(f'"sentence_starts" must be from 0 to {n - 1}, got {start}')
    for start, end in (mention for cluster in clusters for mention in cluster):
        if not 0 <= start < end <= n:
            raise ValueError(f"[{start}, {end}] is not a mention: expected 0 <= start < end <= {n}")
    starts = None if sentence_starts is None else {0, *sentence_starts}
    doc = Doc(vocab, words=list(words), sent_starts=starts and [i in starts for i in range(n)])
    write_clusters(doc, clusters or [[]], prefix)
    read_clusters(doc, prefix)
    return doc
