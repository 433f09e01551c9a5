"""Training of word vectors on the text of a language model, for `widen_model`.

The vectors are skip-grams of whole words (Mikolov et al. 2013), without subwords: the characters of
the language model show how a word is spelled. Some sentences are read in lower case, so that names
in lower case, as in posts, get vectors too.
"""

import random
import tempfile
from pathlib import Path

import numpy as np
import typer
from tqdm import tqdm
from wasabi import msg

from spacy_elmo.cli.errors import no_traceback
from spacy_elmo.text.reading import find_files, read_sentences

from .train_floret import import_floret


def main(
    output: Path = typer.Argument(..., help="Numpy archive to write (.npz)", dir_okay=False),
    inputs: list[str] = typer.Argument(
        ..., help="Text files, folders or globs: one sentence per line, tokens separated by spaces"
    ),
    dim: int = typer.Option(128, min=1, help="Width of the vectors"),
    min_count: int = typer.Option(3, min=1, help="Minimum count of a word"),
    epochs: int = typer.Option(2, min=1, help="Passes over the text"),
    lower: float = typer.Option(0.15, min=0.0, max=1.0, help="Share of sentences in lower case"),
    max_sentences: int = typer.Option(0, min=0, help="Sentences to read; 0: all"),
    seed: int = typer.Option(0, help="Random seed of the choice of sentences"),
) -> None:
    """Train word vectors, and write the arrays `words`, the most frequent first, and `vectors`."""
    with no_traceback():
        floret = import_floret()
        output.parent.mkdir(parents=True, exist_ok=True)
        rng = random.Random(seed)
        with tempfile.NamedTemporaryFile("w", encoding="utf8", suffix=".txt") as text:
            sentences = read_sentences(find_files(inputs), format="sentences")
            for number, tokens in enumerate(tqdm(sentences, unit=" sentences")):
                if number + 1 == max_sentences:
                    break
                line = " ".join(tokens)
                text.write(f"{line.lower() if rng.random() < lower else line}\n")
            text.flush()
            # One thread: with more, each run gives other vectors.
            model = floret.train_unsupervised(
                text.name,
                model="skipgram",
                mode="fasttext",
                minn=0,
                maxn=0,
                dim=dim,
                minCount=min_count,
                epoch=epochs,
                thread=1,
            )
        words = [word for word in model.get_words() if word != "</s>"]
        vectors = np.stack([model.get_word_vector(word) for word in words])
        np.savez(output, words=np.array(words), vectors=vectors.astype("float16"))
    msg.good(f"{output}: {len(words):,} words")


if __name__ == "__main__":
    typer.run(main)
