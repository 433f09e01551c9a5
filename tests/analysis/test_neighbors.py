"""Nearest tokens in context, against all cosines in numpy."""

import json
from pathlib import Path

import numpy as np
import pytest
from spacy.tokens import Doc, DocBin
from spacy.vocab import Vocab

from spacy_elmo.analysis import corpora
from spacy_elmo.analysis.neighbors import Neighbor, find_neighbors, find_token
from spacy_elmo.cli.neighbors import marked
from spacy_elmo.embedding.docs import make_sentence

from helpers import reference
from helpers.commands import run_elmo
from helpers.models import TINY_OPTIONS
from helpers.rounding import check_close

DATA = reference.random_datasets(TINY_OPTIONS, seed=1)  # of `tiny_weights`
SENTENCE = ["the", "play", "ends", "."]


RNG, WORDS = np.random.default_rng(0), ["the", "Play", "play", "plays", "a", "naïve", "日本", "."]
DRAWN = [RNG.choice(WORDS, size=RNG.integers(1, 7)).tolist() for _ in range(30)]
CORPUS = [*DRAWN[:5], SENTENCE, *DRAWN[5:], DRAWN[3], SENTENCE]


def docs_of(corpus=CORPUS):
    return (make_sentence(Vocab(), sentence) for sentence in corpus)


def brute_force(position=1, select=lambda layers: layers[2], same_word=None, warm=True):
    """Return all tokens but the one that is asked for, the nearest first."""
    state = reference.layers(TINY_OPTIONS, DATA, [[]])[1] if warm else None

    def vectors(sentence):
        layers = select(reference.layers(TINY_OPTIONS, DATA, [sentence], state)[0][0])
        return layers / np.linalg.norm(layers, axis=1, keepdims=True)

    asked = vectors(SENTENCE)[position]
    found = [
        (float(vector @ asked), sentence, i)
        for sentence in map(list, dict.fromkeys(map(tuple, CORPUS)))
        for i, vector in enumerate(vectors(sentence))
        if (sentence, i) != (SENTENCE, position)
        and same_word in (None, sentence[i].lower() == SENTENCE[position])
    ]
    return sorted(found, key=lambda row: -row[0])


def check(found, expected):
    """Neighbors whose cosines differ only by rounding may change places, also with the next."""
    similarities = [one.similarity for one in found]
    check_close(similarities, [row[0] for row in expected])
    cosines = {(tuple(sentence), position): cosine for cosine, sentence, position in expected}
    places = [(tuple(one.sentence), one.position) for one in found]
    assert len({*places}) == len(places)
    check_close(similarities, [cosines.get(place, expected[-1][0]) for place in places])


@pytest.fixture
def run(here, monkeypatch, tiny_weights):
    """Runs the command, on a file of the sentences."""
    (here / "text.txt").write_text("\n\n".join(map(" ".join, CORPUS)), "utf8")
    monkeypatch.setenv("COLUMNS", "80")

    def invoke(*options, corpus=("text.txt",), model=tiny_weights, token=1, status=0):
        asked = ("--sentence", " ".join(SENTENCE), "--token", token)
        return run_elmo("neighbors", model, *corpus, *asked, *options, status=status).output

    return invoke


def neighbors_of(run, *options, **settings):
    found = json.loads(run(*options, "--json", **settings))
    assert (found["sentence"], found["word"]) == (SENTENCE, SENTENCE[found["position"]])
    rows = [(Neighbor(*map(row.get, Neighbor._fields)), row["word"]) for row in found["neighbors"]]
    assert all(one.word == word for one, word in rows)
    return [one for one, _ in rows]


@pytest.mark.commands
@pytest.mark.parametrize(
    ("token", "options", "expected"),
    [
        ("play", [], {}),
        (3, ["--layer", "1", "-n", 7], {"select": lambda layers: layers[1]}),
        (".", ["--layer", "average"], {"select": lambda layers: layers.mean(axis=0)}),
        (1, ["-n", 1000], {}),
        (1, ["--same-word", "-n", 1000], {"same_word": True}),
        (1, ["--other-words", "-n", 1000], {"same_word": False}),
    ],
)
def test_json_and_table_show_the_nearest_by_cosine(run, token, options, expected):
    n = options[-1] if "-n" in options else 10
    expected = brute_force(1 if token in (1, "play") else 3, **expected)[:n]
    found = neighbors_of(run, *options, token=token)
    lines = [" ".join(line.split()) for line in run(*options, token=token).splitlines()]
    shown = [f"{one.similarity:.3f} {one.word} {marked(one[1], one[2], 60)}" for one in found]
    itself = "the [play] ends ." if token in (1, "play") else "the play ends [.]"
    assert [line for line in lines if line][2:] == [itself, *shown]
    check(found, expected)


@pytest.mark.commands
def test_layer_0_finds_each_spelling_once(run):
    """Layer 0 sees only the word, so the most similar spelling comes first."""
    expected = {}
    for similarity, sentence, position in brute_force(select=lambda layers: layers[0]):
        expected.setdefault(sentence[position], similarity)
    found = neighbors_of(run, "--layer", "0", "-n", 1000)
    assert {one.word: pytest.approx(one.similarity, abs=1e-6) for one in found} == expected
    assert len(found) == len(expected)
    assert found[0].word == SENTENCE[1]
    first = neighbors_of(run, "--layer", "0", "-n", 2, "--other-words")
    assert first == [one for one in found if one.word.lower() != SENTENCE[1]][:2]


