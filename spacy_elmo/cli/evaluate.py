"""`python -m spacy elmo evaluate`"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Optional

import spacy
import srsly
import typer
from spacy.cli._util import setup_gpu
from spacy.language import Language
from spacy.training import Example
from spacy.util import registry
from wasabi import msg

from ..files import atomic_write

CORPUS = "spacy.Corpus.v1"


def evaluate_cli(
    pipeline: str = typer.Argument(..., help="Folder or package name of a pipeline"),
    data: Path = typer.Argument(..., help="What its reader reads: .jsonl, .spacy", exists=True),
    reader: Optional[str] = typer.Option(
        None, help="Reader, such as spacy-elmo.QACorpus.v1; default: that of the config's dev data"
    ),
    output: Optional[Path] = typer.Option(None, "--output", "-o", help="JSON file of all scores"),
    gpu_id: int = typer.Option(-1, "--gpu-id", "-g", help="GPU, or -1 for the CPU"),
) -> None:
    """Score a pipeline on the files of its tasks: pairs, questions, roles and clusters, which
    `spacy evaluate` does not read, or of which it does not show the scores.

    Example: python -m spacy elmo evaluate training/model-best test.jsonl
    """
    setup_gpu(gpu_id, silent=True)
    nlp = spacy.load(Path(pipeline) if Path(pipeline).exists() else pipeline)
    scores = nlp.evaluate(read_examples(nlp, data, reader))
    if output is not None:
        atomic_write(output, srsly.json_dumps(scores, indent=2) + "\n")
    weights = nlp.config["training"]["score_weights"]
    names = [name for name, weight in weights.items() if weight is not None]
    rows = [(name, scores[name]) for name in names if isinstance(scores.get(name), float)]
    if not rows:
        raise ValueError(f"{data} has no annotation that {', '.join(nlp.pipe_names)} could score")
    shown = [(name, f"{100 * score:.2f}") for name, score in rows]
    msg.table([*shown, ("words/s", f"{scores['speed']:,.0f}")], aligns=("l", "r"))


def read_examples(nlp: Language, data: Path, reader: Optional[str] = None) -> list[Example]:
    """Read examples as the pipeline's own config says.

    nlp (Language): The pipeline.
    data (Path): The file.
    reader (Optional[str]): A registered reader, in place of the config's for its dev data.
    RETURNS (List[Example]): The examples.
    RAISES (ValueError): The reader finds none there, or there is no such reader.
    """
    block = nlp.config.interpolate()["corpora"]["dev"]
    if reader is not None and reader != block["@readers"]:
        block = {"@readers": reader, **({"gold_preproc": False} if reader == CORPUS else {})}
    name = block["@readers"]
    if not registry.has("readers", name):
        raise ValueError(f"there is no reader '{name}': give that of {data} as --reader")
    if name == CORPUS and data.is_file() and data.suffix != ".spacy":
        raise ValueError(f"{name} reads .spacy, not {data}: give a --reader that reads it")
    read: Callable[[Language], Iterator[Example]]
    read = registry.resolve({"corpus": {**block, "path": str(data)}})["corpus"]
    examples = list(read(nlp))
    if not examples:
        raise ValueError(f"{data} holds no examples for the reader {name}")
    return examples
