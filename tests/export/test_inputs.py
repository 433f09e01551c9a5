"""Inputs of `embed`: every format gives its sentences, and bad input is refused by name."""

import bz2
import gzip
import io
import json
import lzma
import tarfile
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import spacy
from spacy.tokens import DocBin

from spacy_elmo.embedding.segmenters import Segment
from spacy_elmo.export import Embedder
from spacy_elmo.export.doc_reader import DocReader
from spacy_elmo.files import compression, make_ours

from helpers.embedded import embed_corpus
from helpers.gzipped import gzipped
from helpers.rounding import check_close
from helpers.written_vectors import CONLLU, SENTENCES, TEXT, index_of, read, vectors_of

pytestmark = pytest.mark.corpora


@pytest.fixture
def embed_to(folder, tiny_weights):
    """Return a function that embeds, and returns the texts by their numbers, and the lengths."""

    def run(inputs, model=tiny_weights, **settings):
        path = folder / "out.hdf5"
        embed_corpus(str(model), inputs, path, force=True, **settings)
        numbers = {int(i): text for text, i in index_of("hdf5", path).items()}
        return numbers, list(map(len, read("hdf5", path)))

    return run


CONLL = """\
-DOCSTART- -X- O

# sent_id = 1
The DT B-NP
# # I-NP

#begin document (a)
#hashtag NN O
\r
e\u00e9\u00a0e\tNN\tO

"""
# As CoNLL-U, OntoNotes and MultiCoNER have them.
COMMENTS = ["# newdoc id = a b", "# newpar", "# newdoc", "# global.columns = ID FORM"]
COMMENTS += ["# text =", "# id 5239d808-f300\tdomain=train", "#end document"]
COMMENTED = "\nword _ _ O\n\n".join([*COMMENTS, "# _ _ O\n#newdoc _ _ O\n"])
# Lines that no list of known comments has; the number of columns shows that they are not words.
GERMEVAL = "#\thttp://a.b/c\t[2010-03-05]\n1\tEr\tO\tO\n\n#\thttp://a.b/d\t[2010-03-06]\n"
GERMEVAL += "1\t#\tO\tO\n2\tda\tO\tO\n"
UNKNOWN = "# made in 1999\n\n# sent_id=1\nThe\tO\n#\tO\n\n## x y\n#one\tB-LOC\n\n#two O\n\n"
UNKNOWN += "<text id='3'>\n<s>\n#three\tO\n<s>\tO\nfour\tO\n</s>\n\n# of one column\n"
IDS = "1-2\tvom\tX\n1\tvon\tX\n2\tdem\tX\n2.1\tnicht\tX\n3\tHaus\tX\n\n1\tEr\tX\n"
ONE_COLUMN = "# any text\nThe\n#end\n\n#\n<user>\n"
# Columns are separated by spaces and tabs only.
SPACES = "\u00a0\u202f\u2028\u2009\x85\x0b\x1c"
A_TO_B = " ".join(["a", *SPACES, "b"])
WORDS = "\n".join(["a", *SPACES, "b", "", "c", " \t", "d"])
SPACED = [f"{space}10{space}000" for space in SPACES]
COLUMNS = "".join(f"{word}  N O\n{word}\tN\tO\n" for word in SPACED)
SPACED_TWICE = " ".join(f"{word} {word}" for word in SPACED)
TSV = "id\ttext\tlabel\r\n7\tThe end\tA\r\n8\t\tB\r\n9\tIt's \"late\tC\r\n"
ROWS = {0: "The end", 1: "", 2: "It's \"late"}
RUNNING = "She sat on the\nbank. It's late!\n\nNew paragraph"
SPLIT = {0: "She sat on the bank .", 1: "It 's late !", 2: "New paragraph"}
RECORDS = [{"tokens": ["two", "to ken"]}, {"text": TEXT}, {"text": ""}, {"tokens": []}]
RECORDS = "\n\n".join(map(json.dumps, RECORDS))
LINES = "".join(" ".join(words) + "\n" for words in SENTENCES)
NUMBERED = {i: " ".join(words) for i, words in enumerate(SENTENCES) if i}
INPUTS = [
    ("x.txt", f"\ufeff{LINES}", {}, NUMBERED, [4, 0, 5, 1, 4, 2]),
    ("x.conllu", CONLLU, {}, {0: "de le", 1: "Fin ."}, [2, 2]),
    ("x.conll", CONLL, {}, {0: "The #", 1: "#hashtag", 2: "e\u00e9\u00a0e"}, [2, 1, 1]),
    ("x.conll", CONLL, {"column": "2"}, {0: "DT #", 2: "NN"}, [2, 1, 1]),
    ("x.conll", COMMENTED, {}, {6: "word", 7: "# #newdoc"}, [1] * 7 + [2]),
    ("x.conll", GERMEVAL, {"column": "2"}, {0: "Er", 1: "# da"}, [1, 2]),
    ("x.conll", UNKNOWN, {}, {0: "The #", 1: "#one", 2: "#three <s> four"}, [2, 1, 3]),
    ("x.conll", ONE_COLUMN, {}, {0: "The #end", 1: "# <user>"}, [2, 2]),
    ("x.conll", "#a\tO\nb\tO\t\n", {}, {0: "#a b"}, [2]),  # A tab at the end is no column.
    ("x.conll", IDS, {"column": "2"}, {0: "von dem Haus", 1: "Er"}, [3, 1]),
    ("x.conll", IDS, {"column": "1"}, {0: "1-2 1 2 2.1 3", 1: "1"}, [5, 1]),
    ("x.conll", COLUMNS, {}, {0: SPACED_TWICE}, [14]),
    # A line of other white space is a word, not an empty line.
    ("x.conll", WORDS, {}, {0: A_TO_B, 1: "c", 2: "d"}, [9, 1, 1]),
    ("x.conll", COLUMNS, {"column": "3"}, {0: " ".join("O" * 14)}, [14]),
    ("x.tsv", TSV, {"column": "text"}, ROWS, [2, 0, 2]),
    ("x.tsv", TSV, {"column": "text", "format": "text"}, ROWS, [2, 0, 4]),
    ("x.tsv", TSV, {"column": "3"}, {0: "label", 1: "A", 2: "B", 3: "C"}, [1] * 4),
    ("x.txt", RUNNING, {"format": "text"}, SPLIT, [6, 4, 2]),
    ("x.jsonl", RECORDS, {}, {0: "two to ken", 1: TEXT, 3: ""}, [2, 11, 0, 0]),
]


