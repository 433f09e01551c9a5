"""Documents with clusters of mentions, from `.jsonl` and `.spacy` files."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Optional, Union

from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example
from spacy.vocab import Vocab
from typing_extensions import NotRequired

from ...files.schema import Integer, Schema
from ...registry import registry
from ..shared.task_files import Words, copy_tokens, read_docs
from .clusters import PREFIX, read_clusters, write_clusters
from .spans import Cluster

SCHEMA = Schema(
    {
        "words": Words,
        "clusters": list[list[tuple[Integer, Integer]]],
        "sentence_starts": NotRequired[Optional[list[Integer]]],
    },
    '{"words": [...], "sentence_starts": [0, 9, ...], "clusters": [[[0, 1], [4, 6]], ...]}',
)


@registry.readers("spacy-elmo.CorefCorpus.v1")
def make_coref_corpus(
    path: Union[str, Path], span_cluster_prefix: str = PREFIX
) -> Callable[[Language], Iterator[Example]]:
    """Read examples for `elmo_coref`, whose predicted Docs have the words and the sentences of
    the file: from a `.jsonl` file, which may be gzipped, a document a line with `"words"`,
    `"clusters"`, each a list of mentions `[start, end]`, tokens from 0 with the end after the
    last one, and, if the sentences are known, the first token of each as
    `"sentence_starts"`; or from a `.spacy` file of Docs with `doc.spans["coref_clusters_1"]` and
    so on.

    path (Union[str, Path]): The file.
    span_cluster_prefix (str): What the keys of `doc.spans` begin with, which the clusters of a
        `.jsonl` file get.
    RETURNS (Callable[[Language], Iterator[Example]]): The reader.
    """

    def read(nlp: Language) -> Iterator[Example]:
        for doc in read_coref(path, nlp.vocab, span_cluster_prefix):
            yield Example(copy_tokens(doc), doc)

    return read


def read_coref(path: Union[str, Path], vocab: Vocab, prefix: str = PREFIX) -> Iterator[Doc]:
    """Read Docs with clusters.

    path (Union[str, Path]): A file as of `make_coref_corpus`.
    vocab (Vocab): The vocab.
    prefix (str): What the keys of `doc.spans` begin with.
    YIELDS (Doc): A document.
    RAISES (ValueError): A line is not as it must be.
    """

    def make(line: str) -> Doc:
        entry = SCHEMA.parse(line)
        starts = entry.get("sentence_starts")
        return make_doc(vocab, entry["words"], entry["clusters"], starts, prefix)

    return read_docs(path, vocab, make, partial(read_clusters, prefix=prefix))


def make_doc(
    vocab: Vocab,
    words: Sequence[str],
    clusters: Sequence[Cluster],
    sentence_starts: Optional[Sequence[int]] = None,
    prefix: str = PREFIX,
) -> Doc:
    """Make a Doc with clusters.

    vocab (Vocab): The vocab.
    words (Sequence[str]): Its words.
    clusters (Sequence[List[Tuple[int, int]]]): The clusters, of mentions each: the first token
        and the token after the last one.
    sentence_starts (Optional[Sequence[int]]): The first token of each sentence; by default
        the sentences are not known.
    prefix (str): What the keys of `doc.spans` begin with.
    RETURNS (Doc): The Doc, with `doc.spans["coref_clusters_1"]` and so on; that is empty where
        there are no clusters.
    RAISES (ValueError): A mention or the start of a sentence is not within the words, or a
        mention stands twice.
    """
    n = len(words)
    for start in sentence_starts or ():
        if not 0 <= start < n:
            raise ValueError(f'"sentence_starts" must be from 0 to {n - 1}, got {start}')
    for start, end in (mention for cluster in clusters for mention in cluster):
        if not 0 <= start < end <= n:
            raise ValueError(f"[{start}, {end}] is no mention: expected 0 <= start < end <= {n}")
    starts = None if sentence_starts is None else {0, *sentence_starts}
    doc = Doc(
        vocab, words=list(words), sent_starts=starts and [i in starts for i in range(len(words))]
    )
    write_clusters(doc, clusters or [[]], prefix)
    read_clusters(doc, prefix)
    return doc
