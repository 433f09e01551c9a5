"""Shards of `embed`, made by any process: together they are the rows of one run, in order."""

import multiprocessing
import shutil
from pathlib import Path
from unittest.mock import Mock

import fsspec
import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import spacy

import spacy_elmo.export.plan as planning
import spacy_elmo.export.sharding as sharding
from spacy_elmo.export import ExportSettings, load_docs
from spacy_elmo.export.pieces import InputPiece
from spacy_elmo.export.plan import make_plan

from helpers.embedded import embed_corpus
from helpers.forked import HAS_FORKS
from helpers.gzipped import gzipped
from helpers.killed_worker import killed_at_tenth
from helpers.prepared import content
from helpers.written_vectors import CONLLU, TEXT, assert_same, vectors_of

N_LINES = 150  # of `text.txt`


def shards_of(folder):
    return sorted(Path(folder).glob("part-*"))


def table_of(folder):
    return pa.concat_tables(pq.read_table(path) for path in shards_of(folder))


@pytest.fixture
def expected(folder, tiny_weights):
    """Return a function that returns the tokens and vectors of one run."""

    def run(inputs, **settings):
        path = folder / "whole.parquet"
        embed_corpus(str(tiny_weights), inputs, path, batch_tokens=100, force=True, **settings)
        return pq.read_table(path)

    return run


def assert_same_rows(found, wanted, numbered=True):
    assert found["text"].to_pylist() == wanted["text"].to_pylist()
    assert not numbered or found["index"].to_pylist() == list(range(len(wanted)))
    assert_same(found, wanted)


@pytest.mark.corpora
def test_shards_contain_the_vectors_of_one_run(shard, expected):
    counts = shard()
    wanted = expected("text.txt")
    assert (counts.entries, counts.tokens) == (N_LINES, sum(map(len, wanted["tokens"].to_pylist())))
    sizes = [len(pq.read_table(path)) for path in shards_of("out")]
    assert len(sizes) == 7 and max(sizes) < 2 * min(sizes)
    assert_same_rows(pq.read_table("out"), wanted)  # as others read a folder
    before = content(Path("out"))
    assert shard() == type(counts)(0, 0)  # all are there
    assert content(Path("out")) == before


@pytest.mark.corpora
def test_running_text_is_cut_at_paragraphs(shard, folder, expected, monkeypatch):
    paragraph = TEXT.replace(" . ", " .\n") + "\n"
    (folder / "x.txt").write_text("\n".join([paragraph] * 30))
    wanted = expected("x.txt", format="text")
    shard("x.txt", format="text")
    assert len(shards_of("out")) == 7
    assert_same_rows(table_of("out"), wanted, numbered=False)
    (folder / "y.txt").write_text(paragraph * 30)  # no empty line
    for name, most, n_shards in (("one", planning.MAX_UNCUT, 1), ("several", 200, 7)):
        monkeypatch.setattr(planning, "MAX_UNCUT", most)
        shard("y.txt", name, format="text")
        assert len(shards_of(name)) == n_shards


@pytest.mark.corpora
def test_several_inputs_are_sharded(shard, folder, inputs, expected):
    """Some files are cut, others are not, and a shard may begin with blank lines."""
    (folder / "blank.txt").write_text("\n" * 200 + "The end\n")
    given = ["text.txt.gz", "blank.txt", "text.txt", "x.jsonl"]
    wanted = expected(given)
    shard(given, shards=20)
    assert 10 < len(shards_of("out")) <= 20
    assert_same_rows(table_of("out"), wanted)
    assert vectors_of(table_of("out"))[N_LINES + 200].shape == (2, 12)


