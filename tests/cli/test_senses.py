"""`spacy elmo senses`: the data in the page are those that were asked for."""

import json
from pathlib import Path

import pytest
from spacy.tokens import Doc, DocBin, Span
from spacy.vocab import Vocab

from helpers import shown_pages
from helpers.commands import run_elmo, run_python, shown_by
from helpers.components import listener, tagger

pytestmark = pytest.mark.commands

TEXT = "the river bank\nBank of mud\n\nthe bank lends money\na bank and a bank\nonce\n"
TWO = ("--sentence", "the river bank", "--sentence", "a bank")


@pytest.fixture
def run(here, tiny_weights):
    """Runs the command, beside a text and a model; the data of its page."""
    (here / "text.txt").write_text(TEXT, "utf8")
    (here / "model").symlink_to(tiny_weights.parent)

    def invoke(*arguments, model="model"):
        Path("senses.html").unlink(missing_ok=True)
        output = shown_by("senses", model, *arguments)
        return {**written("senses.html"), "output": output}

    return invoke


def written(path):
    data = shown_pages.data_of(Path(path).read_text("utf8"))
    shown_pages.check(data)
    return data


def test_the_page_has_the_occurrences_of_each_word(run):
    asked = ("text.txt", "--word", "bank", "--word", "once", "--word", "never")
    data, page = run(*asked), Path("senses.html").read_bytes()
    for said in ("senses.html", "“never” does not occur", "“once” occurs only once"):
        assert said in data["output"]
    assert data["title"] == "Occurrences of bank, once, never"
    assert data["about"] == "model · text.txt"
    (section,) = data["sections"]
    assert section["views"] == ["layer 0", "layer 1", "layer 2", "mix (top)"]
    bank, once, never = section["words"]
    assert bank["before"] == ["the river", "the", "a", "a bank and a"]
    assert (once["total"], once["before"], once["after"]) == (1, [""], [""])
    assert "does not occur" in never["notice"]
    assert run(*asked) == data
    assert Path("senses.html").read_bytes() == page
    shown_by("senses", "model", "text.txt", "--word", "bank", "--ignore-case", "-o", "in/a.html")
    assert written("in/a.html")["sections"][0]["words"][0]["total"] == 5
    data = run("text.txt", "--word", "bank", "--limit", 2, "--projection", "tsne")
    (word,) = data["sections"][0]["words"]
    assert (word["total"], len(word["before"])) == (4, 2)


def test_the_page_has_the_gold_senses(run):
    docs = [Doc(Vocab(), words=line.split()) for line in TEXT.splitlines() if line]
    for doc in docs:
        sense = "shore" if "river" in doc.text else "house"
        doc.spans["senses"] = [Span(doc, t.i, t.i + 1, sense) for t in doc if t.text == "bank"]
    DocBin(docs=docs).to_disk("docs.spacy")
    (section,) = run("docs.spacy", "--word", "bank", "--gold", "spans:senses")["sections"]
    coloring = section["words"][0]["views"][0]["colorings"][0]
    assert (coloring["name"], coloring["kind"]) == ("senses", "senses")
    assert coloring["labels"] == ["house", "shore"]
    assert shown_pages.numbers(coloring["of"]).tolist() == [1, 0, 0, 0]
    # layer 0: one group
    assert section["words"][0]["table"]["rows"][0][-2:] == ["75.0%", "0.000"]


def test_the_page_compares_periods(run):
    """Each two labels have a distance with its p, and each dot has its source and date."""
    docs = [Doc(Vocab(), words=["a", "bank", str(i % 3)]) for i in range(6)]
    for i, doc in enumerate(docs):
        doc.spans["century"] = [Span(doc, 1, 2, "18th" if i < 3 else "19th")]
        doc.user_data.update(source=f"letter {i}", date=1790 + 10 * i)
    DocBin(docs=docs, store_user_data=True).to_disk("docs.spacy")
    data = run("docs.spacy", "--word", "bank", "--gold", "spans:century")
    (word,) = data["sections"][0]["words"]
    assert word["origins"] == [f"letter {i}, {1790 + 10 * i}" for i in range(6)]
    changes = word["changes"]
    assert changes["heads"] == ["", "layer 0", "layer 1", "layer 2", "mix (top)"]
    # Both centuries have the same three sentences.
    assert changes["rows"] == [["18th, 19th", *["0.000 (p = 1.000)"] * 4]]
    assert "999" in changes["note"]
    assert word["views"][0]["colorings"][0]["name"] == "century"
    assert "word labels distance, mix (top)" in " ".join(data["output"].split())
    assert "bank 18th, 19th 0.000 (p = 1.000)" in " ".join(data["output"].split())


