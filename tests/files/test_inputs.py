"""Input files: numbered lines, limits of their length, broken `.spacy` files, and checksums."""

import json
import shutil
import tracemalloc
import zlib

import numpy as np
import pytest
import spacy
import srsly
from spacy.tokens import DocBin

from spacy_elmo.analysis.corpora import read_annotated_docs
from spacy_elmo.analysis.sense_corpus import FirstSenses, read_sense_corpus
from spacy_elmo.cli.evaluate import read_gold_examples
from spacy_elmo.export import load_docs
from spacy_elmo.files import compression, input_files
from spacy_elmo.files.input_files import numbered_lines, read_text
from spacy_elmo.model.vocabulary import Vocabulary
from spacy_elmo.pretraining.config import read_config
from spacy_elmo.tasks.crf.hipe import read_hipe
from spacy_elmo.tasks.shared.task_files import parse_lines
from spacy_elmo.text.chunks import ChunkReader
from spacy_elmo.text.reading import read_sentences
from spacy_elmo.weights.archives import read_json
from spacy_elmo.weights.vocabulary_files import read_lines

from helpers.golden import WORDNET
from helpers.gzipped import gzipped

READERS = {
    "sentences": lambda path: list(read_sentences([path])),
    "tasks": lambda path: list(parse_lines(path, json.loads)),
    "senses": read_sense_corpus,
}


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
@pytest.mark.parametrize("end", ["", "\n"])
def test_lines_end_only_at_line_feeds(tmp_path, name, end):
    text = "\ufeffone\r\n\n tw\u2028o\rx\nthree" + end
    data = text.encode()
    (tmp_path / name).write_bytes(gzipped(data) if name.endswith("gz") else data)
    wanted = ["one\r\n", "\n", " tw\u2028o\rx\n", "three" + end]
    found = list(numbered_lines(tmp_path / name))
    assert found == [(i, line.encode()) for i, line in enumerate(wanted, 1)]


