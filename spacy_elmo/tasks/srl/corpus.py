"""Corpus reader for `elmo_srl`: sentences with semantic roles."""

from collections.abc import Sequence
from typing import Any

from spacy.language import Language
from spacy.tokens import Doc
from spacy.vocab import Vocab

from ...embedding.docs import make_sentence
from ...files import PathSetting
from ...files.schema import Integer, Schema, String, records
from ...registry import registry
from ..shared.bio import parse_bio
from ..shared.task_files import Reader, Words, gold_reader
from .frames import Frames, read_frames, with_predicate, write_frames

SRL_SCHEMA = Schema(
    {"words": Words, "frames": records({"pred": Integer, "tags": list[String]})},
    '{"words": [...], "frames": [{"pred": 1, "tags": ["B-ARG0", "B-V", "O", ...]}, ...]}',
)


@registry.readers("spacy-elmo.SRLCorpus.v1")
def make_srl_corpus(path: PathSetting) -> Reader:
    """Make a corpus reader for `elmo_srl`. The Docs have the tokens of the file.

    The file is one of:

    * `.jsonl`, also gzipped: one sentence per line, with `"words"` and `"frames"`. A frame has
      `"pred"`, the index of the predicate's token, and BIO `"tags"`.
    * `.spacy`: Docs with `doc.spans["srl"]`.

    path (Union[str, int, Path]): The file.
    """

    def make(nlp: Language, entry: dict[str, Any]) -> Doc:
        return make_doc(nlp.vocab, entry["words"], entry["frames"])

    return gold_reader(path, SRL_SCHEMA, make, read_frames)


def make_doc(vocab: Vocab, words: Sequence[str], frames: Sequence[dict[str, Any]]) -> Doc:
    """Make a Doc of one sentence with semantic roles, in `doc.spans["srl"]`.

    If a frame (a predicate with its roles) has no V, which is the predicate itself, V is added.

    frames (Sequence[dict]): `"pred"`, the index of the predicate's token, and BIO `"tags"`.
    RAISES (ValueError): The tags are not BIO tags of the words, V is not at the predicate, or a
        token has two different frames.
    """
    doc = make_sentence(vocab, words)
    n = len(words)
    found: Frames = {}
    for frame in frames:
        predicate, tags = frame["pred"], frame["tags"]
        if type(predicate) is not int or predicate not in range(n):
            raise ValueError(f'"pred" must be a token from 0 to {n - 1}, got {predicate!r}')
        if len(tags) != n:
            raise ValueError(f"{n} words, but {len(tags)} tags of token {predicate}")
        roles = with_predicate(predicate, parse_bio(tags))
        for token, tag in enumerate(tags):
            right = tag in ("B-V", "O") if token == predicate else tag != "B-V"
            if not right:
                raise ValueError(
                    f'token {token} has the tag {tag}, but V must begin at "pred", token '
                    f"{predicate}. Use C-V for other parts of the predicate"
                )
        if found.setdefault(predicate, roles) != roles:
            raise ValueError(f"token {predicate} has two different frames")
    write_frames(doc, found)
    return doc
