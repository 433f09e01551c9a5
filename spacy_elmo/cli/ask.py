"""Command `python -m spacy elmo ask`."""

from pathlib import Path
from typing import Any, Optional

import srsly
import typer

from ..files import check_regular
from ..files.input_files import read_text
from ..files.terminal import echo, msg
from ..tasks.texts import ANSWER, make_pair, read_halves
from ..tasks.texts.qa import QuestionAnswerer
from .options import load_pipeline

AROUND = 8  # Number of tokens to show on each side of an answer.


def ask_cli(
    pipeline: str = typer.Argument(..., help="Pipeline with elmo_qa (folder or package)"),
    file: Path = typer.Argument(..., help="Plain text file", exists=True, dir_okay=False),
    question: str = typer.Argument(..., help="The question"),
    min_score: Optional[float] = typer.Option(
        None,
        min=0.0,
        max=1.0,
        help="Minimum score of an answer, between 0 and 1; default: the pipeline's setting",
    ),
    as_json: bool = typer.Option(
        False, "--json", help="Print JSON, with the answer's position in the file"
    ),
) -> None:
    """Answer a question with a span of a text.

    Example: python -m spacy elmo ask training/model-best text.txt "Who founded the city?"
    """
    nlp = load_pipeline(pipeline)
    pipe = next((pipe for _, pipe in nlp.pipeline if isinstance(pipe, QuestionAnswerer)), None)
    if pipe is None:
        has = ", ".join(nlp.pipe_names)
        raise ValueError(f"the pipeline '{pipeline}' has no elmo_qa. It has {has}")
    if min_score is not None:
        pipe.min_score = min_score
    groups = pipe.model.attrs["groups"]
    check_regular(file)
    text = read_text(file)
    if not text.strip():
        raise ValueError(f"{file} is empty. Give a file with text")
    if not question.strip():
        raise ValueError("the question is empty")
    doc = nlp(make_pair(nlp, question, text, groups))
    answer = next(iter(doc.spans[ANSWER]), None)
    context = read_halves(doc, groups).second
    if as_json:
        found: dict[str, Any] = dict.fromkeys(("answer", "start_char", "end_char", "score"))
        if answer is not None:
            start = answer.start_char - doc[context.start].idx
            found["answer"], found["score"] = answer.text, doc.spans[ANSWER].attrs["scores"][0]
            found["start_char"], found["end_char"] = start, start + len(answer.text)
        print(srsly.json_dumps(found, indent=2))
        return
    if answer is None:
        msg.warn("No answer")
        return
    msg.good(answer.text)
    first = max(context.start, answer.start - AROUND)
    last = min(context.stop, answer.end + AROUND)
    echo(" ".join(doc[first:last].text.split()))
