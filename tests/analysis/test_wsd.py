"""Word sense disambiguation by nearest neighbors, against one occurrence at a time."""

import json
from collections import Counter, defaultdict
from functools import cache

import numpy as np
import pytest
import srsly
from spacy.tokens import Doc

from spacy_elmo.analysis.wsd import disambiguate

from helpers.commands import run_elmo, shown_by
from helpers.golden import WORDNET

RIVER, MONEY, SIT, EARTH = "bank%1:17:01::", "bank%1:14:00::", "sit%2:35:00::", "earth%1:17:00::"
TRAIN = [
    ("the bank was green", {1: [RIVER]}),
    ("a bank lends money", {1: [MONEY]}),
    ("the bank is closed today", {1: [MONEY]}),
    ("we sit on the green bank", {1: [SIT], 5: [RIVER, MONEY]}),
    ("Banks lend", {0: [MONEY]}),
]
TEST = [
    ("one/a", "the bank sits there", {1: [MONEY, RIVER], 2: [SIT]}),
    ("two/a", "banks of the green earth", {0: [RIVER], 4: [EARTH]}),
    ("two/b", "it lends , as a bank", {5: [MONEY]}),
]


def random_sentences(n, seed):
    """ "bank", and "sit" after it, among other words, with senses at random."""
    rng = np.random.default_rng(seed)
    for _ in range(n):
        before, after = (rng.choice(["the", "green", "it", "lends"], size=i) for i in (2, 3))
        senses = [*rng.choice([RIVER, MONEY, "bank%1:14:02::"], size=rng.integers(1, 3))]
        text = " ".join([*before, rng.choice(["bank", "Banks"]), "sit", *after])
        yield text, {2: senses, 3: [str(rng.choice([SIT, "sit%2:42:00::"]))]}


TRAIN += random_sentences(20, seed=1)
TEST += [("two/c", text, senses) for text, senses in random_sentences(10, seed=2)]
GOLD = [senses for _, _, found in TEST for senses in found.values()]


def write(path, sentences):
    rows = []
    for doc, text, senses in sentences:
        keys = [senses.get(i) for i in range(len(text.split()))]
        rows.append({"doc": doc, "words": text.split(), "keys": keys})
    srsly.write_jsonl(path, rows)
    return path


@pytest.fixture
def corpora(here):
    train = write(here / "train.jsonl", [("doc/a", text, senses) for text, senses in TRAIN])
    return train, write(here / "test.jsonl", TEST)


def brute_force(nlp, select):
    """One occurrence after another: the answers in place of the command's matrices."""
    vectors = defaultdict(list)

    @cache
    def embed(text):
        doc = Doc(nlp.vocab, words=text.split())
        return select(nlp.get_pipe("elmo").predict([doc])[0].astype("float64"))

    for text, found in TRAIN:
        for i, senses in found.items():
            for sense in senses:
                vectors[sense].append(embed(text)[i])
    means = {sense: sum(rows) / len(rows) for sense, rows in vectors.items()}
    for _, text, found in TEST:
        for i, gold in found.items():
            vector, word = embed(text)[i], gold[0].partition("%")[0]
            cosines = {
                sense: mean @ vector / np.sqrt((mean @ mean) * (vector @ vector))
                for sense, mean in means.items()
                if sense.startswith(word)
            }
            best = max(cosines.values(), default=0.0) - 1e-6
            yield next((s for s, cosine in cosines.items() if cosine >= best), None)


def most_frequent(otherwise):
    counts = Counter(sense for _, found in TRAIN for senses in found.values() for sense in senses)
    by_word = {sense.partition("%")[0]: sense for sense, _ in reversed(counts.most_common())}
    return [by_word.get(gold[0].partition("%")[0], otherwise) for gold in GOLD]