@pytest.mark.corpora
def test_docs_are_sharded(shard, folder, inputs):
    """The shards are Docs with vectors. A shard without a sentence is written, too."""
    shard("x.spacy", "docs", output_format="spacy")
    (folder / "y.conllu").write_text("# a\n\n# b\n\n" + CONLLU)
    shard("y.conllu", shards=40)
    tables = [pq.read_table(path) for path in shards_of("out")]
    assert 0 in map(len, tables)
    assert all(table.schema.equals(tables[0].schema) for table in tables)
    assert table_of("out")["text"].to_pylist() == ["de le", "Fin ."]
    docs = list(load_docs("docs", spacy.blank("en").vocab))
    assert [doc.text for doc in docs] == [TEXT, "", "Maria lends money"]
    assert docs[0][0].vector.shape == (12,)


@pytest.mark.corpora
@pytest.mark.parametrize("format", ["hdf5", "npz"])
def test_entries_of_other_formats_are_numbered_across_shards(shard, expected, format):
    wanted = vectors_of(expected("text.txt"))
    shard(output=f"out.{format}")
    found = {}
    for path in shards_of(f"out.{format}"):
        assert path.suffix == f".{format}"
        with h5py.File(path) if format == "hdf5" else np.load(path) as file:
            arrays = {name: file[name][()] for name in filter(str.isdecimal, file)}
            assert found.keys().isdisjoint(arrays)
            found.update(arrays)
    for i, vectors in enumerate(wanted):
        np.testing.assert_allclose(found[str(i)], vectors, rtol=0, atol=2e-5)


@pytest.mark.corpora
@pytest.mark.parametrize("column", ["text", "tokens"])
def test_parquet_inputs_are_sharded(shard, expected, column):
    texts = ["The cat sat .", None, "One more", ""] * 5
    words = [None if text is None else text.split() for text in texts]
    cells = texts if column == "text" else words
    payload = [np.random.default_rng(i).bytes(1000) for i in range(20)]
    Path("in").mkdir()
    table = pa.table({"payload": payload, column: cells})
    pq.write_table(table, "in/x.parquet", row_group_size=3)
    shard("in/*.parquet", shards=4)
    assert len(shards_of("out")) == 3  # what stands at a file's end counts, too
    table = table_of("out")
    assert table["tokens"].to_pylist() == [cell or [] for cell in words]
    assert_same_rows(table, expected("in/*.parquet"))


@pytest.mark.corpora
def test_a_null_in_parquet_is_named_by_its_row(shard, expected):
    words = [["a"]] * 13 + [["a", None]] + [["a"]] * 6
    pq.write_table(pa.table({"tokens": words}), "x.parquet", row_group_size=3)
    for run in (expected, shard):
        with pytest.raises(ValueError, match=r"x.parquet: .*row 13 .*'tokens' .*with a null"):
            run("*.parquet")


@pytest.fixture
def memory():
    file_system = fsspec.filesystem("memory")
    yield file_system
    file_system.store.clear()


@pytest.mark.corpora
def test_inputs_at_urls_are_sharded(shard, folder, expected, memory):
    lines = (folder / "text.txt").read_bytes()
    memory.pipe({"/in/a.txt": lines, "/in/b.txt.gz": gzipped(lines), "/in/c.csv": b"no"})
    memory.pipe({"/in/._a.txt": b"no\n", "/in/.ipynb_checkpoints/a.txt": b"no\n"})
    shard("memory://in", "a")
    shard(["memory://in/*a.txt", "memory://in/b*.gz"], "b")
    with pytest.raises(ValueError, match=r"no \.txt.* file at 'memory://nowhere'"):
        shard("memory://nowhere", "c")
    with pytest.raises(ValueError, match=r"memory://.*csv: its suffix names no"):
        shard("memory://in/c.csv", "c")
    shutil.copy("text.txt", "copy.txt")
    wanted = expected(["text.txt", "copy.txt"])
    assert_same_rows(table_of("a"), wanted)
    assert_same_rows(table_of("b"), wanted)
    of_urls = expected("memory://in")
    assert {*of_urls["file"].to_pylist()} == {"memory:///in/a.txt", "memory:///in/b.txt.gz"}
    assert of_urls.drop_columns("file").equals(wanted.drop_columns("file"))
    shard((folder / "text.txt").as_uri(), "d")
    assert_same_rows(table_of("d"), expected("text.txt"))


