"""How near the vector of a misspelled word is to that of the word, in the same sentence.

    python benchmarks/misspelled.py english-open-valid.txt --weights en_small pretraining/model-best

A word of four letters or more gets one edit in every fifteenth of the text's first 3,000 sentences
of 8 to 30 tokens. The figures are the mean cosine with the word's own vector, by layer.
"""

import argparse
from itertools import islice
from pathlib import Path

import numpy as np

from spacy_elmo.pretraining.noise import misspell
from spacy_elmo.weights import read_weights


def damaged_sentences(text: Path) -> list[tuple[list[str], list[str], int]]:
    """Misspell a word of each sentence.

    text (Path): A sentence a line, tokens separated by spaces.
    RETURNS (List[Tuple[List[str], List[str], int]]): The sentence, the same with a misspelled
        word, and the place of the word.
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
    """Print a line for each model."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("text", type=Path)
    parser.add_argument("--weights", nargs="+", default=["en_small"])
    options = parser.parse_args()
    found = damaged_sentences(options.text)
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
