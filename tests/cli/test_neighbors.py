import json
import shutil

import pytest
from spacy.tokens import Doc, DocBin
from spacy.vocab import Vocab

from spacy_elmo.analysis import corpora
from spacy_elmo.analysis.corpora import read_corpus_docs
from spacy_elmo.cli.neighbors import marked

from helpers.commands import run_elmo

TEXT = "the play ends .\n\nwe play\nthey play a play\na new book\n"
ASKED = ("--sentence", "we Play well", "--token", "Play")


@pytest.fixture
def folder(tmp_path, monkeypatch, tiny_weights):
    (tmp_path / "text.txt").write_text(TEXT, "utf8")
    shutil.copytree(tiny_weights.parent, tmp_path / "model")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments, status=0):
    return run_elmo("neighbors", *arguments, status=status)


def neighbors_of(*arguments):
    return json.loads(run(*arguments, "--json").stdout)


def test_json_and_table(folder, monkeypatch):
    found = neighbors_of("model", "text.txt", *ASKED, "-n", 4)
    assert (found["sentence"], found["position"]) == (["we", "Play", "well"], 1)
    assert (found["word"], found["layer"]) == ("Play", "top")
    rows = found["neighbors"]
    assert [row["sentence"][row["position"]] for row in rows] == [row["word"] for row in rows]
    cosines = [row["similarity"] for row in rows]
    assert cosines == sorted(cosines, reverse=True)
    assert len(rows) == 4
    monkeypatch.setenv("COLUMNS", "80")
    shown = run("model", "text.txt", *ASKED, "-n", 4).stdout
    lines = [" ".join(line.split()) for line in shown.splitlines() if line.strip()]
    assert lines[2] == "we [Play] well"
    assert lines[3:] == [
        f"{row['similarity']:.3f} {row['word']} {marked(row['sentence'], row['position'], 60)}"
        for row in rows
    ]


def test_options_take_effect(folder):
    same = neighbors_of("model", "text.txt", *ASKED, "--same-word")["neighbors"]
    assert [row["word"] for row in same] == ["play"] * 4
    other = neighbors_of("model", "text.txt", *ASKED, "--other-words", "-n", 50)["neighbors"]
    assert "play" not in {row["word"] for row in other}
    both = neighbors_of("model", "text.txt", *ASKED, "-n", 50)["neighbors"]
    assert len(both) == len(same) + len(other) == len(TEXT.split())
    layers = [
        neighbors_of("model", "text.txt", *ASKED, "--layer", layer)["neighbors"][0]["similarity"]
        for layer in ("0", "1", "2", "average")
    ]
    assert len(set(layers)) == 4
    assert neighbors_of("model", "text.txt", *ASKED, "--layer", 2)["neighbors"] == both[:10]


def test_every_kind_of_corpus(folder, make_nlp):
    expected = neighbors_of("model", "text.txt", *ASKED)
    docs = [Doc(Vocab(), words=line.split()) for line in TEXT.splitlines() if line]
    DocBin(docs=docs).to_disk(folder / "docs.spacy")
    assert neighbors_of("model", "docs.spacy", *ASKED) == expected
    both = neighbors_of("model", "text.txt", "docs.spacy", *ASKED)  # none is twice
    for one, two in zip(both["neighbors"], expected["neighbors"], strict=True):
        assert one == {**two, "similarity": pytest.approx(two["similarity"], abs=1e-6)}
    (folder / "running.txt").write_text("The play ends. We play.\n", "utf8")
    rows = neighbors_of(
        "model", "running.txt", *ASKED, "--format", "text", "--lang", "en", "-n", 50
    )["neighbors"]
    sentences = {tuple(row["sentence"]) for row in rows}
    assert sentences == {("The", "play", "ends", "."), ("We", "play", ".")}
    make_nlp().to_disk(folder / "pipeline")
    assert neighbors_of("pipeline", "text.txt", *ASKED) == expected


def test_no_vocab_holds_all_words(folder, monkeypatch):
    monkeypatch.setattr(corpora, "MAX_STRINGS", 3)
    docs = list(read_corpus_docs(["text.txt"]))
    assert [[token.text for token in doc] for doc in docs] == [
        line.split() for line in TEXT.splitlines() if line
    ]
    assert len({id(doc.vocab) for doc in docs}) > 1


def test_no_neighbor(folder):
    (folder / "short.txt").write_text("nothing here\n")
    assert neighbors_of("model", "short.txt", *ASKED, "--same-word")["neighbors"] == []
    assert "no such tokens" in run("model", "short.txt", *ASKED, "--same-word").output


def test_marked():
    tokens = [str(i) for i in range(100)]
    assert marked(tokens[:3], 1, 80) == "0 [1] 2"
    assert marked(tokens, 50, 79) == (
        "… 39 40 41 42 43 44 45 46 47 48 49 [50] 51 52 53 54 55 56 57 58 59 60 61 …"
    )
    assert marked(tokens, 50, 14) == "… 49 [50] 51 …"
    assert marked(tokens, 50, 13) == "… [50] …"
    assert marked(["a", "supercalifragilistic", "b"], 1, 10) == "[supercal…"