@pytest.mark.corpora
def test_workers_of_an_array_of_jobs_share_the_shards(shard, expected):
    """Two begin together. The last one comes after output and input were moved."""
    shard(worker="2/3")
    assert [path.name[:10] for path in shards_of("out")] == ["part-00001", "part-00004"]
    shard(worker="1/3")
    shutil.move("out", "moved")
    Path("elsewhere").mkdir()
    shutil.move("text.txt", "elsewhere/text.txt")
    shard("elsewhere", "moved", worker="3/3")
    assert_same_rows(table_of("moved"), expected("elsewhere"))


# The changed settings of a run, and what the error says.
CHANGES = [
    ({"layers": "average"}, "layers is 'average', but was 'top'"),
    ({"shards": 8}, "shards is 8, but was 7"),
    ({"output_format": "hdf5"}, "output_format is 'hdf5', but was 'parquet'"),
    ({"pool": "doc"}, "pool is 'doc', but was None"),
    ({"inputs": "other.txt"}, "other input: other.txt of 6 bytes, not text.txt of"),
    ({"inputs": ["text.txt", "other.txt"]}, "other input: other.txt of 6 bytes, not nothing"),
    ({"worker": "8/7"}, "`worker` must be K/N"),
    ({"shards": 0}, "`shards` must be 1 or more, got 0"),
    ({"workers": 0}, "`workers` must be 1 or more, or .ray., got 0"),
    ({"workers": "rya"}, "`workers` must be 1 or more, or .ray., got rya"),
    ({"gpus_per_worker": 1}, "`gpus_per_worker` needs `workers=ray`"),
    ({"output": "text.txt"}, "text.txt is an input and the output"),
    ({"output": "."}, "contains"),
]


@pytest.mark.corpora
def test_other_settings_are_refused(shard, folder):
    (folder / "other.txt").write_text("other\n")
    shard(worker="1/7")
    before = content(folder)
    for settings, message in CHANGES:
        with pytest.raises(ValueError, match=message):
            shard(**settings)
        assert content(folder) == before


@pytest.mark.corpora
def test_force_begins_again(shard):
    """No other file is deleted, and none at all with `resume` or while other workers run."""
    shard(output="other", layers="average")
    shard(shards=3)
    Path("out/_manifest.json").write_text("{")
    with pytest.raises(ValueError, match="cannot be used.*`force=True`"):
        shard(layers="average")
    shard(layers="average", force=True)
    assert content(Path("out")) == content(Path("other"))
    assert shard(layers="average", force=True, resume=True).entries == 0
    with pytest.raises(ValueError, match="`force` would delete the shards of other workers"):
        shard(worker="1/7", force=True)
    shard(output="docs", output_format="spacy")
    Path("no shards").mkdir()
    foreign = ["out/part-00000", "out/notes.txt", "docs/part-00000-of-00007.spacy/notes.txt"]
    foreign += ["out/part-00000-of-00002.parquet.bak.old", "out/part-00007-of-00009.jpg"]
    foreign += ["out/part-00007-of-00007.parquet", "out/part-000001-of-00007.parquet"]
    foreign += ["out/part-00001-of-00008.parquet", "out/_part-00000-of-00007.parquet"]
    foreign += ["docs/part-00000-of-00007.spacy/00000000.spacy.bak/notes.txt"]
    for file in (*foreign, "no shards/part-00000-of-00007.parquet"):
        name = file.partition("/")[0]
        Path(file).parent.mkdir(exist_ok=True)
        Path(file).write_text("mine")
        before = content(Path(name))
        with pytest.raises(ValueError, match=f"{name} contains"):
            shard(output=name, force=True)
        assert content(Path(name)) == before
        Path(file).unlink()


