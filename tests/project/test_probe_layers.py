import pytest
import spacy
from spacy.tokens import Doc, DocBin, Span

from scripts.experiments.probe_layers import main
from scripts.figures.results import group, load


@pytest.fixture
def corpus(tmp_path):
    vocab = spacy.blank("en").vocab
    docs = []
    for number in range(6):
        doc = Doc(vocab, words=["the", "bank", str(number)], tags=["DT", "NN", "CD"])
        doc.spans["senses"] = [Span(doc, 1, 2, "river" if number % 3 else "money")]
        docs.append(doc)
    DocBin(docs=docs).to_disk(tmp_path / "a.spacy")
    return tmp_path / "a.spacy"


def test_probes_become_runs(corpus, tmp_path, tiny_weights):
    out = tmp_path / "runs"
    tasks = ["tag", "senses:senses"]
    main(str(tiny_weights), "toy", corpus, corpus, out, tasks, seed=[0, 1], limit=9)
    assert sorted(path.name for path in out.iterdir()) == [
        "probe-toy-senses_senses-0.json",
        "probe-toy-senses_senses-1.json",
        "probe-toy-tag-0.json",
        "probe-toy-tag-1.json",
    ]
    by_seed = group(load(out), "seed")
    assert list(by_seed) == [(0,), (1,)]
    for runs in by_seed.values():
        reads = ["layer 0", "layer 1", "layer 2", "average"]
        found = group(runs, "experiment", "task")
        baselines = ["most frequent label", "most frequent label of the word"]
        assert [run.variant for run in found["probe", "tag"]] == baselines + reads
        assert found["probe", "tag"][0].scores["accuracy"] == pytest.approx(1 / 3)
        (baseline,) = found["senses", "most frequent sense"]
        assert (baseline.variant, baseline.scores["accuracy"]) == ("", pytest.approx(4 / 6))
        for method in ("nearest neighbour", "logistic regression"):
            assert [run.variant for run in found["senses", method]] == reads
