"""Broken files of spaCy's binary format are named by everything that reads them."""

import zlib

import pytest
import spacy
import srsly
from spacy.tokens import DocBin

from spacy_elmo.analysis.corpora import read_annotated_docs
from spacy_elmo.cli.evaluate import read_gold_examples
from spacy_elmo.export import load_docs

NLP = spacy.blank("en")
WHOLE = DocBin(docs=[NLP("A man eats.")], store_user_data=True).to_bytes()


@pytest.mark.parametrize(
    "content",
    [
        b"no DocBin",
        WHOLE[: len(WHOLE) // 2],
        WHOLE[:-20] + bytes(20),
        zlib.compress(srsly.msgpack_dumps({"attrs": [1]})),
        zlib.compress(srsly.msgpack_dumps([1])),
        # A string of a token is missing.
        zlib.compress(
            srsly.msgpack_dumps({**srsly.msgpack_loads(zlib.decompress(WHOLE)), "strings": []})
        ),
    ],
    ids=["text", "half", "zeros", "keys", "list", "strings"],
)
def test_broken_files_are_named(tmp_path, content):
    path = tmp_path / "x.spacy"
    path.write_bytes(content)
    for read in (
        lambda: list(read_annotated_docs(path, spacy.blank("en").vocab)),
        lambda: list(load_docs(path, spacy.blank("en").vocab)),
        lambda: read_gold_examples(spacy.blank("en"), path),
    ):
        with pytest.raises(
            ValueError, match=r"x\.spacy is (no|not a) \.spacy file, or (it is )?broken: ."
        ):
            read()