@pytest.mark.corpora
def test_a_changed_input_is_named_after_the_other_shards(shard, folder, expected):
    """Once the file is repaired, the remaining shards are made."""
    other = shutil.copy("text.txt", folder / "other.txt")
    given = ["text.txt", "other.txt"]
    wanted = expected(given)
    shard(given, worker="1/7")
    text = other.read_bytes()
    other.write_bytes(text[:-20] + b"\xff" + text[-19:])
    with pytest.raises(ValueError, match=r"1 of 7 shards .*\npart-00006.*other\.txt has changed"):
        shard(given)
    assert len(shards_of("out")) == 6
    other.write_bytes(text)
    shard(given)
    assert_same_rows(table_of("out"), wanted)


@pytest.mark.corpora
def test_a_changed_input_of_a_finished_shard_is_named(shard, folder):
    """The size stays the same."""
    shard()
    text = (folder / "text.txt").read_bytes()
    (folder / "text.txt").write_bytes(b"X" + text[1:])
    with pytest.raises(ValueError, match=r"1 of 7 shards .*\npart-00000.*text\.txt has changed"):
        shard(resume=True)
    shard(worker="2/7")  # It reads another part.


@pytest.mark.corpora
def test_old_shards_stay_if_the_input_cannot_be_read(shard, folder):
    shard()
    before = content(Path("out"))
    (folder / "bad.txt").write_text("no text".encode("utf-16").decode("latin-1"), "latin-1")
    (folder / "blank.tsv").write_text("text\n")
    (folder / "latin.txt").write_text("The end\n" * 99 + "caf\xe9\n", "latin-1")
    (folder / "latin.tsv").write_text("text\nThe end\ncaf\xe9\n", "latin-1")
    (folder / "bad.jsonl").write_text('{"tokens": ["The", "end"]}\n\n{"tokens": "The end"}\n')
    (folder / "short.tsv").write_text("id\ttext\n1\tThe end\n2\n")
    (folder / "short.conll").write_text("The\tDET\nend\n\n")
    (folder / "words.conllu").write_text("1\tThe\n\n")
    (folder / "long.txt").write_text("end\n" + "The " * 99 + "end\n")
    (folder / "broken.spacy").write_bytes(b"no Docs")
    pq.write_table(pa.table({"body": ["The end"]}), folder / "named.parquet")
    pq.write_table(pa.table({"tokens": [1]}), folder / "typed.parquet")
    for inputs, message in {
        "bad.txt": "UTF-16",
        "blank.tsv": "no sentence",
        "latin.txt": "line 100: not UTF-8",
        "latin.tsv": "line 3: not UTF-8",
        "bad.jsonl": "line 3: no 'tokens'",
        "short.tsv": "line 3: no column 2",
        "short.conll": "line 2: .*column",
        "words.conllu": "line 1: not CoNLL-U",
        "long.txt": "100 tokens",
        "broken.spacy": "not a .spacy file",
        "named.parquet": "no column 'tokens' or 'text', but body",
        "typed.parquet": "row 0 .*must contain lists of strings",
    }.items():
        column = {".tsv": "text", ".conll": "2"}.get(Path(inputs).suffix)
        with pytest.raises(ValueError, match=message):
            shard(inputs, column=column, max_tokens=99, force=True)
        assert content(Path("out")) == before


@pytest.mark.corpora
def test_a_line_that_cannot_be_read_is_named(shard, folder):
    (folder / "text.txt").write_bytes(b"The end\n" * 99 + b"\xff\n" + b"The end\n" * 50)
    with pytest.raises(ValueError, match=r"1 of 7 .*\npart-.*: text\.txt, line 100: not UTF-8"):
        shard()
    assert len(shards_of("out")) == 6
    assert not list(Path("out").glob("*.spacy-elmo-*"))


