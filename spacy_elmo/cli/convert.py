"""`python -m spacy elmo convert`"""

from pathlib import Path
from typing import Optional

import typer

from ..files import full_disk
from ..files.terminal import msg


def convert_cli(
    source: str = typer.Argument(
        ..., help="Model: a file, a folder, an https:// URL, or a published model's name"
    ),
    target: Path = typer.Argument(
        ..., help="What to write: NAME.safetensors, NAME.hdf5, or a folder"
    ),
    dtype: str = typer.Option(
        "float32", help="Type of the weights on disk: 'float32', 'float16' or 'bfloat16'"
    ),
    format: Optional[str] = typer.Option(
        None,
        help="'safetensors', 'allennlp', 'pipeline' or 'manylangs'; default: what the target's "
        "name says, a pipeline for a folder",
    ),
    softmax: bool = typer.Option(
        True, help="Keep softmax and vocabulary, for which pipelines and HDF5 have room"
    ),
    lang: Optional[str] = typer.Option(None, help="Language of the model, if it does not say"),
    provenance: Optional[Path] = typer.Option(
        None, help="JSON file to merge into the provenance; null takes an entry away"
    ),
    vectors: Optional[str] = typer.Option(
        None, help="Pipeline with the word vectors of CoVe's encoder, whose state dict SOURCE is"
    ),
    allow_loss: bool = typer.Option(
        False, "--allow-loss", help="Go on although something is lost; it is named"
    ),
    force: bool = typer.Option(False, "--force", "-F", help="Overwrite an existing model"),
) -> None:
    """Convert a language model: between .safetensors, AllenNLP's and bilm-tf's HDF5 with
    options.json, ELMoForManyLangs' folders, and spaCy pipelines. Where the new format has
    no room for something, that is named, and nothing is written (exit code 3), unless
    --allow-loss is given.

    Example: python -m spacy elmo convert pretraining/model-best weights.hdf5
    """
    from ..weights.archives import read_object
    from ..weights.convert import convert
    from .pipelines import read_word_vectors

    with full_disk(target, "run the same again"):
        bundle, lost = convert(
            source,
            target,
            format=format,
            dtype=dtype,
            keep_softmax=softmax,
            lang=lang,
            provenance=None if provenance is None else read_object(provenance),
            vectors=None if vectors is None else read_word_vectors(vectors),
            allow_loss=allow_loss,
            force=force,
        )
    for what in lost:
        msg.warn(f"Lost: {what}")
    n_weights = sum(weight.numel() for weight in bundle.bilm.parameters())
    msg.good(f"Wrote {target}", f"{n_weights:,} parameters in {dtype}")
