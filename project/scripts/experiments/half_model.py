"""Copy of a language model in which one direction outputs zeros.

This allows a comparison of each direction of a model with the whole model.
"""

from pathlib import Path

import torch
import typer
from wasabi import msg

from spacy_elmo.bilm.model import BiLM
from spacy_elmo.cli.errors import no_traceback
from spacy_elmo.weights import read_weights
from spacy_elmo.weights.safetensors_file import write

DIRECTIONS = ("forward", "backward")


def main(
    model: str = typer.Argument(..., help="Language model with two directions"),
    direction: str = typer.Argument(..., help="Direction to keep: forward or backward"),
    output: Path = typer.Argument(..., help="File to write (.safetensors)", dir_okay=False),
) -> None:
    """Write a copy of a language model in which only one direction works."""
    with no_traceback():
        if direction not in DIRECTIONS:
            raise ValueError(f"unknown direction '{direction}'. Use forward or backward")
        bilm = read_weights(model)
        if not bilm.config.bidirectional:
            raise ValueError(f"{model} has only one direction")
        output.parent.mkdir(parents=True, exist_ok=True)
        module = BiLM.from_frozen(bilm)
        with torch.no_grad():
            for lstm in module.stacks[1 - DIRECTIONS.index(direction)]:
                lstm.projection.zero_()
        write(module.freeze(), output)
    msg.good(f"Wrote {output}")


if __name__ == "__main__":
    typer.run(main)
