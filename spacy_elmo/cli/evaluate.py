"""Command `python -m spacy elmo evaluate`."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Optional

import srsly
import typer
from spacy.language import Language
from spacy.training import Example
from spacy.util import dot_to_object, registry

from ..compat import import_code, setup_gpu
from ..files import atomic_write, check_regular
from ..files.errors import named_errors
from ..files.input_files import BROKEN
from ..files.terminal import msg
from .errors import check_new
from .options import CODE, FORCE, GPU_ID, PIPELINE, READER, load_pipeline

CORPUS = "spacy.Corpus.v1"
TOKEN_SCORES = "token_"
BY_LABEL = re.compile("(.+)_per_(type|feat)")  # spaCy's names of scores with a value per label.
SHORT = {"p": "precision", "r": "recall", "f": "F"}


def evaluate_cli(
    pipeline: str = PIPELINE,
    data: Path = typer.Argument(
        ..., help="Gold data in the reader's format: .jsonl, .spacy", exists=True
    ),
    reader: Optional[str] = READER,
    output: Optional[Path] = typer.Option(None, "--output", "-o", help="JSON file of all scores"),
    code: Optional[Path] = CODE,
    gpu_id: int = GPU_ID,
    force: bool = FORCE,
) -> None:
    """Score a pipeline on gold data of its tasks, in total and by label.

    Use it for pairs, questions, roles and clusters: `spacy evaluate` cannot read their files, or
    does not show their scores.

    Example: python -m spacy elmo evaluate training/model-best test.jsonl
    """
    check_new(output, force=force)
    import_code(code)
    setup_gpu(gpu_id)
    nlp = load_pipeline(pipeline)
    scores = nlp.evaluate(read_gold_examples(nlp, data, reader))
    rows = [(name, f"{100 * scores[name]:.2f}") for name in main_scores(nlp, scores)]
    if not rows:
        raise ValueError(f"{data} has no annotation for {', '.join(nlp.pipe_names)}")
    if output is not None:
        atomic_write(output, srsly.json_dumps(scores, indent=2) + "\n")
    msg.table([*rows, ("words/s", f"{scores['speed']:,.0f}")], aligns=("l", "r"))
    for title, by_label in scores_by_label(scores).items():
        names = list(next(iter(by_label.values())))
        table = [
            (label, *(f"{100 * found[name]:.2f}" for name in names))
            for label, found in sorted(by_label.items())
        ]
        header = (title, *(SHORT.get(name, name) for name in names))
        msg.table(table, header=header, divider=True, aligns=("l", *"r" * len(names)))


def main_scores(nlp: Language, scores: dict[str, Any]) -> list[str]:
    """Return the names of the scores to show.

    These are the scores that have a weight in the pipeline's config. If no score has a weight, all
    scores that are numbers are shown, except token scores and speed.
    """
    numbers = [name for name, score in scores.items() if isinstance(score, float)]
    weights = nlp.config["training"]["score_weights"]
    weighted = [name for name, weight in weights.items() if weight is not None and name in numbers]
    others = [name for name in numbers if name != "speed" and not name.startswith(TOKEN_SCORES)]
    return weighted or others


def scores_by_label(scores: dict[str, Any]) -> dict[str, dict[str, dict[str, float]]]:
    """Return the scores of each label, such as `ents_per_type`.

    scores (Dict[str, Any]): The result of `nlp.evaluate`.
    RETURNS (Dict[str, Dict[str, Dict[str, float]]]): For each kind of score, such as "ents", the
        scores of each label by name. Kinds without labels, and labels without scores, are left out.
    """
    found: dict[str, dict[str, dict[str, float]]] = {}
    for name, by_label in scores.items():
        match = BY_LABEL.fullmatch(name)
        if match and isinstance(by_label, dict):
            # The scores of a label are a dict or, as in `cats_auc_per_type`, one number.
            rows = {
                label: value if isinstance(value, dict) else {"score": value}
                for label, value in by_label.items()
                if value is not None
            }
            if rows:
                found[match[1]] = rows
    return found


def read_gold_examples(nlp: Language, data: Path, reader: Optional[str] = None) -> list[Example]:
    """Read examples with the reader that the pipeline's config has for its dev data.

    The reader has the settings in the config, but another `reader` has its default settings. For
    spaCy's own reader, only the setting `gold_preproc` is used, as in `spacy evaluate`.

    nlp (Language): The pipeline.
    data (Path): The file.
    reader (Optional[str]): Name of a registered reader. Default: the reader for dev data.
    RETURNS (List[Example]): The examples.
    RAISES (ValueError): There are no examples, or there is no such reader.
    """
    check_regular(data)
    block = _block_of_dev(nlp)
    if reader is not None and reader != block["@readers"]:
        block = {"@readers": reader}
    name = block["@readers"]
    if not registry.has("readers", name):
        raise ValueError(f"there is no reader '{name}'. Give the reader of {data} as --reader")
    if name == CORPUS:
        block = {"@readers": name, "gold_preproc": block.get("gold_preproc", False)}
        if data.is_file() and data.suffix != ".spacy":
            raise ValueError(f"{name} reads .spacy, not {data}. Give a --reader that reads it")
    read: Callable[[Language], Iterator[Example]]
    read = registry.resolve({"corpus": {**block, "path": str(data)}})["corpus"]
    kinds = BROKEN if name == CORPUS else ()  # Errors of spaCy's own reader do not name the file.
    with named_errors(f"{data} is not a .spacy file, or it is broken", kinds):
        examples = list(read(nlp))
    if not examples:
        raise ValueError(f"{data} contains no examples for the reader {name}")
    return examples


def _block_of_dev(nlp: Language) -> dict[str, Any]:
    """Return the block of the config that reads dev data. Default: a block with spaCy's reader."""
    config = nlp.config.interpolate()
    try:
        return dict(dot_to_object(config, config["training"]["dev_corpus"]))
    except KeyError:
        return {"@readers": CORPUS}
