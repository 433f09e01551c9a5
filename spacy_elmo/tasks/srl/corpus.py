"""Sentences with semantic roles from `.jsonl` files."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Union

from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example
from spacy.vocab import Vocab

from ...files.schema import Integer, Schema, String, records
from ...registry import registry
from ..shared.bio import parse_bio
from ..shared.task_files import Words, copy_tokens, make_sentence, read_docs
from .frames import PREDICATE, Frames, read_frames, with_predicate, write_frames

SCHEMA = Schema(
    {"words": Words, "frames": records({"pred": Integer, "tags": list[String]})},
    '{"words": [...], "frames": [{"pred": 1, "tags": ["B-ARG0", "B-V", "O", ...]}, ...]}',
)


@registry.readers("spacy-elmo.SRLCorpus.v1")
def make_srl_corpus(path: Union[str, Path]) -> Callable[[Language], Iterator[Example]]:
    """Read examples for `elmo_srl`, which have the tokens of the file: from a `.jsonl` file, which
    may be gzipped, a sentence a line, with `"words"` and `"frames"`, each with the token
    `"pred"` of its predicate and BIO `"tags"`; or from a `.spacy` file of Docs with
    `doc.spans["srl"]`.

    path (Union[str, Path]): The file.
    RETURNS (Callable[[Language], Iterator[Example]]): The reader.
    """

    def read(nlp: Language) -> Iterator[Example]:
        for doc in read_srl(path, nlp.vocab):
            yield Example(copy_tokens(doc), doc)

    return read


def read_srl(path: Union[str, Path], vocab: Vocab) -> Iterator[Doc]:
    """Read Docs with `doc.spans["srl"]`.

    path (Union[str, Path]): A file as of `make_srl_corpus`.
    vocab (Vocab): The vocab.
    YIELDS (Doc): A sentence; of a `.spacy` file what stands there.
    RAISES (ValueError): A line is not as it must be.
    """

    def make(line: str) -> Doc:
        entry = SCHEMA.parse(line)
        return make_doc(vocab, entry["words"], entry["frames"])

    return read_docs(path, vocab, make, read_frames)


def make_doc(vocab: Vocab, words: Sequence[str], frames: Sequence[dict[str, Any]]) -> Doc:
    """Make a Doc of one sentence. A predicate without a tag V has it added.

    vocab (Vocab): The vocab.
    words (Sequence[str]): Its words.
    frames (Sequence[dict]): The predicates with their roles: `"pred"`, a token, and `"tags"`.
    RETURNS (Doc): The Doc, with `doc.spans["srl"]`.
    RAISES (ValueError): The tags are no BIO tags of the words, V is not at the predicate, or a
        token has two frames.
    """
    doc = make_sentence(vocab, words)
    found: Frames = {}
    for frame in frames:
        predicate, tags = frame["pred"], frame["tags"]
        if type(predicate) is not int or not 0 <= predicate < len(words):
            raise ValueError(
                f'"pred" must be a token from 0 to {len(words) - 1}, got {predicate!r}'
            )
        if len(tags) != len(words):
            raise ValueError(f"{len(words)} words, but {len(tags)} tags of token {predicate}")
        roles = parse_bio(tags)
        _check_predicate(predicate, tags)
        roles = with_predicate(predicate, roles)
        if found.setdefault(predicate, roles) != roles:
            raise ValueError(f"token {predicate} has two different frames")
    write_frames(doc, found)
    return doc


def _check_predicate(predicate: int, tags: Sequence[str]) -> None:
    for token, tag in enumerate(tags):
        if tag == f"B-{PREDICATE}" and token != predicate:
            raise ValueError(
                f'token {token} has the tag B-V, but "pred" is {predicate}: V begins there, and a '
                f"part of the predicate that stands apart is C-V"
            )
    if tags[predicate] not in (f"B-{PREDICATE}", "O"):
        raise ValueError(f'token {predicate} is "pred", and must be B-V, got {tags[predicate]!r}')
