"""Scripts for the text of a language model lose nothing, and widened models compute the same."""

import lzma
from collections import Counter

import numpy as np
import pytest

from spacy_elmo.frozen.softmax import FrozenSoftmax
from spacy_elmo.model.vocabulary import Vocabulary
from spacy_elmo.weights.bundle import ModelBundle
from spacy_elmo.weights.formats import read_bundle
from spacy_elmo.weights.safetensors_file import SafetensorsFile

from helpers.gzipped import gzipped
from helpers.models import tiny_bilm
from helpers.prepared import prepare
from helpers.project_scripts import call, docs, run
from helpers.rounding import check_close

pytestmark = pytest.mark.commands

TEXT = "".join(f"sentence {number} .\n" for number in range(10))


def test_held_out_sentences_are_the_last(tmp_path):
    (tmp_path / "text.txt").write_text(TEXT)
    files = [tmp_path / name for name in ("text.txt", "new/train.txt", "new/dev.txt")]
    call("data.hold_out", *files, "--sentences", 3)
    assert files[1].read_text() + files[2].read_text() == TEXT
    assert files[2].read_text().startswith("sentence 7")
    output = call("data.hold_out", *files, "--sentences", 10, fails=True)
    assert "10 cannot be held out" in output


def test_sources_have_their_share_in_each_round(tmp_path):
    """Three rounds have 12 tokens of other sources each, and at least 6 of the wiki.

    Its five documents of 4 tokens all come in turn.
    """
    names = [f"wiki {number}" for number in range(5)] + [f"talk {number}" for number in range(3)]
    text = "".join(f"{name}\nthe end\n\n" for name in names)
    index = [f"{name[:4]}\t{name}\t{3 * place}\t2\n" for place, name in enumerate(names)]
    index.append("law\tempty\t24\t0\n")
    (tmp_path / "text.txt.gz").write_bytes(gzipped(text.encode()))
    (tmp_path / "index.tsv").write_text("".join(index))
    files = [tmp_path / name for name in ("text.txt.gz", "index.tsv", "weighed.txt")]
    options = ("--source", "wiki", "--share", 1 / 3, "--rounds", 3)
    assert "35.7%" in call("data.weigh_sources", *files, *options)
    written = files[2].read_text()
    documents = [tuple(document.split("\n")) for document in written.split("\n\n") if document]
    assert all(len(lines) == 2 and lines[1] == "the end" for lines in documents)
    counts = Counter(lines[0] for lines in documents)
    assert [counts[f"talk {number}"] for number in range(3)] == [3, 3, 3]
    assert sorted(counts[f"wiki {number}"] for number in range(5)) == [1, 1, 1, 1, 1]
    assert len(documents) == 14
    call("data.weigh_sources", *files, *options)
    assert files[2].read_text() == written  # the same seed
    for content, source, message in (
        ("".join(index), "web", "no source 'web'. It has talk, wiki."),
        ("wiki\tlong\t0\t99\n", "wiki", "ends before line 99, the end of 'long'"),
    ):
        files[1].write_text(content)
        options = ("--source", source, "--share", 0.5)
        assert message in call("data.weigh_sources", *files, *options, fails=True)


# Other scripts


def test_books_become_sentences_and_headings(tmp_path):
    book = tmp_path / "book.txt"
    book.write_text("One two\nthree. Four\n\nHeading\n\nFive, six.\n", "utf8")
    call("data.prepare_text", tmp_path / "out" / "train.txt", book)
    lines = (tmp_path / "out" / "train.txt").read_text("utf8").splitlines()
    assert lines == ["One two three .", "Four", "Heading", "Five , six ."]


@pytest.mark.processes
def test_the_demo_data_is_the_same_in_each_run(tmp_path):
    call("demo.data", tmp_path / "a")
    run("demo.data", tmp_path / "b")  # another process has other hashes
    names = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert {"lm-train.txt", "ner-test.spacy"} <= {*names}
    for name in names:
        one, two = (tmp_path / folder / name for folder in ("a", "b"))
        assert one.read_bytes() == two.read_bytes()
    train = {doc.text for doc in docs(tmp_path / "a" / "ner-train.spacy")}
    assert not train & {doc.text for doc in docs(tmp_path / "a" / "ner-test.spacy")}


