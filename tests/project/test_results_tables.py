import pytest

from scripts.experiments.runs import Run, write_runs
from scripts.figures.results import distinct, load
from scripts.figures.results_tables import (
    damage_table,
    fill,
    gain_table,
    main,
    six_tasks_table,
    table_of,
    updates_table,
)

NER = {"experiment": "ner", "data": "wnut17"}
NOTE = "\n\nScores in percent; mean and standard deviation over the seeds."
NOTE_OF_ONE = "\n\nScores in percent; one seed."


def test_a_column_a_score():
    runs = [
        Run(**NER, variant="tok2vec", seed=0, scores={"ents_f": 0.1, "ents_p": 0.25, "speed": 9}),
        Run(**NER, variant="input", seed=0, scores={"ents_f": 0.2}),
        Run(**NER, variant="input", seed=1, scores={"ents_f": 0.3}),
    ]
    # The deviation of 20 and 30 is 10 / sqrt(2).
    assert table_of(runs) == (
        "| data | variant | entity F | precision | seeds |\n"
        "| --- | --- | ---: | ---: | ---: |\n"
        "| WNUT17 | without ELMo | 10.0 | 25.0 | 1 |\n"
        "| WNUT17 | ELMo at the input | 25.0 ± 7.1 | - | 2 |" + NOTE
    )


def damaged(variant, seed, *scores):
    points = [
        {"damage": kind, "rate": rate, "score": score + (kind == "ocr") / 10}
        for kind in ("keyboard", "ocr")
        for rate, score in zip((0.0, 0.1), scores)
    ]
    common = {"experiment": "robustness", "data": "wnut17", "variant": variant, "seed": seed}
    return Run(**common, scores={"ents_f": scores[0]}, robustness=points)


def test_scores_by_share_of_damaged_words():
    runs = [
        damaged("tok2vec", 0, 0.3, 0.2),
        damaged("tok2vec", 1, 0.4, 0.3),
        damaged("transformer", 0, 0.5, 0.45),
    ]
    assert damage_table(runs) == (
        "| data | damage | variant | 0 % | 10 % | seeds |\n"
        "| --- | --- | --- | ---: | ---: | ---: |\n"
        "| WNUT17 | keyboard | without ELMo | 35.0 | 25.0 | 2 |\n"
        "| WNUT17 | keyboard | frozen MiniLM at the input | 50.0 | 45.0 | 1 |\n"
        "| WNUT17 | ocr | without ELMo | 45.0 | 35.0 | 2 |\n"
        "| WNUT17 | ocr | frozen MiniLM at the input | 60.0 | 55.0 | 1 |"
        "\n\nMean entity F in percent, by share of damaged words."
    )


def test_a_column_a_share():
    efficiency = {"experiment": "sample_efficiency", "data": "ud_ewt", "variant": "new"}
    runs = [
        Run(**efficiency, seed=seed, share=share, scores={"tag_acc": share / 2})
        for share, seeds in ((1.0, 2), (0.03, 1))
        for seed in range(seeds)
    ]
    assert table_of(runs) == (
        "| data | variant | score | 3 % | 100 % | seeds |\n"
        "| --- | --- | --- | ---: | ---: | ---: |\n"
        "| UD EWT | new | tag accuracy | 1.5 | 50.0 ± 0.0 | 1 to 2 |" + NOTE
    )


def test_a_column_a_layer():
    probe = {"experiment": "probe", "data": "ud_ewt", "seed": 0}
    runs = [
        Run(**probe, task=task, variant=variant, scores={"accuracy": score, "macro_f": 0.1})
        for task, variant, score in (
            ("tag", "most frequent label", 0.1),
            ("tag", "layer 0", 0.8),
            ("dep", "layer 0", 0.7),
        )
    ]
    assert table_of(runs) == (
        "| data | task | score | most frequent label | layer 0 | seeds |\n"
        "| --- | --- | --- | ---: | ---: | ---: |\n"
        "| UD EWT | tag | accuracy | 10.0 | 80.0 | 1 |\n"
        "| UD EWT | dep | accuracy | - | 70.0 | 1 |" + NOTE_OF_ONE
    )


