"""`python -m spacy elmo substitutes`"""

from typing import TYPE_CHECKING

import srsly
import typer

from ..files.terminal import echo, msg
from .neighbors import marked
from .tables import terminal_width

if TYPE_CHECKING:
    from ..analysis.substitutes import Substitute


def substitutes_cli(
    model: str = typer.Argument(
        ..., help="Model with softmax and vocabulary: what `spacy elmo pretrain` wrote, or HDF5"
    ),
    sentence: str = typer.Option(..., help="A sentence, its tokens separated by spaces"),
    token: str = typer.Option(
        ..., help="The token of it: its position, counted from 0, or a word that stands there once"
    ),
    n: int = typer.Option(10, "--n", "-n", min=1, help="Words to show"),
    as_json: bool = typer.Option(False, "--json", help="Print JSON in place of a table"),
) -> None:
    """Show what the language model would put in a token's place: by what stands to the
    left (forward), by what stands to the right (backward), and by both, whose
    log-probabilities are added and normalised again.

    Example: python -m spacy elmo substitutes pretraining/model-best
    --sentence "She sat on the bank of the river ." --token bank
    """
    from ..analysis.query import find_token
    from ..analysis.substitutes import find_substitutes
    from ..language_model.model import read_language_model

    tokens = sentence.split()
    position = find_token(tokens, token)
    found, itself = find_substitutes(read_language_model(model), tokens, position, n=n)
    if as_json:
        asked = {"sentence": tokens, "position": position, "word": tokens[position]}
        content = {
            **asked,
            "itself": itself and itself._asdict(),
            "substitutes": [one._asdict() for one in found],
        }
        print(srsly.json_dumps(content, indent=2))
        return
    echo(marked(tokens, position, terminal_width()))
    rows = [_row(one) for one in found]
    if itself is not None and itself.rank > n:
        rows.append(_row(itself))
    header = ("rank", "word", "both", "forward", "backward")
    msg.table(rows, header=header, divider=True, aligns=("r", "l", *"rrr"))
    if itself is None:
        msg.text(f"The vocabulary lacks '{tokens[position]}'")


def _row(one: "Substitute") -> tuple[str, ...]:
    values = (one.probability, one.forward, one.backward)
    shown = ("-" if value is None else f"{value:.2%}" for value in values)
    return (f"{one.rank:,}", one.word, *shown)
