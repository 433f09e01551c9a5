"""Command `python -m spacy elmo embed`."""

from typing import Optional

import typer

from ..files.terminal import msg
from .errors import stopped
from .options import FORMAT, INPUT_FORMAT, MODEL


def embed_cli(
    model: str = MODEL,
    inputs: list[str] = typer.Argument(
        ...,
        metavar="INPUT...",
        help="Text (.txt, .jsonl, .tsv, .conllu, .conll, .parquet, .spacy): files, folders, globs "
        "or URLs",
    ),
    output: str = typer.Argument(..., help="Output file; with --shards a folder or URL"),
    layers: str = typer.Option(
        "vector",
        help="'vector' (the pipe's mix, like token.vector), 'all', 'top', 'average', the number of "
        "a layer, or 'mix:PIPE', the mix that the component PIPE learned",
    ),
    dtype: str = typer.Option(
        "float32", help="Type of the vectors: 'float32', 'float16', or 'int8' with scales"
    ),
    pool: Optional[str] = typer.Option(
        None,
        help="Write one mean vector per 'sentence', per 'doc', or per 'span' that --only selects",
    ),
    only: Optional[str] = typer.Option(
        None,
        help="Only tokens in entities ('ents'), only nouns ('nouns'), or only tokens in spans with "
        "these labels (PERSON,ORG)",
    ),
    sentence_marks: bool = typer.Option(
        False, "--sentence-marks", help="Also write the vectors of <S> and </S> of each sentence"
    ),
    precision: Optional[str] = typer.Option(
        None, help="'float32', 'bfloat16', 'int8' or 'auto'; default: the pipe's"
    ),
    format: str = FORMAT,
    lang: Optional[str] = typer.Option(
        None,
        help="Language of spaCy's tokenizer, if MODEL is not a pipeline; default: the language of "
        "the weights, or en",
    ),
    input_format: Optional[str] = INPUT_FORMAT,
    column: Optional[str] = typer.Option(
        None,
        help="In .tsv files: column of the text, as a name in the first line or a number from 1. "
        "In .conll files: number of the column of the words; default: 1",
    ),
    max_tokens: int = typer.Option(10_000, help="Maximum number of tokens in a sentence or Doc"),
    output_format: Optional[str] = typer.Option(
        None,
        help="'hdf5', 'npz', 'parquet' or 'spacy' (a folder); default: by the suffix of OUTPUT, "
        "'parquet' for shards",
    ),
    texts: str = typer.Option(
        "index",
        help="Write the texts as 'index' (sentence_to_index, column text), as 'keys' (names of "
        "HDF5's datasets), or 'none'",
    ),
    shards: Optional[int] = typer.Option(
        None, help="Write a folder with at most this number of files"
    ),
    workers: str = typer.Option(
        "1",
        help="Number of processes on this machine (if several, each has one thread), or 'ray' for "
        "the Ray cluster in RAY_ADDRESS",
    ),
    worker: Optional[str] = typer.Option(
        None, help="K/N: write the share of job K in an array of N jobs: every N-th shard from K on"
    ),
    resume: bool = typer.Option(
        False, "--resume", help="Resume an unfinished output; do nothing if it is finished"
    ),
    force: bool = typer.Option(
        False, "--force", "-F", help="Replace an existing output; without --resume, start again"
    ),
) -> None:
    """Write the vectors of a text of any size to a file.

    Formats: HDF5 like AllenNLP's command elmo, .npz, Parquet, or spaCy Docs. The output gets its
    name when it is complete. If the command is interrupted, run it again: it resumes.

    Example: python -m spacy elmo embed en_small text.txt vectors.hdf5 --layers all
    """
    from ..export import Embedder, ExportSettings, embed_corpus

    embedder = Embedder(
        model,
        layers=layers,
        dtype=dtype,
        precision=precision,
        lang=lang,
        sentence_marks=sentence_marks,
        pool=pool,
        only=only,
    )
    settings = ExportSettings(
        output_format=output_format,
        format=format,
        input_format=input_format,
        column=column,
        max_tokens=max_tokens,
        texts=texts,
        shards=shards,
        workers=int(workers) if workers.isdecimal() else workers,
        worker=worker,
        resume=resume,
        force=force,
    )
    with stopped("Stopped. To resume, run the same command with --resume"):
        counts = embed_corpus(embedder, inputs, output, settings)
    if shards is not None and not counts.entries:
        msg.good(f"Already finished: {output}", "No shard was left to make")
        return
    msg.good(f"Wrote {output}", f"{counts.entries:,} entries, {counts.tokens:,} tokens")
