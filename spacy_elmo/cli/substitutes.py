"""Command `python -m spacy elmo substitutes`."""

from typing import TYPE_CHECKING

import srsly
import typer

from ..files.terminal import echo, msg
from .neighbors import marked
from .options import AS_JSON, LANGUAGE_MODEL, SENTENCE, TOKEN
from .output import terminal_width

if TYPE_CHECKING:
    from ..analysis.substitutes import Substitute


def substitutes_cli(
    model: str = LANGUAGE_MODEL,
    sentence: str = SENTENCE,
    token: str = TOKEN,
    n: int = typer.Option(10, "--n", "-n", min=1, help="Number of words to show"),
    as_json: bool = AS_JSON,
) -> None:
    """Show the words that a language model expects in place of a token.

    Forward, the model predicts them from the words to the left. Backward, it predicts them from the
    words to the right. The combined score is the normalized sum of both log-probabilities.

    Example: python -m spacy elmo substitutes pretraining/model-best
    --sentence "She sat on the bank of the river ." --token bank
    """
    from ..analysis.neighbors import find_token
    from ..analysis.substitutes import find_substitutes
    from ..language_model.frozen import read_language_model

    tokens = sentence.split()
    position = find_token(tokens, token)
    found, itself = find_substitutes(read_language_model(model), tokens, position, n=n)
    if as_json:
        asked = {"sentence": tokens, "position": position, "word": tokens[position]}
        words = [one._asdict() for one in found]
        content = {**asked, "itself": itself and itself._asdict(), "substitutes": words}
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