# Widening of a model

LINES = ["the cat sat on the mat .", "the dog saw the cat .", "a dog sat ."] * 40


def word_vectors(path, words, width=3):
    rng = np.random.default_rng(1)
    vectors = rng.standard_normal((len(words), width)).astype("float16")
    np.savez(path, words=np.array(words), vectors=vectors)


@pytest.fixture
def widened(tmp_path):
    """Return a model with its softmax, and the same model with wider layers and more words."""
    bilm = tiny_bilm()
    words = Vocabulary(["<S>", "</S>", "<UNK>", "the", "cat", "dog", "."])
    rng = np.random.default_rng(0)
    weight = rng.standard_normal((len(words), bilm.config.projection_dim)).astype("float32")
    softmax = FrozenSoftmax({"weight": weight, "bias": weight[:, 0].copy()})
    files = [tmp_path / name for name in ("model.safetensors", "corpus", "words.npz")]
    SafetensorsFile.write(ModelBundle(bilm, (softmax, words), lang="en"), files[0])
    (tmp_path / "text.txt").write_text("\n".join(LINES))
    prepare([str(tmp_path / "text.txt")], files[1])
    word_vectors(files[2], ["the", "<oov>", "cat", "dog", ".", "sat", "on", "a", "mat"])
    output = tmp_path / "wide.safetensors"
    options = ("--lstm-dim", 14, "--n-words", 5, "--min-count", 1)
    call("data.widen_model", *files, output, *options)
    return read_bundle(str(files[0])), read_bundle(str(output))


@pytest.mark.corpora
def test_a_widened_model_computes_the_same(widened):
    narrow, wide = (bundle.bilm for bundle in widened)
    sentences = [line.split() for line in LINES[:3]] + [["An", "e-mail", "to", "U.S."]]
    assert wide.config.lstm_dim == 14 and wide.config.n_words == 3 + 5
    assert wide.config.projection_dim == narrow.config.projection_dim + 3
    for before, after in zip(narrow.embed(sentences)[0], wide.embed(sentences)[0]):
        width = narrow.config.projection_dim
        new = after.reshape(*after.shape[:2], 2, width + 3)
        check_close(new[..., :width].reshape(before.shape), before)
        assert (np.abs(new[1:, ..., width:]).max(axis=(1, 2, 3)) > 0).all()


@pytest.mark.corpora
def test_a_widened_softmax_knows_more_words(widened):
    (narrow, old), (wide, new) = (bundle.prediction for bundle in widened)
    assert len(old) == 7 and {"sat", "on", "mat", "saw", "a"} < set(new.words)
    contexts = np.random.default_rng(2).standard_normal((4, narrow.sizes[1])).astype("float32")
    before = narrow.log_probabilities(contexts)[:, old.ids_of(["the", "cat", "."])]
    after = wide.log_probabilities(np.pad(contexts, [(0, 0), (0, 3)]))
    after = after[:, new.ids_of(["the", "cat", "."])]
    # The same scores, among more words.
    check_close(before - before[:, :1], after - after[:, :1])
    assert wide.arrays()["weight"][new.ids_of(["sat"])].any()


def test_sources_of_several_texts_are_weighed(tmp_path):
    """One text has an index, one has none, and one source is left out."""
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    (tmp_path / "a.tsv").write_text("wiki\ta\t0\t1\nlaw\tb\t1\t1\n")
    (tmp_path / "b.txt.xz").write_bytes(lzma.compress(b"three\nfour\n"))
    (tmp_path / "b.tsv").write_text("talk\tc\t0\t1\nlaw\td\t1\t1\n")
    (tmp_path / "posts.txt").write_text("five\n\nsix\n")
    files = [tmp_path / name for name in ("a.txt", "a.tsv", "out.txt")]
    more = ("b.txt.xz", "posts.txt")
    also = [word for name in more for word in ("--also-text", tmp_path / name)]
    also += ["--also-index", tmp_path / "b.tsv", "--without", "law"]
    call("data.weigh_sources", *files, "--source", "wiki", "--share", 0.25, *also)
    documents = sorted(files[2].read_text().split("\n\n"))
    assert documents == ["", "five\nsix", "one", "three"]
