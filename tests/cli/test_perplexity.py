import gzip
import json
import math

import pytest
import torch

from spacy_elmo.bilm.softmax import LanguageModelSoftmax
from spacy_elmo.bilm.vocabulary import Vocabulary
from spacy_elmo.language_model.model import LanguageModel, read_language_model, save_model

import reference
from commands import run_elmo
from models import make_bilm, tiny_options

WORDS = ["<S>", "</S>", "<UNK>", "the", "cat", "sat", "."]
TEXTS = {
    "one.txt": "the cat sat .\ndogs run\n",
    "two.txt": "the dog .\n\nthe\ncat cat sat sat . .\n",
}


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory):
    torch.manual_seed(0)
    options = tiny_options(dim=8)
    softmax = LanguageModelSoftmax(n_words=len(WORDS), width=5)
    softmax.bias.data.normal_()
    bilm = make_bilm(options, reference.random_datasets(options, 4))
    folder = tmp_path_factory.mktemp("model") / "model-last"
    save_model(LanguageModel(bilm, softmax, Vocabulary(WORDS)), folder, lang="en", provenance={})
    return folder


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name, text in TEXTS.items():
        (tmp_path / name).write_text(text, "utf8")
    (tmp_path / "empty.txt").write_text("\n \n", "utf8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments, fails=False):
    return run_elmo("perplexity", *arguments, status=1 if fails else 0)


def figures_of(*arguments):
    return json.loads(run(*arguments, "--json").stdout)


def brute_force(path, text):
    """Sums of the negative log-likelihoods of both directions and the number of
    predictions, sentence by sentence through `embed`, which knows no windows."""
    model = read_language_model(path)
    sentences = [line.split() for line in text.splitlines() if line.split()]
    width = model.bilm.config.projection_dim
    sums, count = [0.0, 0.0], 0
    for direction in range(2):
        state = model.bilm.zero_state(1)
        for sentence in sentences:
            marked = ["<S>", *sentence, "</S>"]
            first, *targets = marked[::-1] if direction else marked
            # `embed` adds marks of its own: run the stack over exactly what is read.
            types = [first, *targets[:-1]]
            rows = torch.arange(len(types)).repeat(2, 1)
            vectors = model.bilm.token_vectors(list(types))
            outputs, state = model.bilm(vectors, rows, [1] * len(types), state)
            top = outputs[direction][-1]
            assert top.shape == (len(targets), width)
            logits = (top @ model.softmax.weight.T + model.softmax.bias).double()
            ids = [WORDS.index(word) if word in WORDS else 2 for word in targets]
            losses = logits.logsumexp(1) - logits[range(len(ids)), ids]
            sums[direction] += losses.sum().item()
            count += len(targets) if direction == 0 else 0
    return sums, count


def expected_figures(parts):
    sums = [sum(part[0][direction] for part in parts) for direction in range(2)]
    count = sum(part[1] for part in parts)
    forward, backward = (total / count for total in sums)
    return {
        "forward": math.exp(forward),
        "backward": math.exp(backward),
        "mean": math.exp((forward + backward) / 2),
        "n_tokens": count,
    }


@pytest.mark.filterwarnings("ignore")
def test_files_and_total(model_folder, folder, monkeypatch):
    one_stream(monkeypatch)
    found = figures_of(model_folder, *TEXTS)
    parts = {name: brute_force(model_folder, text) for name, text in TEXTS.items()}
    assert list(found["files"]) == list(TEXTS)
    for name, unknown in (("one.txt", 2 / 6), ("two.txt", 1 / 10)):
        expected = {**expected_figures([parts[name]]), "unknown": unknown}
        assert found["files"][name] == pytest.approx(expected, rel=1e-5)
    # Of all predictions, not the mean of two files of different lengths.
    expected = {**expected_figures(list(parts.values())), "unknown": 3 / 16}
    assert found["total"] == pytest.approx(expected, rel=1e-5)


def one_stream(monkeypatch):
    """Have a file read in a single stream: its sentences in their order."""
    from spacy_elmo.language_model import perplexity as module

    original = module.perplexity
    monkeypatch.setattr(
        module, "perplexity", lambda model, corpus: original(model, corpus, n_streams=1)
    )


def test_table(model_folder, folder):
    found = figures_of(model_folder, *TEXTS)
    shown = run(model_folder, *TEXTS).stdout
    rows = {line.split()[0]: line.split() for line in shown.splitlines() if line.split()}
    assert rows["file"] == ["file", "forward", "backward", "mean", "predictions", "unknown"]
    for name, row in [*found["files"].items(), ("all", found["total"])]:
        perplexities = [f"{row[key]:.2f}" for key in ("forward", "backward", "mean")]
        assert rows[name] == [name, *perplexities, str(row["n_tokens"]), f"{row['unknown']:.2%}"]


def test_one_file_has_no_total_row(model_folder, folder):
    shown = run(model_folder, "one.txt").stdout
    assert "one.txt" in shown
    assert "all" not in shown
    assert "perplexity" not in shown.lower()  # the columns say it: forward, backward, mean
    found = figures_of(model_folder, "one.txt")
    assert found["total"] == found["files"]["one.txt"]


def test_output_is_what_json_prints(model_folder, folder):
    run(model_folder, *TEXTS, "--output", "deep/figures.json")
    written = (folder / "deep" / "figures.json").read_text("utf8")
    assert json.loads(written) == figures_of(model_folder, *TEXTS)
    assert [path.name for path in (folder / "deep").iterdir()] == ["figures.json"]


def test_output_stays_where_the_evaluation_fails(model_folder, folder):
    (folder / "figures.json").write_text("before")
    (folder / "broken.txt.gz").write_bytes(gzip.compress(b"the cat\n" * 500)[:-12])
    result = run(model_folder, "one.txt", "broken.txt.gz", "-o", "figures.json", fails=True)
    assert "broken.txt.gz" in result.output
    assert (folder / "figures.json").read_text() == "before"


def test_folder_glob_and_the_same_file_twice(model_folder, folder):
    expected = figures_of(model_folder, *TEXTS)
    assert figures_of(model_folder, "one.txt", "*o*.txt", "two.txt") == expected
    (folder / "empty.txt").unlink()
    found = figures_of(model_folder, folder)
    assert list(found["files"]) == [str(folder / name) for name in TEXTS]
    assert found["total"] == expected["total"]


def test_file_without_a_sentence_is_named_and_left_out(model_folder, folder):
    result = run(model_folder, "empty.txt", "one.txt", "--json")
    assert json.loads(result.stdout) == figures_of(model_folder, "one.txt")
    assert "empty.txt" in result.stderr


def test_no_sentence_at_all(model_folder, folder):
    result = run(model_folder, "empty.txt", fails=True)
    assert "no sentence in empty.txt" in result.output


def test_running_text(model_folder, folder):
    (folder / "running.txt").write_text("the cat sat. the cat can't.\n", "utf8")
    found = figures_of(model_folder, "running.txt", "--format", "text")
    assert found["total"]["n_tokens"] == 4 + 1 + 5 + 1
    assert found["total"]["unknown"] == pytest.approx(2 / 9)  # ca, n't


def test_hopeless_model_is_null(model_folder, folder, monkeypatch):
    from spacy_elmo.language_model import perplexity as module

    hopeless = module.Perplexity(math.inf, 2.0, math.inf, n_tokens=3, unknown=0.0)
    monkeypatch.setattr(module, "perplexity", lambda model, corpus: hopeless)
    found = figures_of(model_folder, *TEXTS)
    assert found["total"]["mean"] is None
    assert found["total"]["backward"] == pytest.approx(2.0)
    assert "inf" in run(model_folder, *TEXTS).stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["MODEL", "one.txt", "--format", "lines"], "'lines'"),
        (["MODEL", "missing.txt"], "missing.txt"),
        (["nothing", "one.txt"], "nothing"),
        (["one.txt", "one.txt"], "one.txt"),
    ],
)
def test_errors_have_no_traceback(model_folder, folder, arguments, message):
    arguments = [model_folder if value == "MODEL" else value for value in arguments]
    output = run(*arguments, fails=True).output
    assert message in output
    assert "Traceback" not in output
