"""Sentences with semantic roles from `.jsonl` files."""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Union

from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example
from spacy.vocab import Vocab

from ..registry import registry
from .bio import parse_bio
from .sentences import make_sentence, read_lines
from .srl_frames import Frames, write_frames

EXPECTED = '{"words": [...], "frames": [{"pred": 1, "tags": ["B-ARG0", "B-V", "O", ...]}, ...]}'


@registry.readers("spacy-elmo.SRLCorpus.v1")
def make_srl_corpus(path: Union[str, Path]) -> Callable[[Language], Iterator[Example]]:
    """Read examples for `elmo_srl` from a `.jsonl` file, which may be gzipped: a sentence a
    line, with `"words"` and `"frames"`, each with the token `"pred"` of its predicate and BIO
    `"tags"`, V among them. The Docs have the words of the file, and are one sentence each.

    path (Union[str, Path]): The file.
    RETURNS (Callable[[Language], Iterator[Example]]): The reader.
    """

    def read(nlp: Language) -> Iterator[Example]:
        for doc in read_srl(path, nlp.vocab):
            words = [token.text for token in doc]
            yield Example(make_sentence(nlp.vocab, words), doc)

    return read


def read_srl(path: Union[str, Path], vocab: Vocab) -> Iterator[Doc]:
    """Read Docs with `doc.spans["srl"]`.

    path (Union[str, Path]): A file as of `make_srl_corpus`.
    vocab (Vocab): The vocab.
    RETURNS (Iterator[Doc]): A sentence each.
    RAISES (ValueError): A line is not as it must be.
    """
    return read_lines(path, lambda line: make_doc(vocab, **_checked_line(line)))


def make_doc(vocab: Vocab, words: Sequence[str], frames: Sequence[dict[str, Any]]) -> Doc:
    """Make a Doc of one sentence.

    vocab (Vocab): The vocab.
    words (Sequence[str]): Its words.
    frames (Sequence[dict]): The predicates with their roles: `"pred"`, a token, and `"tags"`.
    RETURNS (Doc): The Doc, with `doc.spans["srl"]`.
    RAISES (ValueError): The tags are no BIO tags of the words, or a token has two frames.
    """
    doc = make_sentence(vocab, words)
    found: Frames = {}
    for frame in frames:
        predicate, tags = frame["pred"], frame["tags"]
        if type(predicate) is not int or not 0 <= predicate < len(words):
            raise ValueError(f'"pred" must be a token from 0 to {len(words) - 1}, got {predicate}')
        if len(tags) != len(words):
            raise ValueError(f"{len(words)} words, but {len(tags)} tags of token {predicate}")
        roles = parse_bio(tags)
        if found.setdefault(predicate, roles) != roles:
            raise ValueError(f"token {predicate} has two different frames")
    write_frames(doc, found)
    return doc


def _checked_line(line: str) -> dict[str, Any]:
    try:
        entry = json.loads(line)
        words, frames = entry["words"], entry["frames"]
        is_whole = all(isinstance(word, str) and word for word in words) and all(
            isinstance(tag, str) for frame in frames for tag in [*frame["tags"], str(frame["pred"])]
        )
    except (ValueError, TypeError, KeyError):
        is_whole = False
    if not is_whole:
        raise ValueError(f"expected {EXPECTED}, found {line.strip()[:80]}")
    return {"words": words, "frames": frames}
