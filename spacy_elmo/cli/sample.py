"""Command `python -m spacy elmo sample`."""

from itertools import islice

import typer

from ..files.terminal import echo
from .options import LANGUAGE_MODEL


def sample_cli(
    model: str = LANGUAGE_MODEL,
    n: int = typer.Option(5, "--n", "-n", min=1, help="Number of sentences"),
    start: str = typer.Option("", help="Start of each sentence, with spaces between tokens"),
    temperature: float = typer.Option(
        1.0, help="Below 1: likely words more often; above 1: rare words more often"
    ),
    max_tokens: int = typer.Option(100, help="Maximum number of tokens in a sentence"),
    seed: int = typer.Option(0, help="Random seed"),
) -> None:
    """Sample sentences from the forward language model.

    Example: python -m spacy elmo sample pretraining/model-best --start "The bank"
    """
    from ..language_model.frozen import read_language_model, sample_sentences

    bilm, words = read_language_model(model), start.split()
    sentences = sample_sentences(
        bilm, start=words, temperature=temperature, max_tokens=max_tokens, seed=seed
    )
    for sentence in islice(sentences, n):
        echo(" ".join(sentence))