def test_senses():
    senses = {"experiment": "senses", "data": "homograph", "seed": 0}
    scores = {"accuracy": 0.845, "word_accuracy": 0.84}
    runs = [
        Run(**senses, task="most frequent sense", variant="", scores=scores),
        Run(**senses, task="nearest neighbor", variant="layer 1", scores=scores),
    ]
    assert table_of(runs) == (
        "| data | method | reads | accuracy | mean of words | seeds |\n"
        "| --- | --- | --- | ---: | ---: | ---: |\n"
        "| homographs | most frequent sense | - | 84.5 | 84.0 | 1 |\n"
        "| homographs | nearest neighbor | layer 1 | 84.5 | 84.0 | 1 |" + NOTE_OF_ONE
    )


def test_gain_names_the_model_of_a_corpus_that_has_two():
    runs = [
        Run(experiment=name, data="wnut17", variant=variant, seed=0, scores={"ents_f": score})
        for name, variant, score in (
            *(("ner", "tok2vec", 0.1), ("ner", "input", 0.3)),
            *(("crf", "tok2vec", 0.2), ("crf", "input", 0.36), ("crf", "taglm", 0.9)),
        )
    ]
    assert gain_table(runs).splitlines()[2:4] == [
        "| WNUT17 | entity F | 10.0 | 30.0 | +20.0 | 22.2 % | 1 |",
        "| WNUT17, CRF | entity F | 20.0 | 36.0 | +16.0 | 20.0 % | 1 |",
    ]


def test_six_tasks_are_those_of_the_paper_in_its_order():
    """Of a corpus that two models read the paper's, and nothing without its baseline."""
    runs = [
        Run(experiment=name, data=data, variant=variant, seed=0, scores={score: value})
        for name, data, score, values in (
            ("ner", "wnut17", "ents_f", {"tok2vec": 0.1, "input": 0.3}),
            ("crf", "wnut17", "ents_f", {"tok2vec": 0.2, "input": 0.36, "taglm": 0.9}),
            ("coref", "litbank_coref", "coref_f", {"input": 0.6}),
            ("qa", "new_wiki", "qa_f1", {"tok2vec": 0.5, "input": 0.6}),
        )
        for variant, value in values.items()
    ]
    table = six_tasks_table(runs)
    assert table.splitlines()[:4] == [
        "| task | model | data | score | without ELMo | ELMo at the input | gain | error reduction"
        " | seeds |",
        "| --- | --- | --- | --- | ---: | ---: | ---: | ---: | ---: |",
        "| question answering | BiDAF and self-attention | questions on Wikipedia | answer F |"
        " 50.0 | 60.0 | +10.0 | 20.0 % | 1 |",
        "| named entities | biLSTM-CRF | WNUT17 | entity F | 20.0 | 36.0 | +16.0 | 20.0 % | 1 |",
    ]
    assert table.splitlines()[4] == ""
    assert six_tasks_table(runs[:2]) is None


def test_updates():
    """Seeds that both have; of equal best scores the first; passed means more, not as much."""
    histories = {
        ("tok2vec", 0): [(0, 0.0), (200, 0.4), (400, 0.4)],
        ("tok2vec", 1): [(0, 0.0), (200, 0.3), (400, 0.5)],
        ("tok2vec", 2): [(0, 0.9)],
        ("input", 0): [(0, 0.0), (200, 0.4), (400, 0.6)],
        ("input", 1): [(0, 0.0), (200, 0.6)],
    }
    runs = [
        Run(**NER, variant=variant, seed=seed, scores={"ents_f": 0.5}, history=history)
        for (variant, seed), history in histories.items()
    ]
    row = "| WNUT17 | 45.0 | 300 | 300 | 2 to 3 |"
    assert updates_table(runs).splitlines()[2] == row
    runs[-1].history = [(0, 0.0), (200, 0.5)]
    assert updates_table(runs).splitlines()[2] == row.replace("| 300 | 2", "| never | 2")
    assert updates_table([Run(**NER, variant="input", seed=0, scores={})]) is None


def test_perplexity_of_models_that_are_compared():
    compared = {"experiment": "domain", "data": "wnut17", "seed": 0, "scores": {"ents_f": 0.5}}
    runs = [
        Run(**compared, variant=variant, model={"perplexity": perplexity})
        for variant, perplexity in (("input", 84.62), ("domain", None))
    ]
    assert table_of(runs).splitlines()[2:4] == [
        "| WNUT17 | ELMo at the input | 84.6 | 50.0 | 1 |",
        "| WNUT17 | ELMo continued on the domain's text | - | 50.0 | 1 |",
    ]