@pytest.mark.parametrize(("name", "text", "settings", "found", "lengths"), INPUTS)
def test_every_format_gives_its_sentences(
    folder, embed_to, tiny_weights, name, text, settings, found, lengths
):
    """Files are compressed and plain, written to one file and in shards."""
    (folder / name).write_bytes(text.encode())
    (folder / f"{name}.gz").write_bytes(gzipped(text.encode()))
    for path in (f"{name}.gz", name):
        assert embed_to(path, **settings) == (found, lengths)
    embed_corpus(str(tiny_weights), name, folder / "out", shards=3, **settings)
    shards = [pq.read_table(shard) for shard in sorted(folder.glob("out/part-*"))]
    assert min(len(lengths), 2) <= len(shards) <= 3
    table = pa.concat_tables(shards)
    texts, numbers = table["text"].to_pylist(), table["index"].to_pylist()
    assert dict(zip(texts, range(len(texts)))) == dict(zip(found.values(), found))
    ours, theirs = vectors_of(table), read("hdf5", folder / "out.hdf5")
    assert list(map(len, ours)) == lengths
    np.testing.assert_allclose(np.concatenate(ours), np.concatenate(theirs), rtol=0, atol=2e-5)
    if "conll" in name or text is RUNNING:  # from 0 in each, as a line is no entry
        assert numbers == [i for shard in shards for i in range(len(shard))]
    else:
        assert numbers == list(range(len(texts)))


def test_the_input_format_is_for_files_without_a_known_suffix(folder, embed_to):
    """They may be compressed. Other files keep their format."""
    (folder / "in").mkdir()
    (folder / "in" / "news.en-00001-of-00100").write_text(LINES, "utf8")
    (folder / "in" / "news.en-00002-of-00100.gz").write_bytes(gzipped(LINES.encode()))
    (folder / "in" / "x.jsonl").write_text('{"tokens": ["one", "two"]}\n')
    lengths = list(map(len, SENTENCES))
    assert embed_to("in", input_format="txt")[1] == [*lengths, *lengths, 2]
    assert embed_to("in/news*", input_format="txt")[1] == [*lengths, *lengths]
    url = (folder / "in" / "news.en-00001-of-00100").as_uri()
    assert embed_to(url, input_format="txt")[1] == lengths
    (folder / "table").write_text(TSV, "utf8")
    assert embed_to("table", input_format="tsv", column="text")[1] == [2, 0, 2]
    for settings, message in (({}, "--input-format"), ({"input_format": "csv"}, "one of txt, ")):
        with pytest.raises(ValueError, match=message):
            embed_to("table", **settings)


