"""Command `python -m spacy elmo corpus`."""

from typing import Optional

import typer

from ..files.terminal import msg
from .errors import CommandLineError, stopped
from .options import FORMAT


def corpus_cli(
    inputs: list[str] = typer.Argument(..., help="Text: files, folders or globs"),
    output: str = typer.Argument(..., help="Folder for the corpus"),
    format: str = FORMAT,
    input_format: Optional[str] = typer.Option(
        None, help="Format of files whose suffix names none: 'txt' or 'jsonl'"
    ),
    lang: Optional[str] = typer.Option(
        None, help="Language of spaCy's tokenizer; required for running text"
    ),
    min_count: int = typer.Option(2, help="Words that occur less often are not in vocab.txt"),
    max_size: int = typer.Option(30_000, help="Maximum number of words in vocab.txt"),
    n_process: int = typer.Option(
        -1, "--workers", "--n-process", "-n", help="Processes on this machine; -1: one per core"
    ),
    worker: Optional[str] = typer.Option(
        None,
        help="K/N: read share K of N of the text, as one job of an array. When all jobs are done, "
        "run the same command without --worker to write the corpus",
    ),
    on_error: str = typer.Option(
        "skip", help="If a text cannot be read: 'skip' it, or 'refuse' to continue"
    ),
    max_sentence: int = typer.Option(10_000, help="Maximum number of tokens in a sentence"),
) -> None:
    """Prepare text of any size for `spacy elmo pretrain`.

    The output contains word ids, which training reads from disk. If the command is interrupted,
    run it again: it resumes.

    Example: python -m spacy elmo corpus text/ more.txt.gz corpus --workers 4
    """
    from ..files.remote import is_url
    from ..text.manifest import read_manifest
    from ..text.prepare import prepare
    from ..text.settings import PrepareSettings

    if is_url(output):
        raise CommandLineError(
            f"{output}: a corpus cannot be written to a URL. Write it to a disk, and copy it"
        )
    settings = PrepareSettings(
        format=format,
        input_format=input_format,
        lang=lang,
        min_count=min_count,
        max_size=max_size,
        max_sentence=max_sentence,
        on_error=on_error,
        n_process=n_process,
        worker=worker,
    )
    with stopped("Stopped. To resume, run the same command again"):
        corpus = prepare(inputs, output, settings)
    if corpus is None:
        msg.good(
            f"Read share {worker}. When all are read, run the same command without --worker to "
            f"write {output}"
        )
        return
    manifest = read_manifest(output) or {}
    counts = manifest["counts"]
    skipped = sum(manifest["skipped"]["by_file"].values())
    rows = [(name, f"{counts[name]:,}") for name in ("tokens", "sentences", "types")]
    msg.table([*rows, ("left out", f"{skipped:,}")], aligns=("l", "r"))
    msg.good(f"Wrote {output}")