@pytest.mark.skipif(compression._zstd is None, reason="needs a module for Zstandard")
def test_a_cut_zstandard_file_is_refused_after_its_last_line(tmp_path):
    """A file may have several frames. Bytes that do not repeat make a file of several blocks."""
    rng = np.random.default_rng(0)
    lines = [b"%d\n" % number for number in rng.integers(0, 2**60, size=30_000)]
    packed = [compression._zstd.compress(b"".join(part)) for part in (lines[:9], lines[9:])]
    path = tmp_path / "a.txt.zst"
    path.write_bytes(b"".join(packed))
    assert [line for _, line in numbered_lines(path)] == lines
    assert [chunk.data for chunk in ChunkReader([path], 1 << 30, [False])] == [b"".join(lines)]
    path.write_bytes(b"".join(packed)[: -len(packed[1]) // 2])
    with pytest.raises(ValueError, match=r"a\.txt\.zst: broken \.zst file after line \d{4}"):
        list(numbered_lines(path))
    *_, last = ChunkReader([path], 1 << 30, [False])
    assert last.problem is not None
    assert "broken" in last.problem[1]
    assert b"".join(lines).startswith(last.data)
    assert len(last.data) > 1000


@pytest.mark.parametrize("length", [9, 10, 11, 50])
@pytest.mark.parametrize("end", [b"", b"\n", b"\nmore"])
def test_a_line_over_the_limit_is_refused(tmp_path, monkeypatch, length, end):
    monkeypatch.setattr(input_files, "MAX_LINE", 10)
    path = tmp_path / "a.txt"
    path.write_bytes(b"good\n" + b"x" * length + end)
    if length + bool(end) <= 10:
        assert len(list(numbered_lines(path))) == 2 + (end == b"\nmore")
        return
    with pytest.raises(ValueError, match="a.txt, line 2: a line of more than 10 bytes"):
        list(numbered_lines(path))


@pytest.mark.parametrize("reader", READERS)
def test_a_line_that_would_fill_the_memory_is_refused(tmp_path, reader):
    """A gigabyte of it takes a megabyte on the disk; the test has 100 MB."""
    name = "a.txt.gz" if reader == "sentences" else "a.jsonl.gz"
    part = gzipped(b'{"words": ["' + b"x" * 2**20)
    (tmp_path / name).write_bytes(part * 100)
    tracemalloc.start()
    with pytest.raises(ValueError, match="line 1: a line of more than 16,777,216 bytes"):
        READERS[reader](tmp_path / name)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 60e6


VOCAB = spacy.blank("de").vocab
XML = "<corpus><text><sentence/></text></corpus>"
# Name of a file, text in Latin-1 after its start, and its reader.
LATIN = [
    ("a.txt", "", lambda path: list(read_sentences([path]))),
    ("a.jsonl", "", lambda path: list(parse_lines(path, json.loads))),
    ("a.tsv", "TOKEN\tNE-COARSE-LIT\n", lambda path: list(read_hipe(path, VOCAB))),
    ("b.jsonl", "", read_sense_corpus),
    ("a.gold.key.txt", "", lambda path: read_sense_corpus(path.with_name("a.data.xml"))),
    ("index.adj", "", lambda path: FirstSenses(path.parent)),
    ("data.adj", "", lambda path: FirstSenses(path.parent)),
    ("a.cfg", "[nlp]\n", read_config),
    ("text.txt", "", read_text),
    ("vocab.txt", "<S>\n</S>\n<UNK>\n", Vocabulary.from_disk),
    ("char.dic", "", lambda path: read_lines(path, 9)),
    ("options.json", "", read_json),
]


@pytest.mark.parametrize(("name", "start", "read"), LATIN, ids=[name for name, _, _ in LATIN])
def test_text_in_latin_1_is_named_with_the_command_that_converts_it(tmp_path, name, start, read):
    shutil.copytree(WORDNET, tmp_path, dirs_exist_ok=True)
    (tmp_path / "a.data.xml").write_text(XML)
    (tmp_path / name).write_bytes(f"{start}lang = caf\xe9\n".encode("latin-1"))
    with pytest.raises(ValueError, match=rf"{name}.*: not UTF-8; if it is Latin-1, iconv") as error:
        read(tmp_path / name)
    assert "codec" not in str(error.value)


WHOLE = DocBin(docs=[spacy.blank("en")("A man eats.")], store_user_data=True).to_bytes()
LACKS_STRINGS = {**srsly.msgpack_loads(zlib.decompress(WHOLE)), "strings": []}
BROKEN = {"text": b"no DocBin", "half": WHOLE[: len(WHOLE) // 2], "zeros": WHOLE[:-20] + bytes(20)}
for kind, value in {"keys": {"attrs": [1]}, "list": [1], "strings": LACKS_STRINGS}.items():
    BROKEN[kind] = zlib.compress(srsly.msgpack_dumps(value))


@pytest.mark.parametrize("kind", BROKEN)
def test_broken_files_are_named(tmp_path, kind):
    path, nlp = tmp_path / "x.spacy", spacy.blank("en")
    path.write_bytes(BROKEN[kind])
    message = r"x\.spacy is (no|not a) \.spacy file, or (it is )?broken: ."
    for read in (
        lambda: list(read_annotated_docs(path, nlp.vocab)),
        lambda: list(load_docs(path, nlp.vocab)),
        lambda: read_gold_examples(nlp, path),
    ):
        with pytest.raises(ValueError, match=message):
            read()


# FIPS 180-4's examples, and RFC 1321's.
ABC = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
A_MILLION = "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"


@pytest.mark.parametrize("block", [1000, input_files.BLOCK])
def test_checksums_are_the_published_ones_of_sha256(tmp_path, monkeypatch, block):
    monkeypatch.setattr(input_files, "BLOCK", block)
    for content, expected in ((b"abc", ABC), (b"", EMPTY), (b"a" * 1_000_000, A_MILLION)):
        (tmp_path / "x").write_bytes(content)
        assert input_files.checksum(tmp_path / "x") == expected