PACKERS = {".gz": gzipped, ".xz": lzma.compress, ".bz2": bz2.compress}


@pytest.mark.parametrize("packing", PACKERS)
@pytest.mark.parametrize("name", ["A.TXT", "a.Conllu"])
def test_compressed_files_are_read(folder, embed_to, name, packing):
    """Suffixes may have any case, in single files, folders and shards of unpacked text."""
    (folder / "in").mkdir()
    text = CONLLU if name == "a.Conllu" else LINES
    packed = PACKERS[packing](text.encode())
    (folder / "in" / f"{name}{packing.upper()}").write_bytes(packed)
    (folder / "plain.txt").write_text(text, "utf8")
    (folder / "plain.txt").rename(f"plain{name[1:].lower()}")
    expected = embed_to(f"plain{name[1:].lower()}")
    assert embed_to("in") == embed_to(f"in/{name}{packing.upper()}") == expected


def test_zstandard_is_read_if_there_is_a_module(folder, embed_to, monkeypatch):
    """The test's module has the interface of Python 3.14, and packs with gzip."""
    (folder / "x.txt.zst").write_bytes(gzipped(LINES.encode()))
    monkeypatch.setattr(compression, "_zstd", gzip)
    assert embed_to("x.txt.zst")[1] == list(map(len, SENTENCES))
    monkeypatch.setattr(compression, "_zstd", None)
    with pytest.raises(
        ValueError, match=r"x.txt.zst: .zst files need Python 3.14 or .*backports.zstd"
    ):
        embed_to("x.txt.zst")


def test_left_out_files_are_named(folder, embed_to):
    """Hidden files are not named."""
    (folder / "in").mkdir()
    for name in ("a.txt", *(f"news-{i}" for i in range(7)), ".hidden"):
        (folder / "in" / name).write_text("a b\n")
    with pytest.warns(UserWarning, match=r"in: left out news-0, .* news-4 and 2 more\. If they"):
        assert embed_to("in")[1] == [2]


@pytest.mark.parametrize(
    ("name", "text", "is_running"),
    [
        ("x.txt", "Dear Anna, I came, I saw.\nYours, B.\n", True),
        ("x.txt", "\u6211\u6765\u3002\u6211\u770b\uff0c\u6211\u8d70\u3002\n\u5b8c\u3002\n", True),
        ("x.tsv", "id\ttext\n1\tI came, I saw, I won.\n", True),
        ("x.txt", "Mr. B. , Dr. C. and Prof. D. , came .\nOK .\n", False),
        ("x.jsonl", '{"text": "One, two, three, four."}\n', False),
    ],
)
def test_running_text_is_noticed(folder, tiny_weights, name, text, is_running):
    (folder / name).write_text(text, "utf8")
    column = "text" if name == "x.tsv" else None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for format in ("sentences", "text"):
            settings = {"column": column, "format": format, "force": True}
            embed_corpus(str(tiny_weights), name, folder / "out.npz", **settings)
    shown = [str(one.message) for one in caught if "looks like running text" in str(one.message)]
    assert [text.split()[0] for text in shown] == [name] * is_running


@pytest.mark.parametrize(
    ("text", "is_words"),
    [
        ("TOKEN\tTAG\r\n# id = 1\r\nThe\tO\r\n\r\nend\tO\r\n", True),
        ("text\tlabel\nThe end\tA\n\n\n", False),
        ("text\n\nThe end\n", False),  # A table of one column, with an empty cell.
    ],
)
def test_a_table_of_words_is_noticed(folder, tiny_weights, text, is_words):
    (folder / "x.tsv").write_text(text)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        embed_corpus(str(tiny_weights), "x.tsv", folder / "out.npz", column="1")
    shown = ["like a file with one word per line" in str(one.message) for one in caught]
    assert shown == [True] * is_words