def test_an_input_that_disappears_is_named(folder):
    """The file is deleted after it was planned."""
    Path("x.txt").write_text("The end\n")
    [[piece]] = make_plan([InputPiece("x.txt")], 3, ExportSettings())
    assert (piece.input, piece.stop, piece.entries, piece.read_bytes()) == (0, 8, 1, b"The end\n")
    Path("x.txt").unlink()
    with pytest.raises(ValueError, match=r"x\.txt cannot be read: .*No such file"):
        piece.open()


@pytest.mark.corpora
@pytest.mark.processes
def test_local_workers_write_the_bytes_of_one_process(shard, monkeypatch):
    """A killed worker ends the run, which can be resumed."""
    shard(output="one")
    shard(workers=2)
    assert content(Path("out")) == content(Path("one"))
    with monkeypatch.context() as patched:
        if HAS_FORKS:  # new processes would import PyTorch again
            fork = multiprocessing.get_context("fork")
            patched.setattr(multiprocessing, "get_context", lambda method: fork)
        shard(output="one.npz", shards=None)
        shard(output="two.npz", shards=None, workers=2)
        assert Path("one.npz").read_bytes() == Path("two.npz").read_bytes()
        patched.setattr(sharding, "_make_shard", killed_at_tenth)
        with pytest.raises(ChildProcessError, match="a worker process was killed"):
            shard(output="two", workers=2)
    assert 0 < len(shards_of("two")) < 7
    shard(output="two")
    assert content(Path("two")) == content(Path("one"))


@pytest.mark.corpora
@pytest.mark.parametrize("protocol", ["memory", "s3"])
def test_an_output_can_be_a_url(shard, memory, monkeypatch, protocol):
    """A run that was stopped within a shard is resumed. Objects are written under their own
    names."""
    if protocol == "s3":
        monkeypatch.setattr(type(memory), "protocol", ("s3", "s3a"))
        monkeypatch.setattr(memory, "mv", None)
    shard()
    expected = content(Path("out"))
    shard(output="memory://out", worker="2/7")
    for shard_name in ("part-00001", "part-00002"):
        memory.pipe(f"/out/.{shard_name}-of-00007.parquet.spacy-elmo-0123456789abcdef", b"")
    with monkeypatch.context() as patched:
        patched.setattr(sharding.OUTPUTS["parquet"], "write", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            shard(output="memory://out", worker="3/7")
    with pytest.raises(ValueError, match=r"memory://out was started with other settings: layers"):
        shard(output="memory://out", layers="average")
    assert shard(output="memory://out", inputs=["text.txt"]).entries < N_LINES
    found = {name.rsplit("/")[-1]: memory.cat(name) for name in memory.ls("/out", detail=False)}
    assert found == expected
    (name,) = memory.glob("/out/part-00001*")
    memory.pipe(name, memory.cat(name)[:-1])
    with pytest.raises(ValueError, match=r"1 of 7 .*\npart-00001.* bytes, not .*Delete this"):
        shard(output="memory://out")


@pytest.mark.corpora
def test_urls_that_cannot_be_written_are_refused(shard, memory, monkeypatch):
    memory.pipe({"/in/file": b"", "/in/folder/other": b""})
    for settings, message in (
        ({"output": "memory://in/file"}, "memory://in/file is a file"),
        ({"output": "memory://in/folder"}, "memory://in/folder contains"),
        ({"output": "memory://out", "output_format": "spacy"}, "Docs can only be written to this"),
        ({"output": "memory://out", "shards": None}, "cannot be written to a URL. Set `shards`"),
        ({"output": "nothing://out"}, "nothing://out cannot be read: Protocol not known"),
    ):
        with pytest.raises(ValueError, match=message):
            shard(**settings)
    shard(output="memory://out/", worker="1/7")
    monkeypatch.setattr(memory, "put_file", Mock(side_effect=[OSError("full"), TimeoutError()] * 3))
    reasons = r".* memory://out/_part\S* cannot be written: full\n.*cannot be written: TimeoutError"
    with pytest.raises(ValueError, match=rf"6 of 7 .*\npart-00001{reasons}"):
        shard(output="memory://out/")
