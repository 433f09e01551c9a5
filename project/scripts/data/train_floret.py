"""Training of floret vectors on the text of a language model.

floret stores fastText vectors in a small table of hashed subwords. `spacy init vectors --mode
floret` reads the file.
"""

import tempfile
from pathlib import Path
from typing import Any

import typer
from tqdm import tqdm
from wasabi import msg

from spacy_elmo.cli.errors import no_traceback
from spacy_elmo.text.reading import find_files, read_sentences


def import_floret() -> Any:
    """Import floret.

    RAISES (ValueError): floret is not installed.
    """
    try:
        import floret
    except ImportError:
        raise ValueError("floret is not installed. Install it with `pip install floret`") from None
    return floret


def main(
    output: Path = typer.Argument(..., help="File to write (.floret)", dir_okay=False),
    inputs: list[str] = typer.Argument(..., help="Text files, folders or globs"),
    format: str = typer.Option(
        "sentences", help="'sentences' (one per line, tokens separated by spaces) or 'text'"
    ),
    lang: str = typer.Option("en", help="Language of spaCy's tokenizer for running text"),
    dim: int = typer.Option(300, min=1, help="Width of the vectors"),
    epochs: int = typer.Option(5, min=1, help="Passes over the text"),
    threads: int = typer.Option(
        1, min=1, help="Threads. With more than 1, each run gives other vectors"
    ),
) -> None:
    """Train vectors with the settings that spaCy's documentation recommends for English."""
    with no_traceback():
        floret = import_floret()
        output.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", encoding="utf8", suffix=".txt") as text:
            sentences = read_sentences(find_files(inputs), format=format, lang=lang)
            for tokens in tqdm(sentences, unit=" sentences"):
                if tokens:
                    text.write(" ".join(tokens) + "\n")
            text.flush()
            model = floret.train_unsupervised(
                text.name,
                model="cbow",
                mode="floret",
                hashCount=2,
                bucket=50_000,
                minn=5,
                maxn=6,
                dim=dim,
                epoch=epochs,
                thread=threads,
            )
        model.save_floret_vectors(str(output))
    msg.good(f"Wrote {output}")


if __name__ == "__main__":
    typer.run(main)
