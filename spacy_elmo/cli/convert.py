"""Command `python -m spacy elmo convert`."""

from pathlib import Path
from typing import Optional

import typer

from ..files import full_disk
from ..files.terminal import msg


def convert_cli(
    source: str = typer.Argument(
        ..., help="Model: a file, a folder, an https:// URL, or the name of a published model"
    ),
    target: Path = typer.Argument(..., help="Output: NAME.safetensors, NAME.hdf5, or a folder"),
    dtype: str = typer.Option(
        "float32", help="Type of the weights on disk: 'float32', 'float16' or 'bfloat16'"
    ),
    format: Optional[str] = typer.Option(
        None,
        help="'safetensors', 'allennlp', 'pipeline' or 'manylangs'; default: by the suffix of "
        "TARGET, 'pipeline' for a folder",
    ),
    softmax: bool = typer.Option(
        True,
        help="Also convert softmax and vocabulary (ELMoForManyLangs' format cannot store them)",
    ),
    lang: Optional[str] = typer.Option(
        None, help="Language of the model, if SOURCE does not store it"
    ),
    provenance: Optional[Path] = typer.Option(
        None, help="JSON file with entries to add to the provenance; null deletes an entry"
    ),
    vectors: Optional[str] = typer.Option(
        None,
        help="Pipeline with the encoder's word vectors; only if SOURCE is the state dict of a CoVe "
        "encoder",
    ),
    allow_loss: bool = typer.Option(
        False, "--allow-loss", help="Write the model even if something is lost, and list the losses"
    ),
    force: bool = typer.Option(False, "--force", "-F", help="Overwrite an existing model"),
) -> None:
    """Convert a language model to another format.

    Formats: .safetensors, AllenNLP's and bilm-tf's HDF5 with options.json, ELMoForManyLangs'
    folders, and spaCy pipelines. If the new format cannot store something, the command lists it and
    writes nothing (exit code 3), unless you give --allow-loss.

    Example: python -m spacy elmo convert pretraining/model-best weights.hdf5
    """
    from ..model.config import count_parameters
    from ..weights.archives import read_object
    from ..weights.convert import convert
    from .options import read_word_vectors

    with full_disk(target, "run the same command again"):
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
    msg.good(f"Wrote {target}", f"{count_parameters(bundle.bilm.config):,} parameters in {dtype}")
