"""Each entry of an output has its file and line, so that vectors can be traced to their text."""

import os
import shutil
from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import spacy
from spacy.tokens import Doc, DocBin

from spacy_elmo.export import load_docs

from helpers.embedded import embed_corpus
from helpers.gzipped import gzipped

pytestmark = pytest.mark.corpora

LETTER = "Dear Maria.\nIt rains. We\nsat on the\nbank! Yours\n\n\nA line later\n"
# Names of inputs, their content, settings, and the line of each entry.
INPUTS = [
    ("x.txt", "a b\n\nc\n", {}, [1, 2, 3]),
    ("x.txt", LETTER, {"format": "text"}, [1, 2, 2, 4, 7]),
    ("x.jsonl", '{"tokens": ["a"]}\n\n{"text": "b c"}\n', {}, [1, 3]),
    ("x.tsv", "id\ttext\n7\ta b\n8\t\n", {"column": "text"}, [2, 3]),
    ("x.conll", "-DOCSTART- O\n\n# sent_id = 1\na O\nb O\n\nc O\n", {}, [4, 7]),
    ("x.conllu", f"# text = a\n\n# b\n1\ta{8 * chr(9)}\n\n2\tb{8 * chr(9)}\n", {}, [4, 6]),
]


def sources_in(path):
    """Return the file and the line of each entry, read with the library of the output's format."""
    if path.suffix == ".hdf5":
        with h5py.File(path) as file:
            attributes = [file[name].attrs for name in sorted(filter(str.isdecimal, file), key=int)]
            return [(about["file"], about["line"]) for about in attributes]
    if path.suffix == ".npz":
        with np.load(path) as file:
            return list(zip(file["files"][file["file"]].tolist(), file["line"].tolist()))
    if path.suffix == ".parquet":
        table = pq.read_table(path)
        return list(zip(table["file"].to_pylist(), table["line"].to_pylist()))
    docs = load_docs(path, spacy.blank("xx").vocab)
    return [tuple(doc.user_data["elmo_source"].values()) for doc in docs]


@pytest.mark.parametrize(("name", "text", "settings", "lines"), INPUTS)
def test_entries_have_the_lines_of_every_kind_of_input(
    folder, tiny_weights, name, text, settings, lines
):
    """A compressed file is read in two shards that are joined."""
    Path(name).write_text(text)
    Path(f"{name}.gz").write_bytes(gzipped(text.encode()))
    embed_corpus(str(tiny_weights), [name, f"{name}.gz"], folder / "out.parquet", **settings)
    expected = [(file, line) for file in (name, f"{name}.gz") for line in lines]
    assert sources_in(folder / "out.parquet") == expected


@pytest.mark.parametrize("output", ["out.hdf5", "out.npz", "out.parquet", "out.spacy"])
def test_every_output_has_files_and_lines(folder, tiny_weights, output):
    """The rows of tables and the Docs of `.spacy` files are counted from 1."""
    Path("letters").mkdir()
    Path("letters/a.txt").write_text("a b\nc\n")
    vocab = spacy.blank("en").vocab
    DocBin(docs=[Doc(vocab, ["a"]), Doc(vocab, ["b"])]).to_disk("b.spacy")
    pq.write_table(pa.table({"tokens": [["a"], ["b"], ["c"]]}), "c.parquet", row_group_size=2)
    embed_corpus(str(tiny_weights), ["letters", "b.spacy", "c.parquet"], folder / output)
    expected = [("letters/a.txt", 1), ("letters/a.txt", 2), ("b.spacy", 1), ("b.spacy", 2)]
    expected += [("c.parquet", 1), ("c.parquet", 2), ("c.parquet", 3)]
    assert sources_in(folder / output) == expected


def test_sentences_as_keys_have_their_lines(folder, tiny_weights):
    embed_corpus(str(tiny_weights), "text.txt", folder / "out.npz", texts="none")
    assert sources_in(folder / "out.npz")[3] == ("text.txt", 4)
    Path("x.txt").write_text("a b\nc\na b\n")
    embed_corpus(str(tiny_weights), "x.txt", folder / "out.hdf5", texts="keys")
    with h5py.File("out.hdf5") as file:
        assert {name: dataset.attrs["line"] for name, dataset in file.items()} == {"a b": 1, "c": 2}


def test_shards_name_a_moved_input_as_the_first_call_did(shard, folder):
    shard(worker="1/2", shards=2)
    Path("elsewhere").mkdir()
    shutil.move("text.txt", "elsewhere")
    shard("elsewhere/text.txt", worker="2/2", shards=2)
    found = [sources_in(path) for path in sorted(folder.glob("out/part-*"))]
    assert len(found) == 2
    assert [*found[0], *found[1]] == [("text.txt", line) for line in range(1, 151)]


def test_a_name_that_is_not_utf8_is_replaced(folder, tiny_weights):
    Path(os.fsdecode(b"\xff.txt")).write_text("a\n")
    for output in ("out.hdf5", "out.npz", "out.parquet", "out.spacy"):
        embed_corpus(str(tiny_weights), os.fsdecode(b"\xff.txt"), folder / output)
        assert sources_in(folder / output) == [("\ufffd.txt", 1)]
