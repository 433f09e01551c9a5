"""Tables of the results have the figures of the runs, and are written into the pages."""

import pytest

from helpers.scored_runs import make_damaged, make_run
from scripts.experiments.runs import write_runs
from scripts.figures.results import distinct, load
from scripts.figures.results_tables import fill, main

# Step and dev score. Only seeds that both have count; of equal best scores the first.
HISTORIES = {
    ("wnut17 tok2vec", 0): [(0, 0.0), (200, 0.4), (400, 0.4)],
    ("wnut17 tok2vec", 1): [(0, 0.0), (200, 0.3), (400, 0.5)],
    ("wnut17 tok2vec", 2): [(0, 0.9)],
    ("wnut17 input", 0): [(0, 0.0), (200, 0.4), (400, 0.6)],
    ("wnut17 input", 1): [(0, 0.0), (200, 0.6)],
    ("uner_ewt tok2vec", 0): [(0, 0.0), (200, 0.5)],
    ("uner_ewt input", 0): [(0, 0.0), (200, 0.5)],  # passed means more, not as much
}
NER = {"wnut17 tok2vec": [10, 10, 10], "wnut17 input": [20, 30], "uner_ewt tok2vec": [50]}
NER |= {"uner_ewt input": [50]}
MODELS = {"wnut17 input": 44.8, "uner_ewt input": 49.3}
SENSES = {"accuracy": 0.845, "word_accuracy": 0.84}
RUNS = [
    *(
        make_run(
            f"ner {row}",
            seed,
            {"ents_f": score / 100, "speed": 9},
            history=HISTORIES[row, seed],
            model={"perplexity": MODELS[row]} if row in MODELS else {},
        )
        for row, scores in NER.items()
        for seed, score in enumerate(scores)
    ),
    make_run("crf wnut17 tok2vec", 0, {"ents_f": 0.2}),
    make_run("crf wnut17 input", 0, {"ents_f": 0.36, "ents_p": 0.25}),
    make_run("crf wnut17 taglm", 0, {"ents_f": 0.9}),
    make_run("coref litbank_coref input", 0, {"coref_f": 0.6}),  # without a baseline
    make_run("qa new_wiki tok2vec", 0, {"qa_f1": 0.5}),
    make_run("qa new_wiki input", 0, {"qa_f1": 0.6}),
    make_run("domain wnut17 input", 0, {"ents_f": 0.5}, model={"perplexity": 84.62}),
    make_run("domain wnut17 domain", 0, {"ents_f": 0.5}),
    # These name their models.
    make_run("historical europeana_lft de_historical", 0, SENSES, model={"perplexity": 43.6}),
    make_run("historical europeana_lft en_small", 0, SENSES, model={"perplexity": 44.8}),
    *(
        make_run("sample_efficiency ud_ewt new", seed, {"tag_acc": share / 2}, share=share)
        for share, seed in ((1.0, 0), (1.0, 1), (0.03, 0))
    ),
    make_run("probe ud_ewt most frequent label", 0, {"accuracy": 0.1, "macro_f": 0.1}, task="tag"),
    make_run("probe ud_ewt layer 0", 0, {"accuracy": 0.8}, task="tag"),
    make_run("probe ud_ewt layer 0", 0, {"accuracy": 0.7}, task="dep"),
    make_run("senses homograph ", 0, SENSES, task="most frequent sense"),
    make_run("senses homograph layer 1", 0, SENSES, task="nearest neighbor"),
    make_damaged("robustness wnut17 tok2vec", 0, 0.3, 0.2),
    make_damaged("robustness wnut17 tok2vec", 1, 0.4, 0.3),
    make_damaged("robustness wnut17 transformer", 0, 0.5, 0.45),
]
ONE = "\n\nScores in percent; one seed."
SEVERAL = "\n\nScores in percent; mean and standard deviation over the seeds."
# The deviation of 20 and 30 is 10 / sqrt(2).
TABLES = {
    "ner": f"""
| data | variant | perplexity | entity F | seeds |
| --- | --- | ---: | ---: | ---: |
| WNUT17 | without ELMo | - | 10.0 ± 0.0 | 3 |
| WNUT17 | ELMo at the input | 44.8 | 25.0 ± 7.1 | 2 |
| UNER EWT | without ELMo | - | 50.0 | 1 |
| UNER EWT | ELMo at the input | 49.3 | 50.0 | 1 |{SEVERAL}""",
    "crf": f"""
| data | variant | entity F | precision | seeds |
| --- | --- | ---: | ---: | ---: |
| WNUT17 | without ELMo | 20.0 | - | 1 |
| WNUT17 | ELMo at the input | 36.0 | 25.0 | 1 |
| WNUT17 | TagLM | 90.0 | - | 1 |{ONE}""",
    "domain": f"""
| data | variant | perplexity | entity F | seeds |
| --- | --- | ---: | ---: | ---: |
| WNUT17 | ELMo at the input | 84.6 | 50.0 | 1 |
| WNUT17 | ELMo continued on the domain's text | - | 50.0 | 1 |{ONE}""",
    "historical": f"""
| data | variant | accuracy | mean of words | seeds |
| --- | --- | ---: | ---: | ---: |
| newspapers (LFT) | ELMo, `de_historical` | 84.5 | 84.0 | 1 |
| newspapers (LFT) | ELMo, `en_small` | 84.5 | 84.0 | 1 |{ONE}""",
    "sample_efficiency": f"""
| data | variant | score | 3 % | 100 % | seeds |
| --- | --- | --- | ---: | ---: | ---: |
| UD EWT | new | tag accuracy | 1.5 | 50.0 ± 0.0 | 1 to 2 |{SEVERAL}""",
    "probe": f"""
| data | task | score | most frequent label | layer 0 | seeds |
| --- | --- | --- | ---: | ---: | ---: |
| UD EWT | tag | accuracy | 10.0 | 80.0 | 1 |
| UD EWT | dep | accuracy | - | 70.0 | 1 |{ONE}""",
    "senses": f"""
| data | method | reads | accuracy | mean of words | seeds |
| --- | --- | --- | ---: | ---: | ---: |
| homographs | most frequent sense | - | 84.5 | 84.0 | 1 |
| homographs | nearest neighbor | layer 1 | 84.5 | 84.0 | 1 |{ONE}""",
    "robustness_damage": """
| data | damage | variant | 0 % | 10 % | seeds |
| --- | --- | --- | ---: | ---: | ---: |
| WNUT17 | keyboard | without ELMo | 35.0 | 25.0 | 2 |
| WNUT17 | keyboard | frozen MiniLM at the input | 50.0 | 45.0 | 1 |
| WNUT17 | ocr | without ELMo | 45.0 | 35.0 | 2 |
| WNUT17 | ocr | frozen MiniLM at the input | 60.0 | 55.0 | 1 |

Mean entity F in percent, by share of damaged words.""",
    "gain_all": f"""
| data | score | without ELMo | ELMo at the input | gain | error reduction | seeds | perplexity |
| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |
| WNUT17, CRF | entity F | 20.0 | 36.0 | +16.0 | 20.0 % | 1 | - |
| WNUT17 | entity F | 10.0 ± 0.0 | 25.0 ± 7.1 | +15.0 | 16.7 % | 2 to 3 | 44.8 |
| UNER EWT | entity F | 50.0 | 50.0 | +0.0 | 0.0 % | 1 | 49.3 |
| questions on Wikipedia | answer F | 50.0 | 60.0 | +10.0 | 20.0 % | 1 | - |{SEVERAL}""",
    # Those of the paper in its order, by the paper's models, and nothing without its baseline.
    "six_tasks": f"""
| task | model | data | score | without ELMo | ELMo at the input | gain | error reduction | seeds |
| --- | --- | --- | --- | ---: | ---: | ---: | ---: | ---: |
| question answering | BiDAF and self-attention | questions on Wikipedia | answer F \
| 50.0 | 60.0 | +10.0 | 20.0 % | 1 |
| named entities | biLSTM-CRF | WNUT17 | entity F | 20.0 | 36.0 | +16.0 | 20.0 % | 1 |{SEVERAL}""",
    "updates": """
| data | best dev score without ELMo | steps to it | steps with ELMo to pass it | seeds |
| --- | ---: | ---: | ---: | ---: |
| WNUT17 | 45.0 | 300 | 300 | 2 to 3 |
| UNER EWT | 50.0 | 200 | never | 1 |

Means over the seeds.""",
}


