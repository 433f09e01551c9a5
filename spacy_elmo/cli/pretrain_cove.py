"""`python -m spacy elmo pretrain-cove`"""

from pathlib import Path

import typer

from ..files import full_disk
from ..files.terminal import msg
from .errors import check_new, stopped


def pretrain_cove_cli(
    pairs: Path = typer.Argument(
        ..., help="Sentences and translations: .tsv, tokens separated by spaces", exists=True
    ),
    dev: Path = typer.Argument(..., help="Others, by which the best is chosen", exists=True),
    output: Path = typer.Argument(..., help="NAME.safetensors to write the encoder to"),
    vectors: str = typer.Option(
        ..., help="Pipeline with word vectors of the first language (`spacy init vectors`)"
    ),
    minutes: float = typer.Option(60.0, help="How long, by the clock", min=0.0),
    batch_size: int = typer.Option(64, help="Pairs of a step", min=1),
    learn_rate: float = typer.Option(0.001, help="Adam's", min=0.0),
    seed: int = typer.Option(0, help="Of all draws"),
    force: bool = typer.Option(False, "--force", "-F", help="Replace an existing file"),
) -> None:
    """Train CoVe's encoder in a translation model. The encoder is written when a pass over the
    pairs made it better; Ctrl-C loses what came after.

    Example: python -m spacy elmo pretrain-cove en-de.tsv dev.tsv cove.safetensors --vectors glove
    """
    from ..pretraining.translation_training import TranslationSettings, read_pairs, train_cove
    from .word_vectors import read_word_vectors

    if output.suffix != ".safetensors":
        raise ValueError(f"{output}: the name of such a file ends in .safetensors")
    check_new(output, force=force)
    settings = TranslationSettings(minutes, batch_size, learn_rate, seed=seed)
    with full_disk(output, "run the same again"):
        output.parent.mkdir(parents=True, exist_ok=True)
        with stopped(f"Stopped: {output} holds the best encoder so far, if a pass was finished"):
            train_cove(
                read_pairs(pairs), read_pairs(dev), read_word_vectors(vectors), output, settings
            )
    msg.good(f"Wrote {output}: give it to 'elmo' as its weights")
