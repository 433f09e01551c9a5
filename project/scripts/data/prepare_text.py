"""This script turns running text into a sentence a line, tokens separated by spaces: what a
pretraining config with `format = "sentences"` reads."""

from pathlib import Path
from typing import Optional

import typer
from tqdm import tqdm
from wasabi import msg

from spacy_elmo.cli.errors import no_traceback
from spacy_elmo.files import atomic_stream
from spacy_elmo.text.reading import find_files, read_sentences


def main(
    output: Path = typer.Argument(..., help="Text file to write", dir_okay=False),
    inputs: list[str] = typer.Argument(..., help="Files, folders or globs of running text"),
    exclude: list[str] = typer.Option([], help="Names of files to leave out"),
    lang: str = typer.Option("en", help="Language of spaCy's tokenizer"),
    only_for: Optional[str] = typer.Option(
        None, help="The text that will be read: where it is not OUTPUT, nothing needs to be done"
    ),
) -> None:
    """Split and tokenize text with spaCy's tokenizer and sentencizer."""
    if only_for is not None and Path(only_for) != output:
        msg.info(f"{output} is not needed: {only_for} is read in its place")
        return
    with no_traceback():
        files = find_text(inputs, exclude)
        n_sentences, n_tokens = write_sentences(files, output, lang)
    msg.good(f"{output}: {n_sentences:,} sentences, {n_tokens:,} tokens of {len(files)} files")


def find_text(inputs: list[str], exclude: list[str]) -> list[Path]:
    """Find the files of the inputs but those that are to be left out.

    RAISES (ValueError): An input is missing or empty; the message says how to go on.
    """
    try:
        return [file for file in find_files(inputs) if file.name not in exclude]
    except ValueError as error:
        raise ValueError(
            f"{error}: fetch the text by `python -m spacy project assets`, or have text of your "
            f"own read by --vars.lm_train and --vars.lm_dev"
        ) from None


def write_sentences(files: list[Path], output: Path, lang: str) -> tuple[int, int]:
    """Write the sentences of files, whole or not at all.

    RETURNS (Tuple[int, int]): How many sentences and tokens there are.
    """
    n_sentences = n_tokens = 0
    with atomic_stream(output) as stream:
        for file in tqdm(files, desc=output.name, unit=" files"):
            for tokens in read_sentences([file], format="text", lang=lang):
                if tokens:
                    stream.write(f"{' '.join(tokens)}\n".encode())
                    n_sentences += 1
                    n_tokens += len(tokens)
    return n_sentences, n_tokens


if __name__ == "__main__":
    typer.run(main)
