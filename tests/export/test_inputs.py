"""What is read, from every format, and what is refused."""

import gzip

import h5py
import numpy as np
import pytest
import spacy
from spacy.tokens import DocBin

from spacy_elmo.export.sharding import embed_corpus
from spacy_elmo.files import make_ours

from helpers.written_vectors import SENTENCES, TEXT, index_of, read


def texts(path):
    """The texts by their numbers, and the lengths."""
    with h5py.File(path) as file:
        lengths = [file[str(i)].shape[0] for i in range(len(file) - 1)]
    return {int(i): text for text, i in index_of("hdf5", path).items()}, lengths


@pytest.fixture
def embed_to(folder):
    """Embeds, and tells texts and lengths."""

    def run(model, inputs, **settings):
        embed_corpus(str(model), inputs, folder / "out.hdf5", force=True, **settings)
        return texts(folder / "out.hdf5")

    return run


@pytest.mark.parametrize("name", ["text.txt", "text.txt.gz", "*.txt"])
def test_lines_keep_their_numbers(inputs, tiny_weights, embed_to, name):
    found, lengths = embed_to(tiny_weights, name)
    assert lengths == [len(words) for words in SENTENCES]
    assert found[2] == 'a/b naïve 日本 😀 "quoted"\\'


def test_conllu(inputs, tiny_weights, embed_to):
    assert embed_to(tiny_weights, "x.conllu") == ({0: "de le", 1: "Fin ."}, [2, 2])
    (inputs / "y.conllu.gz").write_bytes(gzip.compress((inputs / "x.conllu").read_bytes()))
    assert embed_to(tiny_weights, "y.conllu.gz")[1] == [2, 2]


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


def test_conll(folder, tiny_weights, embed_to):
    (folder / "x.conll").write_text(CONLL, "utf8")
    words = {0: "The #", 1: "#hashtag", 2: "e\u00e9\u00a0e"}
    assert embed_to(tiny_weights, "x.conll") == (words, [2, 1, 1])
    (folder / "y.conll.gz").write_bytes(gzip.compress(CONLL.encode()))
    assert embed_to(tiny_weights, "y.conll.gz", column="2")[0] == {0: "DT #", 2: "NN"}


def test_comments_of_conll(folder, tiny_weights, embed_to):
    """As CoNLL-U, OntoNotes and MultiCoNER have them."""
    comments = ["# newdoc id = a b", "# newpar", "# newdoc", "# global.columns = ID FORM"]
    comments += ["# text =", "# id 5239d808-f300\tdomain=train", "#end document"]
    text = "".join(f"{comment}\nword _ _ O\n\n" for comment in comments)
    (folder / "x.conll").write_text(text + "# _ _ O\n#newdoc _ _ O\n", "utf8")
    words = {len(comments) - 1: "word", len(comments): "# #newdoc"}
    assert embed_to(tiny_weights, "x.conll") == (words, [1] * len(comments) + [2])


@pytest.mark.parametrize("space", "\u00a0\u202f\u2028\u2009\x85\x0b\x1c")
def test_columns_are_separated_by_spaces_and_tabs_only(folder, tiny_weights, embed_to, space):
    for separator in ("  ", "\t"):
        word = f"{space}10{space}000"
        (folder / "x.conll").write_text(separator.join([word, "N", "O"]) + "\n", "utf8", newline="")
        assert embed_to(tiny_weights, "x.conll") == ({0: word}, [1])
        assert embed_to(tiny_weights, "x.conll", column="3")[0] == {0: "O"}


TSV = "id\ttext\tlabel\n7\tThe end\tA\n8\t\tB\n9\tIt's \"late\tC\n"


@pytest.mark.parametrize("ending", [".tsv", ".tsv.gz"])
def test_tsv(folder, tiny_weights, embed_to, ending):
    """A row is an entry, whatever it holds."""
    data = TSV.replace("\n", "\r\n").encode()
    path = folder / f"x{ending}"
    path.write_bytes(gzip.compress(data) if ending == ".tsv.gz" else data)
    named = {0: "The end", 1: "", 2: "It's \"late"}
    assert embed_to(tiny_weights, path, column="text") == (named, [2, 0, 2])
    found, lengths = embed_to(tiny_weights, path, column="text", tokenize=True)
    assert (found, lengths) == (named, [2, 0, 4])
    found, lengths = embed_to(tiny_weights, path, column="3")
    assert (found, lengths) == ({0: "label", 1: "A", 2: "B", 3: "C"}, [1] * 4)


