"""This script writes a bidirectional language model whose one direction is silent: its LSTMs give
zeros. So the halves of a model can be compared with the whole."""

from pathlib import Path

import torch
import typer
from wasabi import msg

from spacy_elmo.cli.errors import no_traceback
from spacy_elmo.weights import read_weights
from spacy_elmo.weights.safetensors_file import write

DIRECTIONS = ("forward", "backward")


def main(
    model: str = typer.Argument(..., help="Language model of both directions"),
    direction: str = typer.Argument(..., help="forward or backward: the one that stays"),
    output: Path = typer.Argument(..., help="File to write, .safetensors", dir_okay=False),
) -> None:
    """Silence the other direction."""
    with no_traceback():
        if direction not in DIRECTIONS:
            raise ValueError(f"no direction '{direction}': expected forward or backward")
        bilm = read_weights(model)
        if not bilm.config.bidirectional:
            raise ValueError(f"{model} has one direction")
        output.parent.mkdir(parents=True, exist_ok=True)
        module = bilm.thaw()
        with torch.no_grad():
            for lstm in module.stacks[1 - DIRECTIONS.index(direction)]:
                lstm.projection.zero_()
        write(module.freeze(), output)
    msg.good(f"Wrote {output}")


if __name__ == "__main__":
    typer.run(main)
