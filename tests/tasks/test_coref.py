"""The component `elmo_coref`: it learns, with any tok2vec; what it has learned is kept."""

import pickle
import shutil
import subprocess
import sys

import numpy as np
import pytest
import spacy
import torch
from spacy.cli.package import package
from spacy.tokens import Doc, DocBin
from spacy.training import Example

from spacy_elmo.tasks.coref_clusters import read_clusters, write_clusters
from spacy_elmo.tasks.coref_corpus import make_doc
from spacy_elmo.tasks.coref_model import DocRanker
from spacy_elmo.tasks.torch_module import get_module_shim

from components import concat_input, embed, listener
from coref_docs import TEXTS, WITHOUT_ELMO, coref, examples, found_by, gold, train


@pytest.fixture
def make(make_nlp):
    """Makes a pipeline with the component, and before it `elmo` if need be."""

    def make(tok2vec, *, elmo=False, **settings):
        nlp = make_nlp() if elmo else spacy.blank("en")
        nlp.add_pipe("elmo_coref", config=coref(tok2vec, **settings))
        return nlp

    return make


@pytest.fixture(scope="module")
def trained():
    """A pipeline without ELMo that knows its training texts."""
    spacy.util.fix_random_seed(0)
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo_coref", config=coref(WITHOUT_ELMO))
    train(nlp)
    return nlp


def words_of(doc):
    return {key: [span.text for span in spans] for key, spans in doc.spans.items()}


def test_it_learns_from_elmo_alone(make):
    """From vectors of random weights, which tell little."""
    spacy.util.fix_random_seed(0)
    nlp = make(listener(layer_norm=True), elmo=True)
    assert 0.4 < nlp.evaluate(train(nlp))["coref_f"] <= 1.0


@pytest.mark.parametrize("tok2vec", [concat_input(), WITHOUT_ELMO])
def test_it_learns(make, tok2vec):
    spacy.util.fix_random_seed(0)
    nlp = make(tok2vec, elmo=tok2vec is not WITHOUT_ELMO)
    data = train(nlp)
    scores = nlp.evaluate(data)
    assert scores["coref_f"] == scores["coref_lea_f"] == scores["coref_mentions_f"] == 1.0
    assert words_of(nlp("Tom ran home . He was late .")) == {
        "coref_clusters_1": ["Tom", "He"],
        "coref_clusters_2": ["home"],
    }
    assert words_of(nlp("It rained .")) == {}
    assert words_of(nlp("")) == {}


def test_it_listens_to_a_tok2vec():
    spacy.util.fix_random_seed(0)
    nlp = spacy.blank("en")
    nlp.add_pipe("tok2vec", config={"model": WITHOUT_ELMO})
    nlp.add_pipe(
        "elmo_coref", config=coref({"@architectures": "spacy.Tok2VecListener.v1", "width": 16})
    )
    train(nlp, steps=1)
    untrained = nlp.get_pipe("tok2vec").model.to_bytes()
    assert nlp.evaluate(train(nlp))["coref_f"] == 1.0
    assert nlp.get_pipe("tok2vec").model.to_bytes() != untrained


def test_default_config(tiny_weights):
    """It trains where nothing but the pipes' names is said."""
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", config={"weights": str(tiny_weights)})
    listening = {**listener(), "mix": {"@architectures": "spacy-elmo.ScalarMix.v1"}}
    nlp.add_pipe("elmo_coref", config={"model": {"tok2vec": listening}})
    data = examples(nlp)
    losses = []
    optimizer = nlp.initialize(lambda: data)
    for _ in range(15):
        losses.append(nlp.update(data, sgd=optimizer)["elmo_coref"])
    assert losses[-1] < 0.7 * losses[0]


def test_without_singletons(make):
    """Clusters of one in the corpus are neither learned, nor predicted, nor scored."""
    spacy.util.fix_random_seed(0)
    nlp = make(WITHOUT_ELMO, singletons=False)
    data = train(nlp)
    assert nlp.evaluate(data)["coref_f"] == 1.0
    more = [[cluster for cluster in found if len(cluster) > 1] for found in gold()]
    assert found_by(nlp) == more


def test_the_language_model_reads_a_sentence_once(make, computed):
    nlp = make(listener(), elmo=True)
    nlp.initialize(lambda: examples(nlp))
    computed.clear()
    nlp(TEXTS[0][0])
    words = TEXTS[0][0].split()
    assert computed == [tuple(words[:4]), tuple(words[4:])]


