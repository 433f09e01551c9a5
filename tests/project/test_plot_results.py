"""The pictures show the means of the runs, and can be read on any page."""

from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import srsly
from matplotlib.figure import Figure

from helpers.scored_runs import make_damaged, make_run
from scripts.experiments.runs import write_runs
from scripts.figures import plot_results, plotting


def mixes(*weights):
    return {"ner": [{"weights": one, "gamma": 1.0} for one in weights]}


EFFICIENCY = [
    make_run(
        f"sample_efficiency uner_ewt {variant}",
        seed,
        {"ents_f": base + share / 10 + seed / 100, "speed": 1000.0},
        share=share,
        mixes=mixes([1, 0]),
    )
    for variant, base in (("tok2vec", 0.2), ("input", 0.3))
    for share in (1.0, 0.1)
    for seed in (0, 1, 3)
]
LEARNED = [
    make_run("ner wnut17 input", 0, mixes=mixes([0.2, 0.3, 0.5])),
    make_run("ner wnut17 input", 1, mixes=mixes([0.4, 0.3, 0.3])),
    make_run("ner wnut17 input_output", 0, mixes=mixes([0.1, 0.8, 0.1], [0.6, 0.2, 0.2])),
    make_run("ner wnut17 average", 0, mixes=mixes([1 / 3] * 3)),
]
ACCURACIES = {"most frequent label": 0.1, "most frequent label of the word": 0.7}
ACCURACIES |= {"layer 0": 0.72, "layer 1": 0.9, "layer 2": 0.86, "average": 0.91}
PROBES = [
    *(
        make_run(f"probe ud_ewt {name}", 0, {"accuracy": score}, task="tag")
        for name, score in ACCURACIES.items()
    ),
    make_run("senses homograph ", 0, {"accuracy": 0.8}, task="most frequent sense"),
    make_run("senses homograph layer 1", 0, {"accuracy": 0.95}, task="nearest neighbor"),
    make_run("senses homograph layer 1", 0, {"accuracy": 0.96}, task="logistic regression"),
]


@pytest.fixture
def figure(monkeypatch):
    """What is drawn, in place of a file."""
    figure = Figure()
    monkeypatch.setattr(plot_results, "picture", lambda *_: nullcontext(figure))
    return figure


def test_sample_efficiency(figure):
    plot_results.draw_sample_efficiency(EFFICIENCY, Path("a.svg"))
    (axes,) = figure.axes
    assert (axes.get_title(), axes.get_ylabel()) == ("UNER EWT", "entity F")
    handles, labels = axes.get_legend_handles_labels()
    assert labels == ["without ELMo", "ELMo at the input"]
    deviation = np.std([0, 0.01, 0.03], ddof=1)
    for (line, _, (spread,)), base in zip(handles, (0.2, 0.3)):
        means = [base + share / 10 + 0.04 / 3 for share in (0.1, 1.0)]
        np.testing.assert_allclose(line.get_xydata(), np.c_[[0.1, 1.0], means])
        ends = [segment[:, 1] for segment in spread.get_segments()]
        np.testing.assert_allclose(ends, [[mean - deviation, mean + deviation] for mean in means])


def test_updates(figure):
    """A line a seed that has its history, a panel a corpus and model that has both sides."""
    histories = {
        ("ner", "tok2vec", 0): [(0, 0.0), (100, 0.2)],
        ("ner", "tok2vec", 1): [(0, 0.1), (100, 0.3)],
        ("ner", "tok2vec", 2): [],
        ("ner", "input", 0): [(0, 0.0), (200, 0.4)],
        ("crf", "tok2vec", 0): [(0, 0.0), (300, 0.5)],
        ("crf", "input", 0): [(0, 0.0), (300, 0.6)],
        ("place", "input", 0): [(0, 0.9)],
    }
    runs = [
        make_run(f"{name} wnut17 {variant}", seed, {"ents_f": 0.5}, history=history)
        for (name, variant, seed), history in histories.items()
    ]
    plot_results.draw_updates(runs, Path("a.svg"))
    panels = [axes for axes in figure.axes if axes.get_visible()]
    assert [axes.get_title() for axes in panels] == ["WNUT17", "WNUT17, CRF"]
    assert [axes.get_ylabel() for axes in panels] == ["entity F, dev"] * 2
    assert panels[0].get_legend_handles_labels()[1] == ["without ELMo", "ELMo at the input"]
    drawn = [[line.get_xydata().tolist() for line in axes.lines] for axes in panels]
    shown = [list(map(list, history)) for history in histories.values() if history]
    assert drawn == [shown[:3], shown[3:5]]


