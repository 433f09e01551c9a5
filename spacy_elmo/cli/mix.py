"""`python -m spacy elmo mix`"""

from pathlib import Path

import spacy
import srsly
import typer
from spacy.language import Language
from wasabi import msg


def mix_cli(
    pipeline: str = typer.Argument(..., help="Folder or package name of a pipeline"),
    as_json: bool = typer.Option(False, "--json", help="Print JSON in place of a table"),
) -> None:
    """Print the layer weights and gamma that every component learned: at the input of its
    encoder, at the output, or where ELMo is all that it reads. Layer 0 is the tokens'.

    Example: python -m spacy elmo mix training/model-best
    """
    rows = learned_mixes(spacy.load(Path(pipeline) if Path(pipeline).exists() else pipeline))
    if as_json:
        print(srsly.json_dumps(rows, indent=2))
        return
    if not rows:
        msg.warn(f"No component of '{pipeline}' mixes ELMo layers")
        return
    print_mixes(rows, ("component", "place"))


def print_mixes(rows: list[dict], names: tuple[str, ...]) -> None:
    """Print mixes as a table, a row each.

    rows (List[dict]): What `learned_mixes` returned, and more if need be.
    names (Tuple[str, ...]): The keys of the first columns.
    """
    n_layers = max(len(row["weights"]) for row in rows)
    table = [
        (
            *(row[name] for name in names),
            *(f"{weight:.3f}" for weight in row["weights"]),
            f"{row['gamma']:.3f}",
        )
        for row in rows
    ]
    header = (*names, *(f"layer {i}" for i in range(n_layers)), "gamma")
    msg.table(table, header=header, divider=True, aligns=("l", *"r" * (len(header) - 1)))


def learned_mixes(nlp: Language) -> list[dict]:
    """Collect the mixes of a pipeline.

    nlp (Language): The pipeline.
    RETURNS (List[dict]): A row a mix: component, its number there, its place ("input" or
        "output" of an encoder, or "alone"), weights, gamma.
    """
    from ..layers.scalar_mix import mix_weights, mixes_of

    rows = []
    for name, pipe in nlp.pipeline:
        for number, node in enumerate(mixes_of(getattr(pipe, "model", None))):
            rows.append(
                {
                    "component": name,
                    "mix": number,
                    "place": node.attrs["place"],
                    "weights": [float(weight) for weight in mix_weights(node)],
                    "gamma": node.get_param("gamma").item(),
                }
            )
    return rows
