"""Pictures show the means of the runs, and are the same in each run."""

from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import srsly
from matplotlib.figure import Figure

from helpers.scored_runs import make_run
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
    """Return the figure that is drawn in place of a file."""
    figure = Figure()
    monkeypatch.setattr(plot_results, "picture", lambda *_: nullcontext(figure))
    return figure


def test_lines_show_means_and_deviations_by_share(figure):
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


def test_bars_show_the_mean_layer_weights(figure):
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


@pytest.mark.commands
def test_pictures_are_the_same_in_each_run(tmp_path, capsys):
    """They have no background and no date."""
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