def test_several_files_are_shown_as_sources(run):
    Path("more.txt").write_text("my bank\n", "utf8")
    (word,) = run("text.txt", "more.txt", "--word", "bank")["sections"][0]["words"]
    assert word["origins"] == ["text.txt"] * 4 + ["more.txt"]
    (word,) = run("text.txt", "--word", "bank")["sections"][0]["words"]
    assert word["origins"] == []
    assert word["changes"]["rows"] == []


@pytest.mark.training
@pytest.mark.pipelines
def test_sentences_are_shown_with_the_mixes_of_a_pipeline(run, make_nlp):
    nlp = make_nlp()
    nlp.add_pipe("tagger", config=tagger(listener())).add_label("NN")
    nlp.initialize()
    nlp.to_disk("pipeline")
    heat, mix = run(*TWO, "--pipeline", "pipeline")["sections"]
    assert (heat["rows"], heat["columns"]) == (["the", "river", "bank"], ["a", "bank"])
    assert len(mix["rows"]) == 3
    assert run(*TWO, model="pipeline")["sections"] == [heat]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "nothing to show"),
        (["text.txt"], "CORPUS and --word need each other"),
        (["--sentence", "a"], "expected two sentences, got 1"),
        (["--sentence", "a", "--sentence", " "], "no token"),
        (["text.txt", "--word", "banks", "--word", "never"], "does not contain 'banks', 'never'"),
        (["text.txt", "--word", "BANK"], "Check the spelling, or add --ignore-case"),
    ],
)
def test_a_request_without_anything_to_show_is_refused(run, arguments, message):
    assert message in shown_by("senses", "model", *arguments, status=1)
    assert not Path("senses.html").exists()


@pytest.mark.processes
def test_a_page_on_standard_output_replaces_no_device(run, tmp_path):
    """The output is a link: if it were replaced, the machine would still have its /dev/stdout."""
    (tmp_path / "page.html").symlink_to("/dev/stdout")
    arguments = ("elmo", "senses", "model", *TWO, "-o", "page.html")
    page = run_python("-m", "spacy", *arguments, cwd=tmp_path)
    assert page.startswith("<!DOCTYPE html>") and page.endswith("</html>\n")
    assert (tmp_path / "page.html").is_symlink()


@pytest.mark.pipelines
def test_other_commands_write_pages(run, make_nlp):
    docs = [Doc(Vocab(), words=["a", "bank"], tags=["DT", "NN"]) for _ in range(2)]
    DocBin(docs=docs).to_disk("tags.spacy")
    make_nlp().to_disk("pipeline")

    def page(*arguments):
        Path("page.html").write_text("mine")
        arguments = (*arguments, "--html", "page.html")
        assert "exists already" in shown_by(*arguments, status=1)
        assert Path("page.html").read_text() == "mine"
        printed = run_elmo(*arguments, "--force").stdout
        return written("page.html")["sections"][0], printed

    asked = ("--sentence", "my bank", "--token", "bank", "-n", "3", "--json")
    neighbors, printed = page("neighbors", "model", "text.txt", *asked)
    assert (neighbors["before"], neighbors["itself"], neighbors["after"]) == ("my", "bank", "")
    for line, row in zip(neighbors["lines"], json.loads(printed)["neighbors"], strict=True):
        assert line["itself"] == row["word"]
        assert line["cosine"] == pytest.approx(row["similarity"], abs=1e-6)
    probe, _ = page("probe", "model", *["tags.spacy"] * 2, "--task", "tag", "--layers", "1")
    found = [(row["names"][1], row["figure"]) for row in probe["rows"]]
    assert found == [("-", "50.00%"), ("-", "100.00%"), ("layer 1", "100.00%")]
    assert page("mix", "pipeline")[0]["note"] == "No component mixes ELMo layers."