def test_tables_in_a_folder_need_a_column(folder, tiny_weights, embed_to):
    """Without a column they are skipped, unless they are given by name. Another column is another
    run."""
    (folder / "x.tsv").write_text(TSV)
    assert len(embed_to(".")[1]) == len(SENTENCES)
    assert len(embed_to(".", column="text")[1]) == len(SENTENCES) + 3
    embed_to("x.tsv", column="text")
    with pytest.raises(ValueError, match="exists already"):
        embed_corpus(str(tiny_weights), "x.tsv", folder / "out.hdf5", column="label", resume=True)


@pytest.mark.pipelines
def test_records_are_read_as_the_pipeline_does(inputs, make_nlp):
    segmenter = {"@segmenters": "spacy-elmo.sentences.v1"}
    nlp = make_nlp(initial_state="carry", precision="float32", segmenter=segmenter)
    nlp.add_pipe("sentencizer", first=True)
    nlp.add_pipe("merge_entities")  # after it: not run
    nlp.to_disk("pipeline")
    embed_corpus("pipeline", "x.jsonl", inputs / "out.npz")
    found = read("npz", inputs / "out.npz")
    check_close(found[0], nlp(TEXT).tensor)
    nlp.remove_pipe("sentencizer")  # the whole text is one sequence then
    assert np.abs(found[0] - nlp(TEXT).tensor).max() > 1e-4


@pytest.mark.pipelines
def test_docs_are_cut_as_by_the_pipe(inputs, make_nlp):
    nlp = make_nlp(segmenter={"@segmenters": "spacy-elmo.windows.v1", "size": 4, "overlap": 2})
    for name, model in (("windows", nlp), ("sentences", make_nlp())):
        model.to_disk(name)
        embed_corpus(name, "x.spacy", inputs / f"{name}.npz")
        docs = list(DocBin().from_disk("x.spacy").get_docs(spacy.blank("en").vocab))
        found = read("npz", inputs / f"{name}.npz")
        assert [len(vectors) for vectors in found] == [11, 0, 3]
        for vectors, doc in zip(found, docs):
            check_close(vectors, model(doc).tensor)


@pytest.mark.pipelines
def test_a_segmenter_that_loses_tokens_is_refused(make_nlp):
    nlp = make_nlp()
    nlp.get_pipe("elmo").segmenter = lambda doc: [Segment(0, 1, 0, 1)]
    reader = DocReader(nlp, nlp.get_pipe("elmo"))
    with pytest.raises(ValueError, match="segments that keep only 1 of 2 tokens"):
        reader.entry(nlp.make_doc("river bank"))


@pytest.mark.pipelines
def test_a_pipeline_splits_running_text(folder, embed_to, make_nlp):
    """The pipeline sets no sentences, and has its own language."""
    (folder / "x.txt").write_text(RUNNING, "utf8")
    make_nlp().to_disk("pipeline")
    assert embed_to("x.txt", "pipeline", format="text")[0] == SPLIT
    with pytest.raises(ValueError, match="has the language 'en', not 'de'"):
        embed_to("x.txt", "pipeline", lang="de")


def test_a_folder_is_read_in_the_order_of_names(inputs, tiny_weights, embed_to):
    """Outputs that an earlier run wrote into it are skipped."""
    embed_corpus(str(tiny_weights), "text.txt", inputs / "Docs")
    make_ours(inputs / "Docs.part")
    (inputs / "Docs.part" / "x.txt").write_text("no input\n")
    embed_corpus(str(tiny_weights), ".", inputs / "Docs", force=True)
    expected = [*map(len, SENTENCES * 2), 2, 2, 11, 2, 0, 0, 11, 0, 3]
    assert [len(vectors) for vectors in read("spacy", inputs / "Docs")] == expected


# `tokens` and `text` of records, and the tokens that are read.
NULLS = [
    ({"tokens": ["a"], "text": "b c"}, ["a"]),
    ({"tokens": None, "text": "b c"}, ["b", "c"]),
    ({"tokens": [], "text": "b c"}, ["b", "c"]),
    ({"tokens": None, "text": None}, []),
]


def test_nulls_are_the_same_in_every_format(folder, tiny_weights):
    records, expected = zip(*NULLS)
    lines = [json.dumps(record) for record in records]
    (folder / "x.jsonl").write_text("\n".join(lines))
    table = pa.Table.from_pylist(records)
    pq.write_table(table, "x.parquet")
    found = [Embedder(str(tiny_weights))(table)["tokens"].to_pylist()]
    for name in ("x.jsonl", "x.parquet"):
        embed_corpus(str(tiny_weights), name, folder / f"{name}.out.parquet")
        found.append(pq.read_table(f"{name}.out.parquet")["tokens"].to_pylist())
    assert found == [list(expected)] * 3