def test_features_of_the_language_model_are_kept(make, computed):
    """A frozen one reads a training sentence in the first epoch alone."""
    nlp = make(listener(), elmo=True)
    data = examples(nlp)
    optimizer = nlp.initialize(lambda: data)
    nlp.update(data, sgd=optimizer)
    assert computed
    computed.clear()
    for _ in range(2):
        nlp.update(data, sgd=optimizer)
    assert computed == []


def test_training_reads_some_sentences(make, monkeypatch):
    nlp = make(WITHOUT_ELMO, max_training_sentences=2)
    text = " ".join(f"Tom saw {i} ." for i in range(5))
    doc = make_doc(nlp.vocab, text.split(), [[(0, 1), (4, 5)]], range(0, 20, 4))
    data = [Example(Doc(nlp.vocab, words=text.split(), sent_starts=[1, 0, 0, 0] * 5), doc)]
    nlp.initialize(lambda: data)
    read = []
    rank = DocRanker.__call__

    def remember(self, number, segments):
        read.append([one.start for one in segments])
        return rank(self, number, segments)

    monkeypatch.setattr(DocRanker, "__call__", remember)
    spacy.util.fix_random_seed(0)
    for _ in range(40):
        nlp.get_pipe("elmo_coref").update(data)
    assert {tuple(one) for one in read} == {(i, i + 4) for i in range(0, 16, 4)}
    read.clear()
    nlp(data[0].predicted)
    assert read == [[0, 4, 8, 12, 16]]
    nlp.get_pipe("elmo_coref").max_training_sentences = 0
    nlp.get_pipe("elmo_coref").update(data)
    assert read[1] == read[0]


@pytest.mark.parametrize("singletons", [True, False])
def test_gradients(make, singletons):
    """Of the weights, of both losses, through the tok2vec, by finite differences."""
    spacy.util.fix_random_seed(0)
    nlp = make(WITHOUT_ELMO, singletons=singletons, mention_loss=0.3)
    data = examples(nlp)
    nlp.initialize(lambda: data)
    pipe = nlp.get_pipe("elmo_coref")
    rng = np.random.default_rng(0)
    nodes = [(node, name) for node in pipe.model.walk() for name in node.param_names]
    for node, name in nodes:
        shape = node.get_param(name).shape
        node.set_param(name, rng.normal(scale=0.3, size=shape).astype("float32"))
    module = get_module_shim(pipe.model.get_ref("head")).module
    with torch.no_grad():  # spans whose scores are far apart stay what they are
        for values in module.parameters():
            values.copy_(torch.from_numpy(rng.normal(scale=0.2, size=values.shape)))
    pipe.update(data)
    gradients = [node.get_grad(name).copy() for node, name in nodes]

    def loss():
        return pipe.update(data, losses={})["elmo_coref"]

    for (node, name), gradient in zip(nodes, gradients):
        values = node.get_param(name)
        direction = rng.normal(size=values.shape).astype("float32")
        around = []
        for step in (3e-4, -3e-4):
            node.set_param(name, values + np.float32(step) * direction)
            around.append(loss())
        node.set_param(name, values)
        expected = (around[0] - around[1]) / 6e-4
        found = float((gradient * direction).sum())
        assert found == pytest.approx(expected, rel=0.02, abs=0.01), (node.name, name)


def test_loss_of_rankings(trained):
    """`get_loss` is what `update` adds up."""
    pipe = trained.get_pipe("elmo_coref")
    data = examples(trained)
    rankings = [
        pipe.model.predict([one.predicted])(0, pipe.segmenter(one.predicted))[0] for one in data
    ]
    loss, gradients = pipe.get_loss(data, rankings)
    assert loss == pytest.approx(pipe.update(data)["elmo_coref"], rel=1e-4)
    for ranking, (d_mentions, d_pairs) in zip(rankings, gradients):
        assert d_mentions.shape == ranking.mention_scores.shape
        assert d_pairs.shape == ranking.pair_scores.shape


# What is kept


def test_disk_bytes_and_pickle(trained, tmp_path):
    assert found_by(trained) == gold()
    trained.to_disk(tmp_path / "pipeline")
    copy = spacy.blank("en")
    copy.add_pipe("elmo_coref", config=coref(WITHOUT_ELMO))
    for loaded in (
        spacy.load(tmp_path / "pipeline"),
        copy.from_bytes(trained.to_bytes()),
        pickle.loads(pickle.dumps(trained)),
    ):
        assert found_by(loaded) == gold()
        assert loaded.evaluate(examples(loaded))["coref_f"] == 1.0