def test_one_legend(figure):
    """A legend above the panels hides no line. A variant has one look, also where one lacks."""
    runs = [
        make_damaged("robustness wnut17 tok2vec", 0, 0.3, 0.2),
        make_damaged("robustness wnut17 input", 0, 0.5, 0.4),
        make_damaged("robustness uner_ewt input", 0, 0.5, 0.4),
    ]
    for draw, given in (
        (plot_results.draw_robustness, runs),
        (plot_results.draw_sample_efficiency, EFFICIENCY),
    ):
        figure.clear()
        draw(given, Path("a.svg"))
        assert [axes.get_legend() for axes in figure.axes] == [None] * len(figure.axes)
        (legend,) = figure.legends
        names = [text.get_text() for text in legend.get_texts()]
        assert names == ["without ELMo", "ELMo at the input"]
        colors = {}
        for axes in figure.axes:
            for handle, label in zip(*axes.get_legend_handles_labels()):
                colors.setdefault(label, set()).add(handle[0].get_color())
        assert [len(colors[name]) for name in names] == [1, 1]
        assert not set.intersection(*colors.values())


def test_layer_weights(figure):
    plot_results.draw_layer_weights(LEARNED[:3], Path("a.svg"))
    (axes,) = figure.axes
    both = "ELMo at input and output"
    names = [label.get_text() for label in axes.get_yticklabels()]
    rows = ("ELMo at the input", f"{both}: input", f"{both}: output")
    assert names == [f"WNUT17\n{row}" for row in rows]
    bars = [container for container in axes.containers if hasattr(container, "patches")]
    expected = [[0.3, 0.1, 0.6], [0.3, 0.8, 0.2], [0.4, 0.1, 0.2]]  # by layer, then by bar
    widths = [[patch.get_width() for patch in layer] for layer in bars]
    np.testing.assert_allclose(widths, expected)


def test_layer_probes(figure):
    plot_results.draw_layer_probes(PROBES, Path("a.svg"))
    tag, senses = figure.axes
    assert (tag.get_title(), senses.get_title()) == ("tag, UD EWT", "senses, homographs")
    assert [label.get_text() for label in tag.get_xticklabels()][2:] == ["layer 2", "average"]
    # No line leads from the last layer to the average; of the baselines the better one is drawn.
    means = [container[0].get_xydata() for container in tag.containers]
    np.testing.assert_allclose(means[0], [[0, 0.72], [1, 0.9], [2, 0.86]])
    np.testing.assert_allclose(means[1], [[3, 0.91]])
    assert tag.containers[1][0].get_linestyle() == "None"
    assert list(tag.get_lines()[-1].get_ydata()) == [0.7, 0.7]
    names = [axes.get_legend_handles_labels()[1] for axes in (tag, senses)]
    assert names[0] == ["most frequent label of the word", "logistic regression"]
    assert names[1] == ["most frequent sense", "nearest neighbor", "logistic regression"]


def test_pictures_are_the_same_again(tmp_path, capsys):
    """Without a background, a date, or anything that is drawn anew."""
    write_runs([*EFFICIENCY, *LEARNED, *PROBES], tmp_path / "runs")
    evaluation = {"perplexity": {"forward": 90.0, "backward": 80.0, "mean": 85.0}, "tokens": 1000}
    speed = {"tokens_per_second": 10.0, "elapsed": 100.0}
    srsly.write_jsonl(tmp_path / "metrics.jsonl", [{**evaluation, **speed}])
    contents = []
    for _ in range(2):
        plot_results.main(tmp_path, tmp_path / "metrics.jsonl")
        pictures = sorted(tmp_path.glob("*.svg"))
        contents.append([path.read_bytes() for path in pictures])
        for path in pictures:
            path.unlink()
    names = "layer_probes layer_weights learning_curve sample_efficiency"
    assert " ".join(path.stem for path in pictures) == names
    assert contents[0] == contents[1]
    for content in contents[0]:
        assert b"date" not in content and b"#ffffff" not in content
        assert plotting.TEXT.encode() in content


def test_what_there_are_no_figures_for(tmp_path, capsys):
    write_runs(LEARNED[-1:], tmp_path / "runs")
    plot_results.main(tmp_path, None)
    assert list(tmp_path.glob("*.svg")) == []
    shown = " ".join(capsys.readouterr().out.split())
    for name in plot_results.PICTURES:
        assert f"{name}: no results in" in shown
    (tmp_path / "runs" / "b.json").write_text("{}")
    with pytest.raises(SystemExit):
        plot_results.main(tmp_path, None)
    assert "b.json" in capsys.readouterr().out
