"""Tokenization of running text for pretraining configs with `format = "sentences"`.

The output has one sentence per line, with tokens separated by spaces.
"""

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
    exclude: list[str] = typer.Option([], help="Name of a file to leave out; can be repeated"),
    lang: str = typer.Option("en", help="Language of spaCy's tokenizer"),
    only_for: Optional[str] = typer.Option(
        None, help="Text that pretraining will read. If it is not OUTPUT, do nothing"
    ),
) -> None:
    """Split text into sentences and tokens with spaCy's sentencizer and tokenizer."""
    if only_for is not None and Path(only_for) != output:
        msg.info(f"{output} is not needed: pretraining reads {only_for}")
        return
    with no_traceback():
        files = find_text(inputs, exclude)
        n_sentences, n_tokens = write_sentences(files, output, lang)
    msg.good(f"{output}: {n_sentences:,} sentences, {n_tokens:,} tokens from {len(files)} files")


def find_text(inputs: list[str], exclude: list[str]) -> list[Path]:
    """Return the files of the inputs, without the excluded names.

    inputs (List[str]): Files, folders or globs.
    exclude (List[str]): Names of files to leave out.
    RAISES (ValueError): An input is missing or empty.
    """
    try:
        return [file for file in find_files(inputs) if file.name not in exclude]
    except ValueError as error:
        raise ValueError(
            f"{error}. Download the text with `python -m spacy project assets`, or use your own "
            f"text with --vars.lm_train and --vars.lm_dev"
        ) from None


def write_sentences(files: list[Path], output: Path, lang: str) -> tuple[int, int]:
    """Write the sentences of files to one file. If this fails, an existing file is unchanged.

    RETURNS (Tuple[int, int]): Number of sentences, and number of tokens.
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