NUMBERS = ["NaN", "-Infinity", str(2**64), str(-(2**63) - 1), "1" * 5000]


def test_numbers_of_other_programs_are_read(folder, embed_to):
    """Python and JavaScript write them. Keys that are not read may have any value."""
    lines = [f'{{"tokens": ["a"], "n": {number}}}\n' for number in NUMBERS]
    (folder / "x.jsonl").write_text("".join([*lines, '{"text": null}\n{"tokens": null}\n']))
    assert embed_to("x.jsonl")[1] == [1] * 5 + [0, 0]


def tar_of(content):
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        member = tarfile.TarInfo("a.txt")
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    return file.getvalue()


def parquet_of(texts):
    file = io.BytesIO()
    pq.write_table(pa.table({"text": pa.array(texts, pa.string())}), file)
    return file.getvalue()


def parquet_without_columns():
    file = io.BytesIO()
    pq.write_table(pa.table({"text": ["a"]}).select([]), file)
    return file.getvalue()


def damaged(packed):
    """Change a byte in the middle."""
    middle = len(packed) // 2
    return packed[:middle] + bytes([packed[middle] ^ 255]) + packed[middle + 1 :]


LATIN_TEXT = pa.Array.from_buffers(
    pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\4\0\0\0"), pa.py_buffer(b"caf\xe9")]
)
REFUSED = [
    ("x.txt", b"", "contains no text"),
    ("x.txt", b"one\ntw\xff\n", "line 2: not UTF-8"),
    ("x.txt", "eins\nzwei\n".encode("utf-16"), "UTF-16, not in UTF-8. .*iconv -f utf-16 "),
    ("x.jsonl", '{"text": ""}\n'.encode("utf-16-le"), "without a byte-order mark.*utf-16le"),
    ("x.txt", "раз два\n".encode("utf-16-be"), "without a byte-order mark.*-f utf-16be"),
    (
        "x.txt",
        "一 二\n一\n".encode("utf-16-le"),
        "without a byte-order mark.*-f utf-16le -t .*NEW`$",
    ),
    ("x.txt", "一二\n".encode("utf-16-le")[:-2], "without a.*-f utf-16le .*, or `-f utf-16be`$"),
    ("x.txt", b"one two\rthree\r", "line ends of old Macs .*tr "),
    ("x.jsonl", b'{"tokens": ["a"]}\r{"tokens": ["b"]}', "line ends of old Macs"),
    ("x.txt.gz", gzipped(tar_of(b"one\n")), "is a tar archive, not text. Unpack it"),
    ("x.txt", parquet_of(["one"]), "is a Parquet file"),
    ("x.txt", parquet_of([]), "is a Parquet file"),
    ("x.txt", gzipped(b"one\n"), r"compressed with gzip. Its name must end in .gz"),
    ("x.conll", bz2.compress(b"one\n"), r"compressed with bzip2. Its name must end in .bz2"),
    ("x.txt", b"PK\x03\x04 and more", "a zip archive, not text. Unpack it"),
    ("x.txt.gz", gzipped(b"one\n" * 9)[:-5], "the compressed file is broken"),
    ("x.txt.xz", lzma.compress(b"one\n" * 9)[:-5], "the compressed file is broken"),
    ("x.txt.bz2", b"one\n", "the compressed file is broken"),
    *(
        (f"x.txt{name}", pack(b"one\n") + damaged(pack(LINES.encode())), r"broken after line \d: ")
        for name, pack in PACKERS.items()
    ),
    *(
        (f"x.txt{name}", pack(b"one\n") + b"other" * 9 + pack(b"two\n"), "broken after line 1: ")
        for name, pack in PACKERS.items()
    ),
    ("x.jsonl", b'{"text": "a"}\n{"text": "caf\xe9"}\n', "x.jsonl, line 2: not UTF-8; if it is"),
    ("x.jsonl", b'{"text": "a"}\n{"txt": 1}\n', "line 2: no 'tokens'"),
    ("x.jsonl", b'{"tokens": ["a", 1], "text": "a"}\n', "line 1: 'tokens' must be a list of str"),
    ("x.jsonl", b'{"tokens": [null, "a"], "text": "a"}', "line 1: 'tokens' must be a list of str"),
    ("x.jsonl", b'\n{"tokens": ["\\ud800"]}\n', "line 2: 'tokens' contain a lone surrogate"),
    ("x.conllu", b"1\tone\n", "line 1: not CoNLL-U"),
    ("x.conllu", b"a-b\tone" + 8 * b"\t_" + b"\n", "line 1: not CoNLL-U"),
    ("x.conllu", b"# a comment\n", "no sentence in"),
    ("x.conllu", b"1\tone" + 8 * b"\t_" + b"\n1\tone" + 8 * b"\t_", "line 2: the id is 1 again"),
    ("x.parquet", parquet_without_columns(), "no sentence in x.parquet"),
    ("x.parquet", parquet_of(LATIN_TEXT), r"row 0 \(from 0\): .* decode byte 0xe9"),
    ("x.conllu", b"1\t\xff" + 8 * b"\t_" + b"\n", "line 1: not UTF-8"),
    ("x.spacy", b"no DocBin", "is not a .spacy file"),
    ("x.tsv", b"id\ttxt\n1\ta\n", "line 1: no column 'text', but id, txt"),
    ("x.tsv", b"id\ttext\n1\n", "line 2: no column 2: the line has 1"),
    ("x.tsv", b"id\ttext\n", "no sentence in"),
    ("x.tsv", b"text\ttext\na\tb\n", "line 1: several columns have the name 'text'"),
    ("x.tsv", b"#\ttext\n1\ta\n\n1\tb\n", r"line 3: no column 2.* must end in \.conll"),
    ("x.conll", b"a O\n", "columns of .conll files have numbers, from 1, not 'text'"),
    ("x.txt", b"a\na b c d e\n", "x.txt, line 2: .* has 5 tokens .*`max_tokens=5`"),
    ("x.pdf", b"text", "its suffix names no format"),
]


