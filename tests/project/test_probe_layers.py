"""Probes of layers become runs, and a repeated probe replaces only itself."""

import pytest
import spacy
from spacy.tokens import Doc, DocBin, Span

from scripts.experiments.probe_layers import main, same_probe
from scripts.experiments.runs import Run, read_runs, write_runs
from scripts.figures.results import group


@pytest.fixture
def corpus(tmp_path):
    vocab = spacy.blank("en").vocab
    docs = [Doc(vocab, words=["the", "bank", i], tags=["DT", "NN", "CD"]) for i in "012345"]
    for number, doc in enumerate(docs):
        doc.spans["senses"] = [Span(doc, 1, 2, "river" if number % 3 else "money")]
    DocBin(docs=docs).to_disk(tmp_path / "a.spacy")
    return tmp_path / "a.spacy"


@pytest.mark.commands
def test_probes_become_runs(corpus, tmp_path, tiny_weights):
    out = tmp_path / "runs"
    tasks = ["tag", "senses:senses"]
    main(str(tiny_weights), "toy", corpus, corpus, tasks, [0, 1], limit=9, plan="full", runs=out)
    assert sorted(path.name for path in out.glob("*.json*")) == ["probe.jsonl", "senses.jsonl"]
    by_seed = group(read_runs(out), "seed")
    assert list(by_seed) == [(0,), (1,)]
    for runs in by_seed.values():
        reads = ["layer 0", "layer 1", "layer 2", "average"]
        found = group(runs, "experiment", "task")
        baselines = ["most frequent label", "most frequent label of the word"]
        assert [run.variant for run in found["probe", "tag"]] == baselines + reads
        assert found["probe", "tag"][0].scores["accuracy"] == pytest.approx(1 / 3)
        (baseline,) = found["senses", "most frequent sense"]
        assert (baseline.variant, baseline.scores["accuracy"]) == ("", pytest.approx(4 / 6))
        for method in ("nearest neighbor", "logistic regression"):
            assert [run.variant for run in found["senses", method]] == reads


def test_a_repeated_probe_replaces_its_rows(tmp_path):
    """Rows of other seeds, tasks and corpora stay."""
    probe = {"experiment": "probe", "data": "toy", "task": "tag", "seed": 0}
    earlier = Run(**probe, variant="layer 9", scores={"accuracy": 0.5})
    others = [{"seed": 1}, {"task": "pos"}, {"data": "toys"}]
    kept = [Run(**{**probe, **other}, variant="layer 9", scores={}) for other in others]
    write_runs([earlier, *kept], tmp_path)
    again = Run(**probe, variant="layer 0", scores={"accuracy": 0.6})
    write_runs([again], tmp_path, outdated=same_probe(again))
    assert read_runs(tmp_path) == [*kept, again]
    senses = {"experiment": "senses", "data": "toy", "seed": 0, "variant": "layer 1", "scores": {}}
    assert same_probe(Run(**senses, task="nearest neighbor"))(Run(**senses, task="other method"))