def test_perplexity_where_runs_have_two_versions_of_the_model():
    def run(experiment, data, variant, perplexity):
        model = {"perplexity": perplexity}
        scores = {"ents_f": 0.5}
        return Run(
            experiment=experiment, data=data, variant=variant, seed=0, scores=scores, model=model
        )

    runs = [
        run(experiment, data, variant, perplexity)
        for experiment, data, perplexity in (("ner", "wnut17", 44.8), ("ner", "uner_ewt", 49.3))
        for variant in ("tok2vec", "input")
    ]
    for one in runs[::2]:
        one.model = {}
    assert gain_table(runs).splitlines()[2:4] == [
        "| WNUT17 | entity F | 50.0 | 50.0 | +0.0 | 0.0 % | 1 | 44.8 |",
        "| UNER EWT | entity F | 50.0 | 50.0 | +0.0 | 0.0 % | 1 | 49.3 |",
    ]
    assert table_of(runs).splitlines()[2:4] == [
        "| WNUT17 | without ELMo | - | 50.0 | 1 |",
        "| WNUT17 | ELMo at the input | 44.8 | 50.0 | 1 |",
    ]
    assert "perplexity" not in gain_table(runs[:2]) + table_of(runs[:2])
    others = [
        run("historical", "europeana_lft", name, number)
        for name, number in (("de_historical", 43.6), ("en_small", 44.8))
    ]
    assert "perplexity" not in table_of(others)


PAGE = (
    "a\n<!-- results:ner -->\nold\n<!-- /results:ner -->\n"
    "b\n<!-- results:mix -->kept<!-- /results:mix -->"
)


def test_fill():
    filled = fill(PAGE, {"ner": "| new |"})
    assert filled == PAGE.replace("\nold\n", "\n\n| new |\n\n")
    assert fill(filled, {"ner": "| new |"}) == filled
    assert fill("no marks", {"ner": "| new |"}) == "no marks"


@pytest.mark.parametrize(
    ("page", "message"),
    [
        ("<!-- results:nr --><!-- /results:nr -->", "no such experiment"),
        ("<!-- results:ner -->", "is not closed"),
        ("<!-- /results:ner --><!-- results:ner -->", "does not close it"),
        ("<!-- results:ner --><!-- /results:mix -->", "does not close it"),
        ("<!-- results:ner --><!-- results:ner -->", "does not close it"),
    ],
)
def test_marks_that_are_wrong(page, message):
    with pytest.raises(ValueError, match=message):
        fill(page, {"ner": "| new |"})


def test_pages(tmp_path, capsys):
    page = tmp_path / "README.md"
    page.write_text(PAGE, "utf8")
    run = Run(**NER, variant="input", seed=0, scores={"ents_f": 0.2})
    write_runs([run], tmp_path / "runs")
    main([page], tmp_path)
    assert "| WNUT17 | ELMo at the input | 20.0 | 1 |" in page.read_text("utf8")
    assert ">kept<" in page.read_text("utf8")
    capsys.readouterr()
    main([page], tmp_path)
    assert "no changes" in " ".join(capsys.readouterr().out.split())
    page.write_text("<!-- results:ner -->", "utf8")
    with pytest.raises(SystemExit):
        main([page], tmp_path)
    assert page.read_text("utf8") == "<!-- results:ner -->"


# The runs put together


ELMO = {"experiment": "ner", "data": "wnut17", "variant": "elmo"}


def test_order(tmp_path):
    """By corpus and variant as the results name them; what they do not name as in the files."""
    names = [("new", "b"), ("new", "a"), ("ud_ewt", "input"), ("wnut17", "input")]
    names += [("ud_ewt", "tok2vec")]
    scores = {"tag_acc": 0.5}
    runs = [
        Run(experiment="tagger", data=data, variant=variant, seed=0, scores=scores)
        for data, variant in names
    ]
    write_runs(runs, tmp_path)
    expected = [("wnut17", "input"), ("ud_ewt", "tok2vec"), ("ud_ewt", "input")]
    expected += [("new", "b"), ("new", "a")]
    assert [(run.data, run.variant) for run in load(tmp_path)] == expected


def test_distinct():
    """Equal runs of two experiments count once; those that do not say are all different."""
    scores = {"ents_f": 0.1}
    first = Run(**ELMO, seed=0, scores=scores, settings="a")
    again = Run(**{**ELMO, "experiment": "place"}, seed=0, scores=scores, settings="a")
    others = [
        Run(**ELMO, seed=seed, scores=scores, settings="b" * (seed > 2)) for seed in (1, 2, 3)
    ]
    assert distinct([first, *others, again]) == [first, *others]
