"""`python -m spacy elmo corpus`"""

from typing import Optional

import typer

from ..files.terminal import msg
from .errors import CommandLineError, stopped
from .options import FORMAT


def corpus_cli(
    inputs: list[str] = typer.Argument(..., help="Text: files, folders or globs"),
    output: str = typer.Argument(..., help="Folder for the corpus"),
    format: str = FORMAT,
    lang: Optional[str] = typer.Option(
        None, help="Language of spaCy's tokenizer; running text needs it"
    ),
    min_count: int = typer.Option(2, help="Least count of a word of the vocabulary"),
    max_size: int = typer.Option(30_000, help="Most words of the vocabulary"),
    n_process: int = typer.Option(
        -1, "--workers", "--n-process", "-n", help="Processes on this machine; -1 is one a core"
    ),
    worker: Optional[str] = typer.Option(
        None,
        help="K/N: read the K-th of N shares of the text, as one of N in an array of jobs. When "
        "all have, the same without --worker writes the corpus",
    ),
    on_error: str = typer.Option(
        "skip", help="What cannot be read: 'skip' it, or 'refuse' to go on"
    ),
    max_sentence: int = typer.Option(10_000, help="Most tokens of a sentence"),
) -> None:
    """Prepare text of any size for `spacy elmo pretrain`: numbers instead of words,
    read from disk while training. If it is interrupted, run it again: it resumes.

    Example: python -m spacy elmo corpus text/ more.txt.gz corpus --max-size 100000
    """
    from ..files.remote import is_url
    from ..text.manifest import read_manifest
    from ..text.prepare import prepare

    if is_url(output):
        raise CommandLineError(f"{output}: a corpus is written to a disk, and copied afterwards")
    with stopped("Stopped. To resume, run the same command again"):
        corpus = prepare(
            inputs,
            output,
            format=format,
            lang=lang,
            min_count=min_count,
            max_size=max_size,
            n_process=n_process,
            on_error=on_error,
            max_sentence=max_sentence,
            worker=worker,
        )
    if corpus is None:
        msg.good(
            f"Read share {worker}; when all are read, the same without --worker writes {output}"
        )
        return
    manifest = read_manifest(output) or {}
    counts = manifest["counts"]
    skipped = sum(manifest["skipped"]["by_file"].values())
    rows = [(name, f"{counts[name]:,}") for name in ("tokens", "sentences", "documents", "types")]
    msg.table([*rows, ("left out", f"{skipped:,}")], aligns=("l", "r"))
    msg.good(f"Wrote {output}")