def test_tables_in_a_folder(folder, tiny_weights, embed_to):
    """Without a column they are no input, unless they were named."""
    (folder / "x.tsv").write_text(TSV)
    assert len(embed_to(tiny_weights, ".")[1]) == len(SENTENCES)
    assert len(embed_to(tiny_weights, ".", column="text")[1]) == len(SENTENCES) + 3


def test_another_column_is_another_run(folder, tiny_weights, embed_to):
    (folder / "x.tsv").write_text(TSV)
    embed_to(tiny_weights, "x.tsv", column="text")
    with pytest.raises(ValueError, match="exists already"):
        embed_corpus(str(tiny_weights), "x.tsv", folder / "out.hdf5", column="label", resume=True)


def test_a_record_is_an_entry(inputs, tiny_weights, embed_to):
    found, lengths = embed_to(tiny_weights, "x.jsonl")
    assert lengths == [11, 2, 0, 0]
    assert found == {0: TEXT, 1: "two to ken", 3: ""}


def test_records_are_read_as_the_pipeline_does(inputs, make_nlp):
    nlp = make_nlp(
        initial_state="carry",
        precision="float32",
        segmenter={"@segmenters": "spacy-elmo.sentences.v1"},
    )
    nlp.add_pipe("sentencizer", first=True)
    nlp.add_pipe("merge_entities")  # after it: not run
    nlp.to_disk("pipeline")
    embed_corpus("pipeline", "x.jsonl", inputs / "out.npz")
    found = read("npz", inputs / "out.npz")
    np.testing.assert_allclose(found[0], nlp(TEXT).tensor, rtol=0, atol=1e-6)
    nlp.remove_pipe("sentencizer")  # the whole text is one sequence then
    assert np.abs(found[0] - nlp(TEXT).tensor).max() > 1e-4


def test_docs_are_cut_as_by_the_pipe(inputs, make_nlp):
    nlp = make_nlp(segmenter={"@segmenters": "spacy-elmo.windows.v1", "size": 4, "overlap": 2})
    nlp.to_disk("pipeline")
    for name, model in (("windows", nlp), ("sentences", make_nlp())):
        model.to_disk(name)
        embed_corpus(name, "x.spacy", inputs / f"{name}.npz")
        docs = list(DocBin().from_disk("x.spacy").get_docs(spacy.blank("en").vocab))
        found = read("npz", inputs / f"{name}.npz")
        assert [len(vectors) for vectors in found] == [11, 0, 3]
        for vectors, doc in zip(found, docs):
            np.testing.assert_allclose(vectors, model(doc).tensor, rtol=0, atol=1e-6)


def test_running_text(folder, tiny_weights, embed_to, make_nlp):
    text = "She sat on the\nbank. It's late!\n\nNew paragraph"
    (folder / "running.txt").write_text(text, "utf8")
    expected = {0: "She sat on the bank .", 1: "It 's late !", 2: "New paragraph"}
    assert embed_to(tiny_weights, "running.txt", tokenize=True)[0] == expected
    make_nlp().to_disk("pipeline")  # sets no sentences
    assert embed_to("pipeline", "running.txt", tokenize=True)[0] == expected


