import json
import shutil
from pathlib import Path

import pytest
import spacy
from spacy.tokens import Doc, DocBin, Span
from spacy.vocab import Vocab

pytest.importorskip("sklearn")


from helpers import shown_pages
from helpers.commands import run_elmo, run_python, shown_by
from helpers.components import listener, tagger

TEXT = "the river bank\nBank of mud\n\nthe bank lends money\na bank and a bank\nonce\n"


@pytest.fixture
def folder(tmp_path, monkeypatch, tiny_weights):
    (tmp_path / "text.txt").write_text(TEXT, "utf8")
    shutil.copytree(tiny_weights.parent, tmp_path / "model")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments, status=0):
    return run_elmo("senses", *arguments, status=status)


def written(path="senses.html"):
    with open(path, encoding="utf8") as file:
        data = shown_pages.data_of(file.read())
    shown_pages.check(data)
    return data


def test_words(folder):
    output = run("model", "text.txt", "--word", "bank", "--word", "once", "--word", "never").output
    assert "senses.html" in output
    assert "“never” does not occur" in output and "“once” occurs only once" in output
    data = written()
    assert (data["title"], data["about"]) == (
        "Occurrences of bank, once, never",
        "model · text.txt",
    )
    (section,) = data["sections"]
    assert section["views"] == ["layer 0", "layer 1", "layer 2", "mix (top)"]
    bank, once, never = section["words"]
    assert bank["before"] == ["the river", "the", "a", "a bank and a"]
    assert (once["total"], once["before"], once["after"]) == (1, [""], [""])
    assert "does not occur" in never["notice"]
    run("model", "text.txt", "--word", "bank", "--ignore-case", "-o", "pages/other.html")
    assert written("pages/other.html")["sections"][0]["words"][0]["total"] == 5
    run("model", "text.txt", "--word", "bank", "--limit", 2, "--projection", "tsne", "-F")
    (word,) = written()["sections"][0]["words"]
    assert (word["total"], len(word["before"])) == (4, 2)


def test_gold_senses(folder):
    docs = [Doc(Vocab(), words=line.split()) for line in TEXT.splitlines() if line]
    for doc in docs:
        sense = "shore" if "river" in doc.text else "house"
        doc.spans["senses"] = [Span(doc, t.i, t.i + 1, sense) for t in doc if t.text == "bank"]
    DocBin(docs=docs).to_disk("docs.spacy")
    run("model", "docs.spacy", "--word", "bank", "--gold", "spans:senses")
    (word,) = written()["sections"][0]["words"]
    coloring = word["views"][0]["colorings"][0]
    assert coloring["labels"] == ["house", "shore"]
    assert shown_pages.numbers(coloring["of"]).tolist() == [1, 0, 0, 0]
    assert word["table"]["rows"][0][-2:] == ["75.0%", "0.000"]  # layer 0: one group


def test_sentences_and_pipeline(folder, make_nlp):
    nlp = make_nlp()
    nlp.add_pipe("tagger", config=tagger(listener())).add_label("NN")
    nlp.initialize()
    nlp.to_disk("pipeline")
    two = ("--sentence", "the river bank", "--sentence", "a bank")
    run("model", *two, "--pipeline", "pipeline")
    heat, mix = written()["sections"]
    assert (heat["rows"], heat["columns"]) == (["the", "river", "bank"], ["a", "bank"])
    assert len(mix["rows"]) == 3
    run("pipeline", *two, "--force")
    assert written()["sections"] == [heat]
    assert spacy.load("pipeline").pipe_names == ["elmo", "tagger"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "nothing to show"),
        (["text.txt"], "CORPUS and --word need each other"),
        (["--word", "bank"], "CORPUS and --word need each other"),
        (["--sentence", "a"], "expected two sentences, got 1"),
        (["--sentence", "a", "--sentence", " "], "no token"),
    ],
)
def test_nothing_to_show(folder, arguments, message):
    assert message in " ".join(run("model", *arguments, status=1).output.split())
    assert not (folder / "senses.html").exists()


def test_the_same_page_twice(folder):
    pages = []
    for name in ("one.html", "two.html"):
        run("model", "text.txt", "--word", "bank", "-o", name)
        pages.append((folder / name).read_bytes())
    assert pages[0] == pages[1]


def test_standard_output(folder):
    """Nothing but the page, and no file in the place of the device. By way of a link: if that is
    replaced, the machine keeps its /dev/stdout."""
    (folder / "page.html").symlink_to("/dev/stdout")
    two = ("--sentence", "a b", "--sentence", "a c", "-o", "page.html")
    page = run_python("-m", "spacy", "elmo", "senses", "model", *two, cwd=folder)
    assert page.startswith("<!DOCTYPE html>") and page.endswith("</html>\n")
    assert (folder / "page.html").is_symlink()


def test_pages_of_other_commands(folder, make_nlp):
    docs = [Doc(Vocab(), words=["a", "bank"], tags=["DT", "NN"]) for _ in range(2)]
    DocBin(docs=docs).to_disk("tags.spacy")
    asked = ("--sentence", "my bank", "--token", "bank")
    make_nlp().to_disk("pipeline")
    pages = {
        "neighbors": ["model", "text.txt", *asked, "-n", "3", "--json"],
        "probe": ["model", "tags.spacy", "tags.spacy", "--task", "tag", "--layers", "1"],
        "mix": ["pipeline"],
    }
    for command, arguments in pages.items():
        html = ("--html", f"pages/{command}.html")
        Path("pages").mkdir(exist_ok=True)
        Path(html[1]).write_text("mine")
        assert "exists already" in shown_by(command, *arguments, *html, status=1)
        assert Path(html[1]).read_text() == "mine"
        result = run_elmo(command, *arguments, *html, "--force")
        pages[command] = written(f"pages/{command}.html")
        if command == "neighbors":
            rows = json.loads(result.stdout)["neighbors"]
    (neighbors,) = pages["neighbors"]["sections"]
    assert (neighbors["before"], neighbors["itself"], neighbors["after"]) == ("my", "bank", "")
    assert [line["itself"] for line in neighbors["lines"]] == [row["word"] for row in rows]
    for line, row in zip(neighbors["lines"], rows, strict=True):
        assert line["cosine"] == pytest.approx(row["similarity"], abs=1e-6)
    (probe,) = pages["probe"]["sections"]
    assert [row["names"][1] for row in probe["rows"]] == ["-", "-", "layer 1"]
    assert [row["figure"] for row in probe["rows"]] == ["50.00%", "100.00%", "100.00%"]
    assert pages["mix"]["sections"][0]["note"] == "No component mixes ELMo layers."
