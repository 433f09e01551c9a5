"""Word sense disambiguation of all words of a text (Peters et al. 2018, section 5.3, table 5)."""

import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Optional

import numpy as np
from spacy.language import Language
from thinc.types import Floats2d, Floats3d

from ..embedding.docs import make_sentence
from ..files import progress_bar, user_path
from ..pipeline.load import elmo_pipe
from .corpora import (
    check_inputs,
    describe_input,
    select_input,
    unit_vectors,
    with_layers,
)
from .probes import SAME, ProbeReport, Row, positions_by_word
from .sense_corpus import FirstSenses, LabeledWord, Sentence, read_sense_corpus

ALL = "all"

Answers = Sequence[Optional[str]]


def disambiguate(
    nlp: Language,
    train: Path,
    test: Path,
    *,
    inputs: Optional[Sequence[str]] = None,
    backoff: Optional[str] = None,
) -> ProbeReport:
    """Predict the sense of each word of a text, and score the predictions.

    The vector of a sense is the mean over its occurrences in the training text. The prediction is
    the nearest sense by cosine, among the senses of the word's lemma and part of speech. Senses can
    be equally near, for example in layer 0 if a word has only one form.

    nlp (Language): A pipeline with a pipe `elmo`.
    train (Path): The training text, in a format of `read_sense_corpus`.
    test (Path): The test text, in the same formats.
    inputs (Optional[List[str]]): The inputs: numbers of layers ("0"), "average" (mean of all
        layers), "concat" (all layers concatenated). Default: each layer, and "average".
    backoff (Optional[str]): Rule for equally near senses, and for words that are not in the
        training text (unknown words):
        * "frequent": the most frequent sense; no answer for unknown words
        * a folder of WordNet's database: the most frequent sense; WordNet's first sense for unknown
          words
        * None: the first sense in the training text; no answer for unknown words
    RETURNS (ProbeReport): The F1 of each part of the test text, and of the whole text ("all").
        Precision counts the words with an answer, recall counts all words.
    RAISES (ValueError): An argument is wrong, or a text cannot be read.
    """
    inputs = check_inputs(inputs, elmo_pipe(nlp).bilm.config.n_layers)
    wordnet = None if backoff in (None, "frequent") else FirstSenses(user_path(backoff))
    known, asked = read_sense_corpus(train), read_sense_corpus(test)
    counts = _count_senses(known)
    rows = []
    wanted = [(sentence.source, one) for sentence in asked for one in sentence.occurrences]
    words = [one.word for _, one in wanted]
    without: Answers = [None] * len(words)
    if wordnet:
        without = [wordnet.find(word) for word in words]
        rows.append(Row("first sense", "", _scores(without, wanted), 0.0))
    by_count = {word: [sense for sense, _ in c.most_common()] for word, c in counts.items()}
    frequent = [by_count.get(word, [other])[0] for word, other in zip(words, without)]
    rows.append(Row("most frequent sense", "", _scores(frequent, wanted), 0.0))
    # Without a rule for ties, they are decided by the order of the training text.
    senses = by_count if backoff else {word: list(found) for word, found in counts.items()}
    start = time.perf_counter()
    means = _mean_vectors(nlp, known)
    layers = np.stack([vector for _, vector in _vectors(nlp, asked)], axis=1)
    embedding_seconds = time.perf_counter() - start
    for name in inputs:
        start = time.perf_counter()
        answers = _nearest_senses(senses, means, words, layers, name, without)
        seconds = time.perf_counter() - start
        rows.append(Row("nearest sense", describe_input(name), _scores(answers, wanted), seconds))
    return ProbeReport(
        task="wsd",
        n_labels=len(means),
        n_train=sum(len(sentence.occurrences) for sentence in known),
        n_test=len(words),
        n_unseen=sum(means.keys().isdisjoint(one.senses) for _, one in wanted),
        embedding_seconds=embedding_seconds,
        rows=rows,
    )


def _count_senses(sentences: Sequence[Sentence]) -> dict[str, Counter[str]]:
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for sentence in sentences:
        for occurrence in sentence.occurrences:
            counts[occurrence.word].update(occurrence.senses)
    return counts


def _vectors(nlp: Language, corpus: Sequence[Sentence]) -> Iterator[tuple[LabeledWord, Floats2d]]:
    """Yield each labeled word, and the mean of its tokens' layers. *Shape:* `(L + 1, width)`."""
    total = sum(len(sentence.tokens) for sentence in corpus)
    docs = (make_sentence(nlp.vocab, sentence.tokens) for sentence in corpus)
    with progress_bar(total, None, " tokens", in_logs=False) as bar:
        for sentence, (doc, layers) in zip(corpus, with_layers(elmo_pipe(nlp), docs)):
            for occurrence in sentence.occurrences:
                yield occurrence, layers[:, occurrence.start : occurrence.end].mean(axis=1)
            bar.update(len(doc))


def _mean_vectors(nlp: Language, sentences: Sequence[Sentence]) -> dict[str, Floats2d]:
    """Compute the mean vector of each sense's words in each layer. *Shape:* `(L + 1, width)`."""
    sums: dict[str, Floats2d] = {}
    counts: Counter[str] = Counter()
    for occurrence, vector in _vectors(nlp, sentences):
        counts.update(occurrence.senses)
        for sense in occurrence.senses:
            sums[sense] = sums[sense] + vector if sense in sums else vector
    return {sense: total / counts[sense] for sense, total in sums.items()}


def _nearest_senses(
    senses: Mapping[str, list[str]],
    means: Mapping[str, Floats2d],
    words: Sequence[str],
    layers: Floats3d,
    name: str,
    without: Answers,
) -> Answers:
    vectors = unit_vectors(select_input(layers, name))
    answers = list(without)
    for word, places in positions_by_word(words).items():
        if word in senses:
            found = np.stack([means[sense] for sense in senses[word]], axis=1)
            cosines = vectors[places] @ unit_vectors(select_input(found, name)).T
            # Among equally near senses, the first wins.
            nearest = (cosines >= cosines.max(axis=1, keepdims=True) - SAME).argmax(axis=1)
            for place, number in zip(places, nearest):
                answers[place] = senses[word][number]
    return answers


def _scores(answers: Answers, wanted: Sequence[tuple[str, LabeledWord]]) -> dict[str, float]:
    """Compute the F1 of the answers in each part of the test text, and in the whole text ("all").

    F1 = 2PR / (P + R) = 2 right / (answered + n), because P = right / answered and R = right / n.
    n is the number of labeled words. An answer of None counts as no answer.
    """
    right: Counter[str] = Counter()
    both: Counter[str] = Counter()
    for (source, occurrence), answer in zip(wanted, answers):
        for name in (source, ALL):
            right[name] += answer in occurrence.senses
            both[name] += 1 + (answer is not None)
    sources = [name for name in both if name != ALL]
    return {name: 2 * right[name] / both[name] for name in (*sources, ALL)}
