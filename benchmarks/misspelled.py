"""Similarity of the vectors of a misspelled word and the correct word in the same sentence.

    python benchmarks/misspelled.py english-open-valid.txt --weights en_small pretraining/model-best

The script takes the first 3,000 sentences with 8 to 30 tokens. In every fifteenth of them, it
misspells one word of four letters or more. It prints the mean cosine of the two vectors by layer.
"""

import argparse
from itertools import islice
from pathlib import Path

import numpy as np

from spacy_elmo.pretraining.noise import misspell
from spacy_elmo.weights import read_weights


def damaged_sentences(text: Path) -> list[tuple[list[str], list[str], int]]:
    """Read sentences, and misspell a word in each.

    text (Path): One sentence per line, tokens separated by spaces.
    RETURNS (List[Tuple[List[str], List[str], int]]): The sentence, the sentence with a misspelled
        word, and the position of the word.
    """
    with text.open(encoding="utf8") as file:
        fitting = (words for words in map(str.split, file) if 8 <= len(words) <= 30)
        sentences = list(islice(fitting, 0, 3000, 15))
    rng = np.random.default_rng(0)
    letters = "".join(word for words in sentences for word in words if word.isalpha())
    found = []
    for words in sentences:
        places = [i for i, word in enumerate(words) if word.isalpha() and len(word) >= 4]
        if places:
            place = places[rng.integers(len(places))]
            other = misspell(words[place], letters, rng)
            if other != words[place]:
                damaged = [*words[:place], other, *words[place + 1 :]]
                found.append((words, damaged, place))
    return found


def main() -> None:
    """Print the mean cosines of each model."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("text", type=Path)
    parser.add_argument("--weights", nargs="+", default=["en_small"])
    options = parser.parse_args()
    found = damaged_sentences(options.text)
    if not found:
        parser.error(f"{options.text} has no sentence with 8 to 30 tokens and a word to misspell")
    for name in options.weights:
        bilm = read_weights(name)
        clean, damaged = (bilm.embed([each[i] for each in found])[0] for i in (0, 1))
        cosines = []
        for one, other, (_, _, place) in zip(clean, damaged, found):
            a, b = one[:, place], other[:, place]
            norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
            cosines.append((a * b).sum(axis=1) / norms)
        shown = ", ".join(f"{value:.3f}" for value in np.mean(cosines, axis=0))
        print(f"{name}: {len(found)} words, by layer {shown}")


if __name__ == "__main__":
    main()
