"""`spacy elmo init-training` writes a config that `spacy train` reads."""

import pytest
import spacy
from spacy.cli.debug_config import debug_config
from spacy.cli.train import train
from spacy.tokens import DocBin
from thinc.api import Config

from spacy_elmo.pipeline.mixes import learned_mixes

from helpers.commands import shown_by
from helpers.components import annotated

pytestmark = [pytest.mark.commands, pytest.mark.pipelines]

ALL = "ner,textcat,tagger,morphologizer,parser,spancat,senter,lemmatizer"


@pytest.fixture
def folder(here):
    """Docs with every annotation."""
    docs = [annotated(spacy.blank("en").vocab)] * 40
    DocBin(docs=docs, store_user_data=True).to_disk(here / "data.spacy")
    return here


def run(*arguments, status=0):
    return shown_by("init-training", *arguments, status=status)


@pytest.mark.training
def test_every_component_trains(folder, tiny_weights):
    """The config is complete, and each component learns a mix of its own."""
    data = ("--train", "data.spacy", "--dev", "data.spacy")
    run("a.cfg", "--pipeline", ALL, "--weights", tiny_weights, "--lang", "en", *data)
    overrides = {"training.max_steps": 2, "training.eval_frequency": 2}
    debug_config(folder / "a.cfg", overrides=overrides)
    train(folder / "a.cfg", folder / "out", overrides=overrides)
    nlp = spacy.load(folder / "out" / "model-last")
    names = [*ALL.split(",")[:-1], "trainable_lemmatizer"]
    assert nlp.pipe_names == ["elmo", *names]
    mixes = learned_mixes(nlp)
    assert [mix["component"] for mix in mixes] == names
    assert all(len(mix["weights"]) == 3 and mix["gamma"] != 1.0 for mix in mixes)
    assert all(nlp.get_pipe(name).labels for name in names)
    config = Config().from_disk("a.cfg")
    assert config["components"]["elmo"]["model"]["lstm_dim"] == 12
    assert set(config["components"]["elmo"]) >= {"features", "segmenter", "precision"}


def test_the_config_has_the_paths_and_the_language_of_the_weights(folder):
    names = ("--pipeline", "textcat, sentencizer")
    shown = run("a config.cfg", *names, "--weights", "german")
    assert "'sentencizer' has no tok2vec" in shown
    assert "train 'a config.cfg' --output training --paths.train train.spacy --paths.dev" in shown
    config = Config().from_disk("a config.cfg", interpolate=False)
    assert config["nlp"]["lang"] == "de"
    assert config["nlp"]["pipeline"] == ["elmo", "textcat", "sentencizer"]
    assert config["paths"]["elmo"] == "german"  # which is not downloaded
    assert config["components"]["elmo"]["weights"] == "${paths.elmo}"
    printed = run("-", "--train", "data.spacy")
    assert printed.startswith("[paths]")
    assert 'train = "data.spacy" dev = null' in printed
    assert 'elmo = "en_small"' in printed


@pytest.mark.parametrize(
    ("pipeline", "train", "reader"),
    [
        ("elmo_textpair", None, "spacy-elmo.TextPairCorpus.v1"),
        ("elmo_qa", "data.spacy", "spacy-elmo.QACorpus.v1"),
        ("elmo_srl", "data.jsonl", "spacy-elmo.SRLCorpus.v1"),
        ("elmo_coref", "data.jsonl", "spacy-elmo.CorefCorpus.v1"),
        ("elmo_crf", "data.jsonl", "spacy-elmo.BIOCorpus.v1"),
        ("elmo_coref", "data.spacy", "spacy-elmo.CorefCorpus.v1"),
        ("elmo_srl", None, "spacy.Corpus.v1"),
        ("elmo_crf,elmo_srl", "data.spacy", "spacy.Corpus.v1"),
    ],
)
def test_a_task_gets_its_own_reader(folder, pipeline, train, reader):
    (folder / "data.jsonl").write_text("", "utf8")
    run("a.cfg", "--pipeline", pipeline, *(("--train", train) if train else ()))
    corpora = Config().from_disk("a.cfg", interpolate=False)["corpora"]
    assert corpora["train"]["@readers"] == corpora["dev"]["@readers"] == reader
    assert corpora["train"]["path"] == "${paths.train}"
    name = pipeline.split(",")[-1]
    tok2vec = Config().from_disk("a.cfg")["components"][name]["model"]["tok2vec"]
    if name == "elmo_crf":
        assert tok2vec["encode"] and tok2vec["embed"]["width"]
    else:
        assert tok2vec["@architectures"] == "spacy-elmo.ConcatEmbed.v1"
        assert tok2vec["width"] is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ner", "--train", "data.jsonl"], "data.jsonl: data for ner must be a .spacy file"),
        (["elmo_srl,ner", "--train", "data.jsonl"], "srl and ner learn from files of different"),
        (["elmo_qa,elmo_textpair"], "elmo_qa and elmo_textpair learn from files"),
        (["ner,textcta"], "no component 'textcta'"),
        (["ner", "--lang", "qq"], "spaCy has no tokenizer for 'qq'. Set --lang"),
        ([","], "names of trainable components"),
        (["sentencizer"], "no component of sentencizer has a tok2vec"),
    ],
)
def test_impossible_pipelines_are_refused(folder, arguments, message):
    (folder / "data.jsonl").write_text("", "utf8")
    assert message in run("a.cfg", "--pipeline", *arguments, status=1)
    assert not (folder / "a.cfg").exists()
