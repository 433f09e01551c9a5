"""Command `python -m spacy elmo mix`."""

from pathlib import Path
from typing import Optional

import srsly

from ..files.terminal import msg
from ..pipeline.mixes import learned_mixes
from .errors import check_new
from .options import AS_JSON, FORCE, HTML, PIPELINE, load_pipeline


def mix_cli(
    pipeline: str = PIPELINE,
    as_json: bool = AS_JSON,
    html: Optional[Path] = HTML,
    force: bool = FORCE,
) -> None:
    """Print the mixes of layers that components learned.

    A mix is the weighted mean of the layers, multiplied by gamma. Layer 0 is the token layer. The
    column "place" shows where the component reads ELMo: at the input of its encoder, at the output,
    or alone, as its only input.

    Example: python -m spacy elmo mix training/model-best
    """
    check_new(html, force=force)
    rows = learned_mixes(load_pipeline(pipeline))
    if html is not None:
        from ..viewer.page import write_page
        from ..viewer.sections import mix_section

        write_page(html, "Layer mixes", [mix_section(rows)], read=[pipeline])
    if as_json:
        print(srsly.json_dumps(rows, indent=2))
        return
    if not rows:
        msg.warn(f"No component of '{pipeline}' mixes ELMo layers")
        return
    several = len({row["upstream"] for row in rows}) > 1
    print_mixes(rows, ("component", "place", "upstream") if several else ("component", "place"))


def print_mixes(rows: list[dict], names: tuple[str, ...]) -> None:
    """Print mixes as a table with one row per mix.

    rows (List[dict]): The result of `learned_mixes`. The dicts may have more keys.
    names (Tuple[str, ...]): Keys of the dicts whose values are the first columns.
    """
    n_layers = max(len(row["weights"]) for row in rows)
    table = []
    for row in rows:
        weights = [f"{weight:.3f}" for weight in row["weights"]]
        weights += [""] * (n_layers - len(weights))
        table.append((*(row[name] or "" for name in names), *weights, f"{row['gamma']:.3f}"))
    header = (*names, *(f"layer {i}" for i in range(n_layers)), "gamma")
    msg.table(table, header=header, divider=True, aligns=("l", *"r" * (len(header) - 1)))