@pytest.mark.parametrize(("name", "content", "message"), REFUSED)
def test_bad_input_is_refused(folder, tiny_weights, name, content, message):
    (folder / name).write_bytes(content)
    column = "text" if name.endswith((".tsv", ".conll")) else None
    with pytest.raises(ValueError, match=message):
        embed_corpus(str(tiny_weights), name, folder / "out.npz", max_tokens=4, column=column)
    assert not list(folder.glob("out.npz*"))


# The text, and the line that may be a comment or a word.
DOUBTFUL = [
    ("a O\n\n# sent_id=1\nb O\n", 3),
    ("# 1\nb O\n", 1),
    ("## x\nb B-PER\n", 1),
    ("#id Abc\nb NN\n", 1),
    ("#\thttp://a.b\tO\n1\tEr\tO\n", 1),  # The second column contains the words.
    ("a\tO\n# a note\nb\tO\n", 2),  # Not after an empty line.
    ("a\tO\n<s>\nb\tO\n", 2),
    ("<s>\na\n</s>\n", 1),
    ("<doc id='1'>\na O\n", 1),
    ("<doc>\na\n</s>\n<s>\nb\n</doc>\n", 3),
]


ONLY = {"output_format": "parquet", "only": "PER"}


@pytest.mark.parametrize("settings", [{"output_format": "spacy"}, ONLY])
@pytest.mark.parametrize("name", ["x.jsonl", "x.conll", "x.parquet"])
def test_an_empty_token_for_a_doc_is_named(folder, tiny_weights, name, settings):
    if name == "x.parquet":
        pq.write_table(pa.table({"tokens": [["b", ""]]}), name)
    texts = {"x.jsonl": '\n{"tokens": ["b", ""]}\n', "x.conll": "a\tO\n\tO\n"}
    if name in texts:
        (folder / name).write_text(texts[name])
    place = {"x.jsonl": "line 2", "x.conll": "line 1", "x.parquet": "row 1"}[name]
    with pytest.raises(ValueError, match=f"{name}, {place}: a token is empty, and a Doc cannot"):
        embed_corpus(str(tiny_weights), name, folder / "out", **settings)