def in_new_process(code):
    """What a program prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_package(trained, tmp_path):
    """It is loaded in a new process, and finds the same."""
    trained.to_disk(tmp_path / "pipeline")
    settings = {"name": "tiny", "version": "1.2.3", "create_sdist": False, "create_wheel": True}
    package(tmp_path / "pipeline", tmp_path, **settings)
    wheel = next((tmp_path / "en_tiny-1.2.3" / "dist").glob("*.whl"))
    shutil.unpack_archive(wheel, tmp_path / "site", "zip")
    texts = [text for text, *_ in TEXTS]
    printed = in_new_process(
        f"import sys; sys.path.insert(0, {str(tmp_path / 'site')!r}); import en_tiny;"
        "from spacy_elmo.tasks.coref_clusters import read_clusters;"
        f"print([read_clusters(doc) or [] for doc in en_tiny.load().pipe({texts!r})])"
    )
    assert printed.strip() == str(gold())


@pytest.mark.slow
def test_memory_of_a_long_document(trained, tmp_path):
    """Of 10,000 tokens with the paper's sizes, in MB beyond the loaded model: the limit is a
    fourth of what is promised."""
    tok2vec = {**WITHOUT_ELMO, "embed": embed(256)}
    sizes = {"encoder_width": 400, "hidden_width": 150, "max_antecedents": 250}
    settings = coref({**tok2vec, "encode": {**tok2vec["encode"], "width": 256}})
    settings["model"] |= {**sizes, "max_span_width": 10, "spans_per_word": 0.4}
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo_coref", config=settings)
    nlp.initialize(lambda: examples(nlp))
    nlp.to_disk(tmp_path)
    printed = in_new_process(
        "import resource, spacy; from spacy.tokens import Doc;"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024;"
        f"nlp = spacy.load({str(tmp_path)!r}); nlp('Tom ran .'); before = peak();"
        "words = [str(i % 977) for i in range(10000)];"
        "doc = Doc(nlp.vocab, words=words, sent_starts=[i % 25 == 0 for i in range(10000)]);"
        "nlp(doc); print(peak() - before)"
    )
    assert 10 < float(printed) < 500


def test_processes(trained):
    texts = [text for text, *_ in TEXTS]
    found = [read_clusters(doc) or [] for doc in trained.pipe(texts, n_process=2, batch_size=2)]
    assert found == gold()


def test_doc_bin_keeps_clusters(trained):
    doc = trained(TEXTS[0][0])
    (loaded,) = DocBin().from_bytes(DocBin(docs=[doc]).to_bytes()).get_docs(doc.vocab)
    assert words_of(loaded) == words_of(doc) != {}


@pytest.mark.parametrize("tok2vec", [listener(), concat_input()])
def test_replaced_listeners(make, tmp_path, tok2vec):
    spacy.util.fix_random_seed(0)
    nlp = make(tok2vec, elmo=True)
    train(nlp, steps=10)
    expected = found_by(nlp)
    place = "model.tok2vec" if tok2vec == listener() else "model.tok2vec.embed.elmo"
    nlp.replace_listeners("elmo", "elmo_coref", [place])
    nlp.to_disk(tmp_path / "pipeline")
    assert found_by(spacy.load(tmp_path / "pipeline", exclude=["elmo"])) == expected


def test_clusters_of_before_are_replaced(trained):
    doc = trained.make_doc(TEXTS[1][0])
    write_clusters(doc, [[(5, 6)]] * 3)
    doc.spans["coref_clusters_other"] = []
    doc.spans["coref_clusters_1_2"] = []
    assert list(trained(doc).spans) == [
        *("coref_clusters_other", "coref_clusters_1_2"),
        *("coref_clusters_1", "coref_clusters_2"),
    ]


def test_other_keys(make):
    spacy.util.fix_random_seed(0)
    nlp = make(WITHOUT_ELMO, span_cluster_prefix="chains")
    data = examples(nlp)
    with pytest.raises(ValueError, match="chains_1"):
        nlp.initialize(lambda: data)
    for example in data:
        write_clusters(example.reference, read_clusters(example.reference), "chains")
    optimizer = nlp.initialize(lambda: data)
    optimizer.learn_rate = 0.01
    for _ in range(50):
        nlp.update(data, sgd=optimizer)
    assert nlp.evaluate(data)["coref_f"] == 1.0
    assert set(nlp(TEXTS[0][0]).spans) == {"chains_1", "chains_2"}