def scores(answers):
    def f1(rows):
        right = sum(answer in gold for answer, gold in rows)
        precision = right / sum(answer is not None for answer, _ in rows)
        recall = right / len(rows)
        return 2 * precision * recall / (precision + recall) if right else 0.0

    rows = list(zip(answers, GOLD))
    return pytest.approx({"one": f1(rows[:2]), "two": f1(rows[2:]), "all": f1(rows)})


@pytest.mark.pipelines
def test_scores_equal_those_of_one_occurrence_at_a_time(corpora, nlp):
    report = disambiguate(nlp, *corpora, inputs=["0", "1", "2", "average", "concat"])
    assert (report.n_labels, report.n_train, report.n_test, report.n_unseen) == (5, 46, 25, 1)
    baseline, *rows = report.rows
    assert (baseline.method, baseline.input) == ("most frequent sense", "")
    assert baseline.scores == scores(most_frequent(None))
    selects = [*(lambda x, i=i: x[i] for i in range(3)), lambda x: x.mean(axis=0), np.hstack]
    for row, select in zip(rows, selects, strict=True):
        assert row.scores == scores(brute_force(nlp, select)), row.input
    assert len({tuple(row.scores.items()) for row in rows}) > 1


@pytest.mark.pipelines
def test_words_without_training_data_get_the_backoff(corpora, nlp):
    first, most, row = disambiguate(nlp, *corpora, backoff=str(WORDNET), inputs=["2"]).rows
    # The database of the test has "bank" and "earth", not "sit".
    known = {"bank": "bank%1:14:02::", "earth": EARTH, "sit": None}
    assert first.scores == scores([known[gold[0].partition("%")[0]] for gold in GOLD])
    assert most.scores == scores(most_frequent(EARTH))
    answers = brute_force(nlp, lambda layers: layers[2])
    assert row.scores == scores([answer or EARTH for answer in answers])
    with pytest.raises(ValueError, match="Give the folder of WordNet"):
        disambiguate(nlp, *corpora, backoff="nowhere")


@pytest.mark.pipelines
def test_neighbors_that_differ_only_by_rounding_are_equal(tmp_path, make_nlp):
    """Layer 0 cannot tell the senses of one form apart."""
    train = [("d/a", "bank", {0: [RIVER]})] + [("d/a", "the bank", {1: [MONEY]})] * 3
    paths = write(tmp_path / "a.jsonl", train), write(tmp_path / "b.jsonl", TEST[2:3])
    for backoff, expected in ((None, 0.0), ("frequent", 1.0)):
        _, row = disambiguate(make_nlp(), *paths, inputs=["0"], backoff=backoff).rows
        assert row.scores["all"] == expected


@pytest.mark.commands
def test_wsd_command(corpora, tiny_weights, tmp_path):
    where = ("wsd", tiny_weights, *corpora)
    table = run_elmo(*where, "--json", "out.json", "--backoff", WORDNET).stdout
    report = json.loads((tmp_path / "out.json").read_text())
    assert max(map(len, table.splitlines())) <= 80
    shown = {line.split()[0]: line.split()[1:] for line in table.splitlines() if line.strip()}
    assert " ".join(shown["F1"]) == "first most frequent layer 0 layer 1 layer 2 average"
    for name in ("one", "two", "all"):
        assert shown[name] == [f"{row['scores'][name]:.1%}" for row in report["rows"]]
    options = ("--json", "-", "--layers", "1, average", "--html", "page.html")
    again = json.loads(run_elmo(*where, *options).stdout)
    page = (tmp_path / "page.html").read_text("utf8")
    assert all(f'"measure":"{name}"' in page for name in ("one", "two", "all"))
    assert [row["input"] for row in again["rows"]] == ["", "layer 1", "average"]
    assert "exists already" in shown_by(*where, "--json", "out.json", status=1)
    assert "no layer '7'" in shown_by(*where, "--layers", "7", status=1)
    assert "no file missing.jsonl" in shown_by(*where[:2], "missing.jsonl", corpora[1], status=1)