def test_two_columns_of_text_are_refused(folder, tiny_weights):
    table = pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"])], names=["text", "text"])
    pq.write_table(table, "x.parquet")
    with pytest.raises(ValueError, match=r"x\.parquet: .*several columns have the name 'text'"):
        embed_corpus(str(tiny_weights), "x.parquet", folder / "out.npz")
    with pytest.raises(ValueError, match="several columns have the name 'text'"):
        Embedder(str(tiny_weights))(table)


def test_ids_are_not_read_as_words(folder, tiny_weights):
    """One line with the number 1 may be a word, and so may a table of one column."""
    (folder / "x.conll").write_text(f"1 CD\n\n1\n2\n\n{IDS}")
    message = r"x.conll, line 7: the first column contains numbers, not words\. Set `column`"
    with pytest.raises(ValueError, match=message):
        embed_corpus(str(tiny_weights), "x.conll", folder / "out.npz")


@pytest.mark.parametrize(("text", "line"), DOUBTFUL)
def test_doubtful_comments_are_refused(folder, tiny_weights, text, line):
    (folder / "x.conll").write_text(text)
    column = "2" if "1\tEr" in text else None
    with pytest.raises(ValueError, match=rf"x.conll, line {line}: .* may be a comment or a word"):
        embed_corpus(str(tiny_weights), "x.conll", folder / "out.npz", column=column)


LAYERS = "layers must be vector, all, top, average, a number from 0 to 2 or mix:PIPE"
REFUSED_SETTINGS = [
    ({"output": "out.csv"}, "no format has the suffix '.csv'"),
    ({"output_format": "csv"}, "`output_format` must be one of hdf5, npz, parquet, spacy"),
    ({"dtype": "int4"}, "the dtype must be one of float32, float16, int8, got 'int4'"),
    ({"layers": "3"}, f"{LAYERS}, got '3'"),
    ({"layers": "mix:ner"}, "no mix of ELMo layers is named 'ner'. No component has a mix"),
    ({"initial_state": "cold"}, "initial_state: Input should be 'zeros'"),
    ({"max_tokens": 0}, "max_tokens must be 1 or more"),
    ({"precision": "float8"}, "float8"),
    ({"worker": "1/2"}, "`worker` needs `shards`. Set `shards`"),
    ({"inputs": "nowhere.txt"}, "file at 'nowhere.txt'"),
    ({"model": "nowhere"}, "no weights at 'nowhere'"),
    ({"inputs": "x.tsv"}, "x.tsv: the text column is not known"),
    ({"column": "text"}, "`column=text`: no .tsv or .conll file is given"),
    ({"output": "out", "sentence_marks": True}, "a Doc has no tokens for marks"),
    ({"texts": "keys"}, "`texts=keys` is for HDF5, not for npz"),
    ({"pool": "token"}, "`pool` must be one of sentence, doc, span, got 'token'"),
    ({"pool": "span"}, "`pool=span` needs spans"),
    ({"only": "PER,"}, "`only` must be ents, nouns or LABEL,LABEL..., got 'PER,'"),
    ({"pool": "doc", "sentence_marks": True}, "marks are not tokens"),
    ({"pool": "doc"}, "need Parquet, or HDF5 without"),
    ({"only": "ents", "output_format": "hdf5", "texts": "keys"}, "HDF5 without"),
    (
        {"only": "PER", "output_format": "hdf5"},
        "`only=PER`: the text has no entities or spans. Use a",
    ),
    ({"only": "nouns", "output_format": "hdf5"}, "`only=nouns`: the text has no parts of speech"),
]


@pytest.mark.parametrize(("settings", "message"), REFUSED_SETTINGS)
def test_impossible_settings_are_refused(folder, tiny_weights, settings, message):
    arguments = {"model": str(tiny_weights), "inputs": "text.txt", **settings}
    output = folder / arguments.pop("output", "out.npz")
    with pytest.raises(ValueError, match=message):
        embed_corpus(output=output, **arguments)
    assert [path.name for path in folder.iterdir()] == ["text.txt"]


def test_vectors_too_large_for_float16_are_refused(folder, tiny_weights, monkeypatch):
    huge = [np.full((3, len(words), 12), 7e4, dtype="float32") for words in SENTENCES]
    monkeypatch.setattr("spacy_elmo.export.embedder.embed_words", lambda *_, **__: huge)
    with pytest.raises(ValueError, match="up to 70000, too large for float16"):
        embed_corpus(str(tiny_weights), "text.txt", folder / "out.npz", dtype="float16")
