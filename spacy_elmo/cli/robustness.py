"""Command `python -m spacy elmo robustness`."""

from pathlib import Path
from typing import Optional

import srsly
import typer

from ..compat import import_code, setup_gpu
from ..files.terminal import msg
from .errors import check_new
from .evaluate import main_scores, read_gold_examples
from .options import AS_JSON, CODE, FORCE, GPU_ID, HTML, PIPELINE, READER, load_pipeline


def robustness_cli(
    pipeline: str = PIPELINE,
    data: Path = typer.Argument(..., help="Gold data, as for `evaluate`", exists=True),
    damage: str = typer.Option(
        "keyboard,ocr,misspellings",
        help="Kinds of damage: a neighbor on the keyboard, a letter misread by OCR, common "
        "misspellings of English; `case` (or `lower`, `upper`, `title`): letter case",
    ),
    rates: str = typer.Option("0,0.05,0.1,0.2,0.3", help="Shares of the words to damage"),
    seed: int = typer.Option(0, min=0, help="Random seed of the words and their damage"),
    output: Optional[Path] = HTML,
    as_json: bool = AS_JSON,
    reader: Optional[str] = READER,
    code: Optional[Path] = CODE,
    gpu_id: int = GPU_ID,
    force: bool = FORCE,
) -> None:
    """Score any pipeline on text with damaged words.

    Only letters of words change; tokenization and annotation stay the same. The same seed damages
    the same words.

    Example: python -m spacy elmo robustness training/model-best test.spacy --output curve.html
    """
    from ..analysis.robustness import measure_robustness

    check_new(output, force=force)
    shares = [float(rate) for rate in rates.split(",")]
    if not all(0 <= rate <= 1 for rate in shares):
        raise ValueError(f"`rates` must be shares from 0 to 1, got {rates}")
    import_code(code)
    setup_gpu(gpu_id)
    nlp = load_pipeline(pipeline)
    examples = read_gold_examples(nlp, data, reader)
    kinds = [kind.strip() for kind in damage.split(",")]
    rows = list(measure_robustness(nlp, examples, kinds, shares, seed))
    weights = nlp.config["training"]["score_weights"]
    names = main_scores(nlp, rows[0]["scores"])
    names = [name for name in names if weights.get(name)] or names
    if not names:
        raise ValueError(f"{data} has no annotation for {', '.join(nlp.pipe_names)}")
    for row in rows:
        row["scores"] = {name: row["scores"][name] for name in names}
    if output is not None:
        from ..viewer.page import write_page
        from ..viewer.sections import curve_section

        sections = [curve_section(rows, name) for name in names]
        write_page(output, "Robustness", sections, read=(pipeline, data))
    if as_json:
        print(srsly.json_dumps(rows, indent=2))
        return
    header = ("damage", "damaged words", *names)
    table = [
        (row["damage"], f"{row['damaged']:.1%}", *(f"{row['scores'][name]:.2%}" for name in names))
        for row in rows
    ]
    msg.table(table, header=header, divider=True, aligns=("l", *"r" * (len(header) - 1)))
