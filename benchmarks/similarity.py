"""Quality of `.similarity` for single words, search, and senses of a word.

    python benchmarks/similarity.py
    python benchmarks/similarity.py --search dev.tsv wiki-sentences.tsv
    python benchmarks/similarity.py --senses homograph-test.spacy
    python benchmarks/similarity.py --mix "[0, 0.5, 0.5]" --align covariance.npy

Without an option, the script tests triples of a word, a related word and an unrelated word. Each
word is a Doc. A triple is correct if the related word is more similar.

`--search` takes QAMR's files (questions, and the sentences that answer them). For every twentieth
question, all sentences are ranked by `Doc.similarity`, and by the cosine of their TF-IDF vectors.

`--senses` takes a `.spacy` file with a span group "senses", as written by `python -m spacy project
run corpus-homograph project`. For each word, the script computes the probability that two uses with
the same sense are more similar than two uses with different senses (area under the curve). It
prints the mean over the words.

`--types` takes `wordids.tsv` of the Wikipedia Homograph Data, and also prints the mean by type.
"""

import argparse
import csv
from collections import defaultdict
from itertools import combinations
from pathlib import Path

import numpy as np
import spacy
import srsly
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import roc_auc_score
from spacy.language import Language
from spacy.tokens import Doc, DocBin

from spacy_elmo.embedding.settings import ElmoSettings

TRIPLES = """
king queen airplane; dog cat airplane; car truck banana; apple pear bridge; doctor nurse river;
river lake doctor; coffee tea engine; teacher student cloud; happy glad wooden; big large angry;
run walk freeze; summer winter hammer; London Paris Monday; Monday Friday London;
guitar piano potato; bread butter satellite; mother father window; computer laptop horse;
buy sell sleep; blue green early
"""


def triples(nlp: Language) -> None:
    """Print the similarities of each triple, and the number of correct triples."""
    right = 0
    found = [line.split() for line in TRIPLES.split(";")]
    for words in found:
        word, related, unrelated = (nlp(text)[0] for text in words)
        near, far = word.similarity(related), word.similarity(unrelated)
        right += near > far
        print(f"{word} - {related} {near:.3f}   {word} - {unrelated} {far:.3f}")
    print(f"{right} of {len(found)} triples are right")


def search(nlp: Language, questions_path: Path, sentences_path: Path) -> None:
    """Print how often the correct sentence is first, and the mean of 1 / its rank."""
    rows = [line.split("\t") for line in questions_path.read_text("utf8").splitlines()]
    questions = [(row[0], row[5]) for row in rows[::20]]
    wanted = {row[0] for row in rows}
    sentences = [line.split("\t") for line in sentences_path.read_text("utf8").splitlines()]
    texts = {name: text for name, text in sentences if name in wanted}
    order = {name: number for number, name in enumerate(texts)}
    targets = np.array([order[name] for name, _ in questions])
    queries = [text for _, text in questions]

    tf_idf = TfidfVectorizer().fit(texts.values())
    vectors = [
        unit(np.stack([doc.vector for doc in nlp.pipe(part)])) for part in (queries, texts.values())
    ]
    scores = {
        "TF-IDF": (tf_idf.transform(queries) @ tf_idf.transform(texts.values()).T).toarray(),
        "Doc.similarity": vectors[0] @ vectors[1].T,
    }
    print(f"{len(queries)} questions, {len(texts)} sentences")
    for name, table in scores.items():
        ranks = 1 + (table > table[np.arange(len(targets)), targets][:, None]).sum(axis=1)
        print(f"{name}: first {100 * (ranks == 1).mean():.1f} %, 1 / rank {(1 / ranks).mean():.3f}")


def read_types(path: Path) -> dict[str, str]:
    """Return the type of each homograph: how its meanings differ."""
    found = defaultdict(str)
    with path.open(encoding="utf-8-sig", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            found[row["homograph"].lower()] += row["fine_homograph_type"]
    names = {"NSO": "unrelated words", "PoS": "parts of speech"}
    return {
        word: next((name for mark, name in names.items() if mark in marks), "others")
        for word, marks in found.items()
    }


def senses(nlp: Language, path: Path, types: dict[str, str]) -> None:
    """Print the area under the curve of layers, mix, and combinations of layers."""
    gold = list(DocBin().from_disk(path).get_docs(nlp.vocab))
    words = defaultdict(list)
    for doc, spans in zip(nlp.pipe([doc.copy() for doc in gold]), gold):
        for span in spans.spans["senses"]:
            words[span.text.lower()].append(
                (span.label_, representations(doc, span.start, span.end))
            )
    first = next(iter(words.values()))[0][1]
    for name in first:
        areas = defaultdict(list)
        for word, occurrences in words.items():
            same, near = [], []
            for (one, here), (two, there) in combinations(occurrences, 2):
                same.append(one == two)
                near.append((unit(here[name][None]) @ unit(there[name][None]).T).item())
            if 0 < sum(same) < len(same):
                for of in ("all", *([types[word]] if word in types else [])):
                    areas[of].append(roc_auc_score(same, near))
        figures = [
            f"{of} {100 * np.mean(found):.1f} ({len(found)} words)" for of, found in areas.items()
        ]
        print(f"{name}: {', '.join(sorted(figures))}")


def representations(doc: Doc, start: int, end: int) -> dict[str, np.ndarray]:
    """Return vectors of a word in its sentence: layers, mix, joined layers, and its context."""
    layers = doc._.elmo
    word = layers[:, start:end].mean(axis=1)
    forward, backward = np.split(np.pad(layers[-1], ((1, 1), (0, 0))), 2, axis=1)
    return {
        **{f"layer {number}": vector for number, vector in enumerate(word)},
        "mix": doc[start:end].vector,
        "joined": unit(word).reshape(-1),
        "context": np.concatenate([forward[start], backward[end + 1]]),
    }


def unit(vectors: np.ndarray) -> np.ndarray:
    """Scale rows to length 1."""
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def parse_mix(text: str) -> str | int | list[float]:
    """Parse a mix: a name, the number of a layer, or a list of weights."""
    return text if text.isalpha() else srsly.json_loads(text)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--weights", default="en_small")
    parser.add_argument("--mix", default=ElmoSettings.mix, help="setting `mix` of the pipe")
    parser.add_argument("--align", help="setting `align` of the pipe: file of a matrix")
    parser.add_argument("--search", nargs=2, type=Path)
    parser.add_argument("--senses", type=Path)
    parser.add_argument("--types", type=Path)
    arguments = parser.parse_args()
    nlp = spacy.blank("en")
    nlp.add_pipe(
        "elmo",
        config={
            "weights": arguments.weights,
            "mix": parse_mix(arguments.mix),
            "align": arguments.align,
            "store_layers": bool(arguments.senses),
        },
    )
    if arguments.search:
        search(nlp, *arguments.search)
    elif arguments.senses:
        senses(nlp, arguments.senses, read_types(arguments.types) if arguments.types else {})
    else:
        triples(nlp)


if __name__ == "__main__":
    main()
