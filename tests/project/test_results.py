"""The figures of the project's runs, read and put together."""

import json
import math

import pytest

from scripts.figures.results import Run, distinct, group, load, save, summarize

NER = {"experiment": "ner", "data": "wnut17", "variant": "elmo"}


def test_what_is_saved_is_loaded(tmp_path):
    mixes = {"ner": [{"weights": [0.2, 0.5, 0.3], "gamma": 1.5}]}
    one = Run(**NER, seed=0, scores={"ents_f": 0.25}, mixes=mixes, seconds=12.5, notes="kept")
    probe = {"experiment": "probe", "data": "ud_ewt", "task": "tag", "seed": 1}
    two = [Run(**probe, variant=name, scores={"accuracy": 1}) for name in ("layer 0", "layer 1")]
    save([one], tmp_path / "new" / "a.json")
    save(two, tmp_path / "new" / "b.json")
    assert load(tmp_path / "new") == [one, *two]
    assert json.loads((tmp_path / "new" / "a.json").read_text())["scores"] == {"ents_f": 0.25}
    assert [one.name, two[1].name] == ["ner-wnut17-elmo-1-0", "probe-ud_ewt-tag-layer_1-1-1"]
    assert load(tmp_path / "missing") == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "a.json is not JSON"),
        (json.dumps({**NER, "scores": {}}), "a.json: 'seed': Field required"),
        (json.dumps({**NER, "seed": 0, "scores": {"x": {}}}), "a.json: 'scores.x'"),
        (json.dumps({**NER, "seed": 0, "scores": {}, "experiment": "nr"}), "'experiment'"),
        ("[3]", "a.json"),
    ],
)
def test_files_that_hold_no_run(tmp_path, text, message):
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(ValueError, match=message):
        load(tmp_path)


def test_the_same_run_twice(tmp_path):
    for name, score in (("a", 0.1), ("b", 0.2)):
        save([Run(**NER, seed=0, scores={"ents_f": score})], tmp_path / f"{name}.json")
    with pytest.raises(ValueError, match=r"b.json and .*a.json both hold the run ner-wnut17-elmo"):
        load(tmp_path)


def test_mean_and_spread():
    values = [0.2, 0.5, 0.3]
    runs = [Run(**NER, seed=i, scores={"ents_f": value}) for i, value in enumerate(values)]
    other = Run(**{**NER, "variant": "tok2vec"}, seed=0, scores={"ents_f": 0.1})
    assert group([other, *runs], "variant") == {("tok2vec",): [other], ("elmo",): runs}
    mean = (0.2 + 0.5 + 0.3) / 3
    deviation = math.sqrt(sum((value - mean) ** 2 for value in values) / 2)
    assert summarize(runs, "ents_f") == pytest.approx((mean, deviation, 3))
    assert summarize([other], "ents_f") == (0.1, None, 1)
    assert summarize(runs, "accuracy") is None


def test_distinct():
    """Equal runs of two experiments count once; those that do not say are all different."""
    scores = {"ents_f": 0.1}
    first = Run(**NER, seed=0, scores=scores, settings="a")
    again = Run(**{**NER, "experiment": "place"}, seed=0, scores=scores, settings="a")
    others = [Run(**NER, seed=seed, scores=scores, settings="b" * (seed > 2)) for seed in (1, 2, 3)]
    assert distinct([first, *others, again]) == [first, *others]