def page_of(tables):
    return "\n".join(
        f"# {name}\n<!-- results:{name} -->{table}<!-- /results:{name} -->\n"
        for name, table in tables.items()
    )


def test_tables_have_the_figures_of_the_runs(tmp_path, capsys):
    """Each table replaces an earlier one. Tables without runs stay."""
    page = tmp_path / "README.md"
    page.write_text(page_of(dict.fromkeys([*TABLES, "mix"], "kept")), "utf8")
    write_runs(RUNS, tmp_path / "runs")
    main([page, tmp_path / "missing.md"], tmp_path)
    filled = {name: f"\n{table}\n\n" for name, table in TABLES.items()}
    assert page.read_text("utf8") == page_of({**filled, "mix": "kept"})
    assert "missing.md does not exist" in " ".join(capsys.readouterr().out.split())
    main([page], tmp_path)
    assert "no changes" in " ".join(capsys.readouterr().out.split())
    page.write_text("<!-- results:ner -->", "utf8")
    with pytest.raises(SystemExit):
        main([page], tmp_path)
    assert page.read_text("utf8") == "<!-- results:ner -->"


@pytest.mark.parametrize(
    ("page", "message"),
    [
        ("<!-- results:nr --><!-- /results:nr -->", "no such experiment"),
        ("<!-- results:ner -->", "is not closed"),
        ("<!-- /results:ner --><!-- results:ner -->", "does not close it"),
        ("<!-- results:ner --><!-- /results:mix -->", "does not close it"),
    ],
)
def test_wrong_marks_are_refused(page, message):
    with pytest.raises(ValueError, match=message):
        fill(page, {"ner": "| new |"})


# The runs put together


def test_runs_are_ordered_by_corpus_and_variant(tmp_path):
    """Unknown names come last, in the order of the files."""
    rows = ["new b", "new a", "ud_ewt input", "wnut17 input", "ud_ewt tok2vec"]
    write_runs([make_run(f"tagger {row}", 0, {"tag_acc": 0.5}) for row in rows], tmp_path)
    expected = ["wnut17 input", "ud_ewt tok2vec", "ud_ewt input", "new b", "new a"]
    assert [f"{run.data} {run.variant}" for run in load(tmp_path)] == expected


def test_equal_runs_of_two_experiments_count_once():
    """Runs without a checksum of their settings are all different."""
    rows = [("ner", 0, "a"), ("place", 0, "a"), ("ner", 1, ""), ("ner", 2, ""), ("ner", 3, "b")]
    first, again, *others = (make_run(f"{name} wnut17 x", n, settings=key) for name, n, key in rows)
    assert distinct([first, *others, again]) == [first, *others]
