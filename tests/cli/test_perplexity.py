"""`spacy elmo perplexity` prints the figures of the reference's losses, per file and in total."""

import json
import math
from functools import partial

import numpy as np
import pytest

from spacy_elmo.language_model import perplexity as module

from helpers.commands import run_elmo
from helpers.gzipped import gzipped
from helpers.softmaxes import MODELS, losses_of, write_model

pytestmark = pytest.mark.commands

TEXTS = {"one.txt": "the cat sat .\ndogs run\n"}
TEXTS |= {"two.txt": "the dog .\n\nthe\ncat cat sat sat . .\n"}


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("model"), *MODELS["bytes"]()).parent


@pytest.fixture
def folder(here):
    for name, text in {**TEXTS, "empty.txt": "\n \n"}.items():
        (here / name).write_text(text, "utf8")
    return here


def run(*arguments, fails=False):
    return run_elmo("perplexity", *arguments, status=1 if fails else 0)


def figures_of(*arguments):
    return json.loads(run(*arguments, "--json").stdout)


def expected_figures(losses):
    """Return the figures for the losses of each direction at each prediction."""
    means = [np.mean(of_direction) for of_direction in losses]
    found = {"forward": means[0], "backward": means[-1], "mean": np.mean(means)}
    return {**{name: math.exp(mean) for name, mean in found.items()}, "n_tokens": len(losses[0])}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["bytes", "forward"])
def test_figures_of_each_file_and_of_all(folder, monkeypatch, kind):
    """Each file is read as a single stream: its sentences in their order."""
    monkeypatch.setattr(module, "perplexity", partial(module.perplexity, n_streams=1))
    model = write_model(folder / "model", *MODELS[kind]())
    losses = [
        losses_of(*MODELS[kind](), [line.split() for line in text.splitlines() if line.split()])
        for text in TEXTS.values()
    ]
    found = figures_of(model, *TEXTS)
    assert list(found["files"]) == list(TEXTS)
    lines = [line.split() for line in run(model, *TEXTS).stdout.splitlines() if line.strip()]
    assert lines[0] == ["file", "forward", "backward", "mean", "predictions", "unknown"]
    for name, row in [*found["files"].items(), ("all", found["total"])]:
        shown = [f"{row[key]:.2f}" if row[key] else "-" for key in ("forward", "backward", "mean")]
        assert [name, *shown, str(row["n_tokens"]), f"{row['unknown']:.2%}"] in lines
        if kind == "forward":
            assert row["backward"] is None
            row["backward"] = row["forward"]
    for figures, of_file, unknown in zip(found["files"].values(), losses, (2 / 6, 1 / 10)):
        assert figures == pytest.approx({**expected_figures(of_file), "unknown": unknown}, rel=1e-5)
    # Of all predictions, not the mean of two files of different lengths.
    both = [[*one, *two] for one, two in zip(*losses)]
    expected = {**expected_figures(both), "unknown": 3 / 16}
    assert found["total"] == pytest.approx(expected, rel=1e-5)


def test_max_tokens_reads_the_start_of_every_stream(folder):
    """Each of the four streams has 1,000 tokens.

    The first 200 of them are 40 lines of five tokens, an end of the sentence included.
    """
    lines = ["the cat sat .", "dogs run . ."]
    (folder / "all.txt").write_text("".join(f"{line}\n" * 400 for line in lines), "utf8")
    model = write_model(folder / "model", *MODELS["forward"]())
    found = figures_of(model, "all.txt", "--max-tokens", 800)["total"]
    starts = [losses_of(*MODELS["forward"](), [line.split()] * 40)[0] for line in lines]
    assert found["n_tokens"] == 4 * 200
    assert found["forward"] == pytest.approx(math.exp(np.mean(starts)), rel=1e-5)
    every = figures_of(model, "all.txt")["total"]
    assert every["n_tokens"] == 4 * 1000
    assert figures_of(model, "all.txt", "--max-tokens", 10**6)["total"] == every


def test_output_has_the_json_and_is_not_overwritten_without_force(model_folder, folder):
    run(model_folder, *TEXTS, "--output", "deep/figures.json")
    written = (folder / "deep" / "figures.json").read_text("utf8")
    assert json.loads(written) == figures_of(model_folder, *TEXTS)
    assert [path.name for path in (folder / "deep").iterdir()] == ["figures.json"]
    file = folder / "figures.json"
    file.write_text("mine")
    (folder / "a folder").mkdir()
    (folder / "broken.txt.gz").write_bytes(gzipped(b"the cat\n" * 500)[:-12])
    for arguments, message in (
        (["-o", "figures.json"], "figures.json exists already. Give another name, or --force"),
        (["-o", "a folder", "-F"], "a folder is a folder. Give another name"),
        (["broken.txt.gz", "-o", "figures.json", "-F"], "broken.txt.gz"),
    ):
        output = run(model_folder, "one.txt", *arguments, fails=True).output
        assert message in " ".join(output.split())
        assert file.read_text() == "mine"
    run(model_folder, "one.txt", "-o", "figures.json", "--force")
    assert json.loads(file.read_text()) == figures_of(model_folder, "one.txt")
    (folder / "null.json").symlink_to("/dev/null")
    run(model_folder, "one.txt", "-o", "null.json")
    assert (folder / "null.json").is_char_device()


def test_inputs_are_files_patterns_folders_and_running_text(model_folder, folder):
    both, one = figures_of(model_folder, *TEXTS), figures_of(model_folder, "one.txt")
    assert figures_of(model_folder, "one.txt", "*o*.txt", "two.txt") == both
    shown = run(model_folder, "one.txt").stdout
    assert "one.txt" in shown
    assert "all" not in shown  # one file has no row of its own and one for all
    assert one["total"] == one["files"]["one.txt"]
    # A file without a sentence is named and left out.
    result = run(model_folder, "empty.txt", "one.txt", "--json")
    assert json.loads(result.stdout) == one
    assert "empty.txt" in result.stderr
    assert "no sentences in empty.txt" in run(model_folder, "empty.txt", fails=True).output
    (folder / "empty.txt").unlink()
    found = figures_of(model_folder, folder)
    assert found["total"] == both["total"]
    assert list(found["files"]) == [str(folder / name) for name in TEXTS]
    (folder / "running.txt").write_text("the cat sat. the cat can't.\n", "utf8")
    total = figures_of(model_folder, "running.txt", "--format", "text", "--lang", "en")["total"]
    assert total["n_tokens"] == 4 + 1 + 5 + 1
    assert total["unknown"] == pytest.approx(2 / 9)  # ca, n't


def test_an_infinite_perplexity_is_null(model_folder, folder, monkeypatch):
    hopeless = module.Perplexity(math.inf, 2.0, math.inf, n_tokens=3, unknown=0.0)
    monkeypatch.setattr(module, "perplexity", lambda *_, **__: hopeless)
    found = figures_of(model_folder, *TEXTS)
    assert found["total"]["mean"] is None
    assert found["total"]["backward"] == pytest.approx(2.0)
    assert "inf" in run(model_folder, *TEXTS).stdout