@pytest.mark.pipelines
@pytest.mark.commands
def test_every_kind_of_corpus_and_model_gives_the_same(run, tmp_path, make_nlp):
    expected = brute_force()[:10]
    DocBin(docs=docs_of()).to_disk("docs.spacy")
    check(neighbors_of(run, corpus=["docs.spacy"]), expected)
    check(neighbors_of(run, corpus=["text.txt", "docs.spacy"]), expected)  # none is twice
    (tmp_path / "running.txt").write_text("The play ends. We play.\n", "utf8")
    running = ("--format", "text", "--lang", "en", "-n", 50)
    found = neighbors_of(run, *running, corpus=["running.txt"])
    assert {" ".join(one.sentence) for one in found} == {"The play ends .", "We play ."}
    make_nlp(initial_state="zeros").to_disk("pipeline")
    check(neighbors_of(run, model="pipeline"), brute_force(warm=False)[:10])
    (tmp_path / "short.txt").write_text("nothing here\n")
    shown = run("--same-word", "--html", "page.html", corpus=["short.txt"], status=1)
    assert "contains no other occurrence of 'play'" in shown
    assert not Path("page.html").exists()
    (tmp_path / "one.txt").write_text("play\n")
    shown = run("--other-words", corpus=["one.txt"], status=1)
    assert "contains no other word than 'play'" in shown
    (tmp_path / "empty.txt").touch()
    assert "contains no tokens" in run(corpus=["empty.txt"], status=1)
    for layer in ("3", "-1", "bottom", ""):
        shown = " ".join(run("--layer", layer, status=1).split())
        assert f"no layer '{layer}'. This model has 0, 1, 2, top, ave" in shown


@pytest.mark.pipelines
def test_corpora_are_read_a_batch_at_a_time(nlp, monkeypatch):
    pipe = nlp.get_pipe("elmo")
    n_read, sizes = [0], []

    def counted():
        for doc in docs_of():
            n_read[0] += 1
            yield doc

    def predict(docs, original=pipe.predict):
        sizes.append(len(docs))
        assert n_read[0] <= sum(sizes) + 1  # the next batch's first has been seen
        return original(docs)

    monkeypatch.setattr(corpora, "DOCS_AT_A_TIME", 3)
    monkeypatch.setattr(pipe, "predict", predict)
    check(find_neighbors(nlp, SENTENCE, 1, counted(), n=5), brute_force()[:5])
    assert max(sizes) == 3
    with pytest.raises(ValueError, match="at least 1, got 0"):
        find_neighbors(nlp, SENTENCE, 1, docs_of(), n=0)


@pytest.mark.pipelines
def test_annotated_docs_are_shown_by_the_sentence(nlp):
    """A Doc is cut as the pipe cuts it, and shown by the sentence."""
    whole = CORPUS[0] + CORPUS[1] + CORPUS[2]
    starts = [i == 0 for sentence in CORPUS[:3] for i in range(len(sentence))]
    docs = [Doc(Vocab(), words=whole, sent_starts=starts), Doc(Vocab(), words=[])]
    found = find_neighbors(nlp, SENTENCE, 1, docs, n=1000)
    alone = find_neighbors(nlp, SENTENCE, 1, docs_of(CORPUS[:3]), n=1000)
    check(found, [(one.similarity, list(one.sentence), one.position) for one in alone])
    assert len(found) == len(whole)


@pytest.mark.commands
def test_a_vocab_is_replaced_when_it_has_too_many_words(run, monkeypatch):
    monkeypatch.setattr(corpora, "MAX_STRINGS", 3)
    docs = list(corpora.read_corpus_docs(["text.txt"]))
    assert [[token.text for token in doc] for doc in docs] == CORPUS
    assert len({id(doc.vocab) for doc in docs}) > 1


TOKENS = ["In", "2", "plays", ",", "3", "plays"]


def test_a_token_is_found_by_position_or_word():
    assert [find_token(TOKENS, wanted) for wanted in ("0", "5", "2", ",")] == [0, 5, 2, 3]


@pytest.mark.parametrize(
    ("tokens", "wanted", "message"),
    [
        (TOKENS, "6", "no token 6. The sentence has the tokens 0 to 5$"),
        (["In", "2010"], "2010", "0 to 1. The word '2010' is token 1$"),
        (TOKENS, "plays", "occurs 2 times in the sentence. Give the position: 2 or 5"),
        (TOKENS, "in", "no token of the sentence is 'in'. The tokens are 0 'In', 1 '2', 2 'plays'"),
        (TOKENS, "²", "no token of the sentence is '²'"),
        ([], "0", "has no token"),
    ],
)
def test_tokens_that_are_not_there_are_refused(tokens, wanted, message):
    with pytest.raises(ValueError, match=message):
        find_token(tokens, wanted)


def test_the_token_is_marked_in_its_sentence():
    tokens = [str(i) for i in range(100)]
    assert marked(tokens[:3], 1, 80) == "0 [1] 2"
    around = " ".join([*tokens[39:50], "[50]", *tokens[51:62]])
    assert marked(tokens, 50, 79) == f"… {around} …"
    assert marked(tokens, 50, 14) == "… 49 [50] 51 …"
    assert marked(tokens, 50, 13) == "… [50] …"
    assert marked(["a", "supercalifragilistic", "b"], 1, 10) == "[supercal…"
