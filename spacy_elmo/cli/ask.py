"""Command `python -m spacy elmo ask`."""

from pathlib import Path

import srsly
import typer

from ..files import check_regular
from ..files.terminal import echo, msg
from ..tasks.texts import ANSWER, make_pair, read_halves
from ..tasks.texts.qa import QuestionAnswerer
from .pipelines import load_pipeline

AROUND = 8  # Tokens to show on each side of an answer.


def ask_cli(
    pipeline: str = typer.Argument(..., help="Pipeline with elmo_qa (folder or package)"),
    file: Path = typer.Argument(..., help="Plain text file", exists=True, dir_okay=False),
    question: str = typer.Argument(..., help="The question"),
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
    groups = pipe.model.attrs["groups"]
    check_regular(file)
    text = file.read_text("utf-8-sig")
    if not text.strip():
        raise ValueError(f"{file} is empty. Give a file with text")
    if not question.strip():
        raise ValueError("the question is empty")
    doc = nlp(make_pair(nlp, question, text, groups))
    (answer,) = doc.spans[ANSWER]
    context = read_halves(doc, groups).second
    first = max(context.start, answer.start - AROUND)
    last = min(context.stop, answer.end + AROUND)
    if as_json:
        start = answer.start_char - doc[context.start].idx
        found = {
            "answer": answer.text,
            "start_char": start,
            "end_char": start + len(answer.text),
            "score": doc.spans[ANSWER].attrs["scores"][0],
        }
        print(srsly.json_dumps(found, indent=2))
        return
    msg.good(answer.text)
    echo(" ".join(doc[first:last].text.split()))