def test_a_folder(inputs, tiny_weights, embed_to):
    """In the order of the names, without what an earlier run has written into it."""
    embed_corpus(str(tiny_weights), "text.txt", inputs / "Docs")
    make_ours(inputs / "Docs.part")
    (inputs / "Docs.part" / "x.txt").write_text("no input\n")
    embed_corpus(str(tiny_weights), ".", inputs / "Docs", force=True)
    lengths = [len(words) for words in SENTENCES]
    expected = [*lengths, *lengths, 2, 2, 11, 2, 0, 0, 11, 0, 3]
    assert [len(vectors) for vectors in read("spacy", inputs / "Docs")] == expected


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.txt", b"", "contains no text"),
        ("x.txt", b"one\ntw\xff\n", "line 2: not UTF-8"),
        ("x.txt.gz", gzip.compress(b"one\n" * 9, mtime=0)[:-5], "the gzip file is broken"),
        ("x.jsonl", b'{"text": "a"}\n{"txt": 1}\n', "line 2: no 'tokens'"),
        ("x.jsonl", b'\n{"tokens": ["\\ud800"]}\n', "line 2: 'tokens' contain a lone surrogate"),
        ("x.jsonl", b'{"text": "\\ud800"}\n', "line 1: 'text' contains a lone surrogate"),
        ("x.jsonl", b"{\n", "line 1: not a JSON object"),
        ("x.conllu", b"1\tone\n", "line 1: not CoNLL-U"),
        ("x.conllu", b"# a comment\n", "no sentence in"),
        ("x.conllu", b"1\t\xff" + 8 * b"\t_" + b"\n", "line 1: not UTF-8"),
        ("x.spacy", b"no DocBin", "is not a .spacy file"),
        ("x.tsv", b"id\ttxt\n1\ta\n", "line 1: no column 'text', but id, txt"),
        ("x.tsv", b"id\ttext\n1\n", "line 2: no column 2: the line has 1"),
        ("x.tsv", b"id\ttext\n1\t\xff\n", "line 2: not UTF-8"),
        ("x.tsv", b"id\ttext\n", "no sentence in"),
        ("x.conll", b"a O\n", "columns of .conll files have numbers, from 1, not 'text'"),
        ("x.txt", b"a b c d e\n", "has 5 tokens .*`max_tokens=5`"),
        ("x.pdf", b"text", "unknown format"),
    ],
)
def test_refused(folder, tiny_weights, name, content, message):
    (folder / name).write_bytes(content)
    column = "text" if name.endswith((".tsv", ".conll")) else None
    with pytest.raises(ValueError, match=message):
        embed_corpus(str(tiny_weights), name, folder / "out.npz", max_tokens=4, column=column)
    assert not (folder / "out.npz").exists()
    assert not (folder / "out.npz.part").exists()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"output": "out.csv"}, "no format has the suffix '.csv'"),
        ({"format": "csv"}, "the format must be one of hdf5, npz, parquet, spacy"),
        ({"dtype": "int4"}, "the dtype must be one of float32, float16"),
        (
            {"layers": "3"},
            "layers must be vector, all, top, average, a number from 0 to 2 or mix:PIPE",
        ),
        (
            {"layers": "mix:ner"},
            "no mix of ELMo layers is named 'ner'. No component has a mix",
        ),
        ({"initial_state": "cold"}, "initial_state: Input should be 'zeros'"),
        ({"batch_tokens": 0}, "max_batch_tokens: Input should be greater than or equal to 1"),
        ({"max_tokens": 0}, "max_tokens must be 1 or more"),
        ({"precision": "float8"}, "float8"),
        ({"worker": "1/2"}, "`worker` needs `shards`. Set `shards`"),
        ({"inputs": "nowhere.txt"}, "file at 'nowhere.txt'"),
        ({"model": "nowhere"}, "no weights at 'nowhere'"),
        ({"inputs": "x.tsv"}, "x.tsv: the text column is not known"),
        ({"column": "text"}, "`column=text`: no .tsv, .tsv.gz, .conll, .conll.gz file is given"),
    ],
)
def test_settings_that_are_refused(folder, tiny_weights, settings, message):
    arguments = {"model": str(tiny_weights), "inputs": "text.txt", **settings}
    output = folder / arguments.pop("output", "out.npz")
    with pytest.raises(ValueError, match=message):
        embed_corpus(output=output, **arguments)
    assert [path.name for path in folder.iterdir()] == ["text.txt"]


def test_language_of_a_pipeline(folder, make_nlp):
    make_nlp().to_disk("pipeline")
    with pytest.raises(ValueError, match="has the language 'en', not 'de'"):
        embed_corpus("pipeline", "text.txt", folder / "out.npz", lang="de")


def test_too_large_for_half_precision(folder, tiny_weights, monkeypatch):
    from spacy_elmo.export import embedder

    huge = [np.full((3, len(words), 12), 7e4, dtype="float32") for words in SENTENCES]
    monkeypatch.setattr(embedder, "embed_words", lambda *_, **__: huge)
    with pytest.raises(ValueError, match="up to 70000, too large for float16"):
        embed_corpus(str(tiny_weights), "text.txt", folder / "out.npz", dtype="float16")
