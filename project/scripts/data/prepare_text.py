"""Running text to a sentence a line, tokens separated by spaces: what a pretraining config
with `format = "sentences"` reads."""

from pathlib import Path

import typer
from tqdm import tqdm
from wasabi import msg

from spacy_elmo.text.reading import find_files, read_sentences


def main(
    output: Path = typer.Argument(..., help="Text file to write", dir_okay=False),
    inputs: list[str] = typer.Argument(..., help="Files, folders or globs of running text"),
    exclude: list[str] = typer.Option([], help="Names of files to leave out"),
    lang: str = typer.Option("en", help="Language of spaCy's tokenizer"),
) -> None:
    """Split and tokenise text with spaCy's tokenizer and sentencizer."""
    files = [file for file in find_files(inputs) if file.name not in exclude]
    output.parent.mkdir(parents=True, exist_ok=True)
    unfinished = output.with_name(output.name + ".part")
    n_sentences = n_tokens = 0
    with unfinished.open("w", encoding="utf8", newline="\n") as stream:
        for file in tqdm(files, desc=output.name, unit=" files"):
            for tokens in read_sentences([file], running_text=True, lang=lang):
                if tokens:
                    stream.write(" ".join(tokens) + "\n")
                    n_sentences += 1
                    n_tokens += len(tokens)
    unfinished.replace(output)
    msg.good(f"{output}: {n_sentences:,} sentences, {n_tokens:,} tokens of {len(files)} files")


if __name__ == "__main__":
    typer.run(main)
